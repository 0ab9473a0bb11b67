"""Credible sets: predictors of which at least one has an effect, though it cannot be told which.

Predictors that are strongly correlated share the probability of an effect, and none of them may have a large one. A
credible set is built around the predictor with the largest probability: others that are correlated with all members
join, those first that stand for the effect in most of the draws that no member covers yet, until with probability
``level`` at least one member is in the model. As in susieR (Wang, Sarkar, Carbonetto and Stephens, 2020), the smallest
correlation between members is called the purity of a set.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparse_langevin.linear.design import Array, Design

LEAST = 0.02  # smallest inclusion probability of a predictor around which a set is built


@dataclass(frozen=True)
class CredibleSet:
    """Predictors that stand for one effect."""

    members: NDArray[np.intp]
    """Their indices, the most probable one first."""
    probability: float
    """That at least one of them has an effect."""
    purity: float
    """Smallest absolute correlation between two of them."""

    @property
    def representative(self) -> int:
        """The most probable member."""
        return int(self.members[0])


def credible_sets(
    effects: sparse.csr_array,
    inclusion: Array,
    design: Design,
    level: float = 0.95,
    purity: float = 0.5,
    groups: Sequence[NDArray[np.intp]] = (),
) -> list[CredibleSet]:
    """Return sets that have no predictor in common, from draws of the coefficients, (draws, predictors).

    ``groups`` of predictors that are in the model together make up sets of their own.
    """
    rows = (effects != 0).tocsr()
    present, free = rows.tocsc(), np.ones(len(inclusion), bool)
    found = []
    for members in groups:
        free[members] = False
        if (probability := float(inclusion[members[0]])) >= level:
            smallest = min(float(_correlations(int(j), design)[members].min()) for j in members)
            found.append(CredibleSet(members, probability, smallest))
    for lead in np.argsort(-inclusion, kind="stable"):
        if inclusion[lead] < LEAST:
            break
        if free[lead] and (new := _around(int(lead), rows, present, free, design, level, purity)) is not None:
            free[new.members] = False
            order = np.argsort(-inclusion[new.members], kind="stable")
            found.append(CredibleSet(new.members[order], new.probability, new.purity))
    return found


def summary(
    design: Design, fitted: Array, sure: NDArray[np.intp], enough: float = 0.8, share: float = 0.9, most: int = 50
) -> NDArray[np.intp]:
    """Return the few predictors, chosen one by one, that reproduce a share of the variance of fitted values.

    They are chosen beside those that are ``sure``; none if these reproduce ``enough`` of it. Fitted values are centred.
    """
    chosen = [int(j) for j in sure]
    total = float(fitted @ fitted)

    def rest() -> Array:
        basis = np.linalg.qr(design.columns(np.array(chosen, dtype=np.intp)))[0]
        left: Array = fitted - basis @ (basis.T @ fitted)
        return left

    left = rest()
    if left @ left <= (1 - enough) * total:
        return np.empty(0, np.intp)
    while len(chosen) - len(sure) < min(most, design.size - len(sure)) and left @ left > (1 - share) * total:
        strength = np.abs(design.products(left))
        strength[chosen] = -1.0
        chosen.append(int(strength.argmax()))
        left = rest()
    return np.array(sorted(chosen[len(sure) :]), dtype=np.intp)


def _around(
    lead: int,
    rows: sparse.csr_array,
    present: sparse.csc_array,
    free: NDArray[np.bool_],
    design: Design,
    level: float,
    purity: float,
) -> CredibleSet | None:
    """Return the set around a predictor, from its draws by row and by column; None if no set reaches the level."""
    draws, p = present.shape
    correlation = _correlations(lead, design)
    allowed = free & (correlation >= purity)
    allowed[lead] = True
    reached = np.zeros(draws, bool)
    reached[present[:, np.flatnonzero(allowed)].indices] = True
    if reached.mean() < level:
        return None
    covered, members, smallest, best = np.zeros(draws, bool), [], 1.0, lead
    gain = np.diff(present.indptr)  # how many draws that are not covered yet each predictor would cover
    while True:
        own = present.indices[present.indptr[best] : present.indptr[best + 1]]
        new = own[~covered[own]]
        covered[new] = True
        gain = gain - np.bincount(rows[new].indices, minlength=p)
        members.append(best)
        if (probability := float(covered.mean())) >= level:
            return CredibleSet(np.array(members), probability, smallest)
        allowed &= correlation >= purity
        allowed[best] = False
        best = int(np.where(allowed, gain, -1).argmax())
        if not allowed[best] or gain[best] < max(1.0, 0.001 * draws):
            return None
        smallest = min(smallest, float(correlation[best]))
        correlation = np.minimum(correlation, _correlations(best, design))


def _correlations(j: int, design: Design) -> Array:
    """Return the absolute correlation of predictor j with all predictors."""
    column = design.columns(np.array([j]))[:, 0]
    products = np.abs(design.products(column))
    found: Array = np.minimum(products / products[j], 1.0)
    return found
