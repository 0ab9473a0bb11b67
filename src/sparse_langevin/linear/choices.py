"""Which predictors are chosen, given what is known of each of them."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparse_langevin.linear.credible import CredibleSet
from sparse_langevin.linear.design import Array

CHOICES = ("auto", "threshold", "fdr", "pfer", "sets", "best")


def chosen(
    selection: str,
    inclusion: Array,
    threshold: float,
    fdr: float,
    pfer: float,
    present: sparse.csr_array | None,
    sets: Sequence[CredibleSet],
    groups: NDArray[Any] | None = None,
) -> NDArray[np.bool_]:
    """Return a mask of predictors.

    ``"threshold"``: those with an inclusion probability above the threshold. ``"auto"``: these, but of the members of
    a credible set only its representative and those whose probability is above the threshold even if the representative
    is in the model, so that they are no alternatives to it. ``"sets"``: the representatives alone. ``"fdr"`` and
    ``"pfer"``: as many of the most probable ones as have, on average, at most the share ``fdr`` of predictors without
    an effect, or the number ``pfer`` of them. ``"best"``: the model that was drawn most often. ``present`` has the
    predictors of each draw, and ``groups`` labels of predictors that are chosen together or not at all.
    """
    if selection == "best":
        assert present is not None
        return best_model(present)
    groups = np.arange(len(inclusion)) if groups is None else groups
    if selection in ("fdr", "pfer"):
        limit = {"share": fdr} if selection == "fdr" else {"number": pfer}
        order = np.argsort(-inclusion, kind="stable")
        leads = order[np.sort(np.unique(groups[order], return_index=True)[1])]  # the most probable one of each group
        return np.isin(groups, groups[leads[most_probable(inclusion[leads], **limit)]])
    found = inclusion > threshold if selection != "sets" else np.zeros(len(inclusion), bool)
    if selection == "auto" and present is not None:
        for group in sets:
            found[group.members] &= beside_representative(present, group) > threshold
    if selection != "threshold":
        found |= np.isin(groups, groups[[group.representative for group in sets]])
    return found


def beside_representative(present: sparse.csr_array, group: CredibleSet) -> Array:
    """Return the share of draws with each member of a set, of those with its representative."""
    members = present[:, group.members].toarray()
    found: Array = members[members[:, 0] != 0].mean(0)
    return found


def most_probable(inclusion: Array, number: float = math.inf, share: float = 1.0) -> NDArray[np.bool_]:
    """Choose as many of the most probable predictors as can be expected to have that number and share of false ones."""
    order = np.argsort(-inclusion, kind="stable")
    false, count = np.cumsum(1 - inclusion[order]), np.arange(1, len(order) + 1)
    found = np.zeros(len(inclusion), bool)
    found[order[(false <= number) & (false <= share * count)]] = True
    return found


def best_model(present: sparse.csr_array) -> NDArray[np.bool_]:
    """Choose the predictors of the model that was drawn most often, the first one of several."""
    sorted_rows = present.sorted_indices()
    models = Counter(tuple(row) for row in np.split(sorted_rows.indices, sorted_rows.indptr[1:-1]))
    found = np.zeros(present.shape[1], bool)
    found[list(models.most_common(1)[0][0])] = True
    return found
