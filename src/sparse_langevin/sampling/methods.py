"""The four algorithms by name, and how they differ."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Method:
    """One of the methods."""

    name: str
    """The name that users write."""
    preconditioned: bool
    """Whether the steps are scaled by a preconditioner."""
    selects: bool
    """Whether the prior is a spike and slab, so that parameters have inclusion probabilities."""


METHODS = {
    method.name: method
    for method in (
        Method("sgld", preconditioned=False, selects=False),
        Method("psgld", preconditioned=True, selects=False),
        Method("sgld-sa", preconditioned=False, selects=True),
        Method("psgld-sa", preconditioned=True, selects=True),
    )
}


def method_named(name: str, also: Iterable[Method] = ()) -> Method:
    """Return the method called ``name``, one of the four or of ``also``; the error for an unknown name lists them all.

    Examples
    --------
    >>> method_named("psgld").preconditioned
    True
    >>> method_named("hmc")
    Traceback (most recent call last):
        ...
    ValueError: there is no method 'hmc': choose one of sgld, psgld, sgld-sa, psgld-sa
    """
    known = METHODS | {method.name: method for method in also}
    if name not in known:
        raise ValueError(f"there is no method {name!r}: choose one of {', '.join(known)}")
    return known[name]
