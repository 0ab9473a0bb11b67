"""The samples that remain in a bank after it exceeded its budget, and the files that are no longer needed.

A thinned bank keeps only the samples of steps ``offset + j * spacing``. These two numbers are on disk before the first
sample is removed. From then on a sample that is not on this grid does not count, even if a crash has left its file.
"""

from typing import NamedTuple

import numpy as np

from sparse_langevin.posterior.encoding import DAMAGE, mask_of, pack, unpack
from sparse_langevin.posterior.store import THINNING, Place, Store, blaming, digests, mask_name, places


class Spacing(NamedTuple):
    """The steps at which a thinned bank has samples."""

    offset: int
    spacing: int

    def has(self, step: int) -> bool:
        """Whether a sample of this step is kept."""
        return (step - self.offset) % self.spacing == 0


def read_spacing(store: Store) -> Spacing | None:
    """Return the grid of a thinned bank; None if the bank has all its samples."""
    if not store.has(THINNING):
        return None
    with blaming(store, THINNING):
        facts, _ = unpack(store.read(THINNING))
        return Spacing(facts["offset"], facts["spacing"])


def write_spacing(store: Store, grid: Spacing) -> None:
    """Write the grid, then remove the samples that are not on it."""
    store.write(THINNING, pack(grid._asdict(), np.zeros(0, np.uint8)))
    remove_unused(store)


def kept(store: Store, chain: int | None = None) -> list[Place]:
    """Return the samples on the grid, ordered by chain and step; of one chain only if ``chain`` is given."""
    grid = read_spacing(store)
    return [place for place in places(store.sizes(), "sample", chain) if grid is None or grid.has(place.step)]


def remove_unused(store: Store) -> None:
    """Remove samples that are not on the grid, and masks that nothing refers to."""
    wanted = {place.name("sample") for place in kept(store)}
    for place in places(store.sizes(), "sample"):
        if place.name("sample") not in wanted:
            store.remove(place.name("sample"))
    names = store.sizes()
    wanted |= {place.name("base") for place in places(names, "base")}
    try:
        used = {mask_name(mask_of(store.read(name))) for name in wanted}
    except DAMAGE:
        return  # nobody knows which mask the damaged file refers to
    for digest in digests(names):
        if mask_name(digest) not in used:
            store.remove(mask_name(digest))
