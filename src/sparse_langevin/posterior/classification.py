r"""Scores of predicted class probabilities, and measures of their uncertainty.

For probabilities p of K classes, labels y and N examples:

    accuracy             share of examples whose largest p is at y
    nll                  mean of -log p_y, with p_y clipped from below at `SMALLEST`
    brier                mean of sum_k (p_k - 1[k = y])^2, from 0 to 2 (Brier, 1950); for two classes this is twice the
                         score of the second class alone
    ece                  sum_b n_b/N |accuracy_b - confidence_b| over bins b of equal width of the confidence max_k p_k
                         (Guo, Pleiss, Sun and Weinberger, 2017)
    entropy              -sum_k p_k log p_k, in nats: from 0 to log K
    mutual information   H(sum_s w_s p_s) - sum_s w_s H(p_s) over posterior samples s: the part of the entropy that more
                         data could remove; the rest is noise in the labels
    auroc                the probability that a score is larger outside the distribution than inside, where ties count
                         one half: the statistic of Mann and Whitney

Probabilities have the shape (n, classes, ...) and labels the shape (n, ...), as for `CategoricalLikelihood`. Arrays and
tensors are accepted alike.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr
from scipy.stats import rankdata

from sparse_langevin.posterior.mixture import Array

BINS = 15  # of Guo et al. (2017)
SMALLEST = 1e-12  # a mistake made with certainty costs 27.6 nats instead of infinitely many
TOLERANCE = 1e-3  # by which probabilities may miss the sum 1: they may have been rounded to 16 bits


@dataclass(frozen=True)
class Reliability:
    """Confidence and accuracy by bins of the confidence; `reliability` makes it."""

    edges: tuple[float, ...]
    """Ends of the bins, which have equal width from 0 to 1. A bin includes its upper end, and the first its lower."""
    count: tuple[int, ...]
    """Number of examples in each bin."""
    confidence: tuple[float, ...]
    """Mean of the largest probability in each bin; nan if the bin is empty."""
    accuracy: tuple[float, ...]
    """Share of examples in each bin that were classified correctly; nan if the bin is empty."""

    @property
    def share(self) -> Array:
        """Share of all examples in each bin."""
        return np.array(self.count) / sum(self.count)

    @property
    def ece(self) -> float:
        """Expected calibration error: the mean distance of accuracy and confidence, weighted by share."""
        gap = np.abs(np.array(self.accuracy) - np.array(self.confidence))
        return float(np.nansum(self.share * gap))


@dataclass(frozen=True)
class Scores:
    """How well predicted probabilities agreed with the labels; `assess` makes it."""

    count: int
    """Number of labels."""
    accuracy: float
    nll: float
    """Mean negative log probability of the labels, in nats."""
    brier: float
    ece: float
    reliability: Reliability
    """The bins behind `ece`, for `figures.reliability_figure`."""


def assess(probabilities: ArrayLike, labels: ArrayLike, *, bins: int = BINS) -> Scores:
    """Compare predicted probabilities with labels.

    Parameters
    ----------
    probabilities
        Shape (n, classes, ...), such as ``bank.classify(model, x).probabilities``.
    labels
        Integers from 0 to classes - 1, of shape (n, ...).
    bins
        Number of bins of the confidence.

    Examples
    --------
    >>> scores = assess([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]], [0, 1, 1])
    >>> round(scores.accuracy, 3), round(scores.brier, 3), round(scores.ece, 3)
    (0.667, 0.273, 0.3)
    """
    table = reliability(probabilities, labels, bins=bins)
    return Scores(
        count=sum(table.count),
        accuracy=accuracy(probabilities, labels),
        nll=nll(probabilities, labels),
        brier=brier(probabilities, labels),
        ece=table.ece,
        reliability=table,
    )


def accuracy(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Return the share of examples whose most probable class is the label; of equal ones the first counts."""
    p, y = _rows(probabilities, labels)
    return float((p.argmax(1) == y).mean())


def nll(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Return the mean negative log probability of the labels, with probabilities of at least `SMALLEST`."""
    p, y = _rows(probabilities, labels)
    return float(-np.log(np.maximum(p[np.arange(len(y)), y], SMALLEST)).mean())


def brier(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Return the Brier score: the mean squared distance between the probabilities and the labels, summed over classes.

    It is 0 for perfect predictions, 2 for certain mistakes, and 1 - 1/K if all K classes are equally probable.
    """
    p, y = _rows(probabilities, labels)
    error = p.copy()
    error[np.arange(len(y)), y] -= 1.0
    return float((error**2).sum(1).mean())


def ece(probabilities: ArrayLike, labels: ArrayLike, *, bins: int = BINS) -> float:
    """Return the expected calibration error of the most probable class; see `reliability`."""
    return reliability(probabilities, labels, bins=bins).ece


def reliability(probabilities: ArrayLike, labels: ArrayLike, *, bins: int = BINS) -> Reliability:
    """Sort examples by their confidence, the largest probability, into bins of equal width.

    Parameters
    ----------
    probabilities, labels
        See `assess`.
    bins
        Number of bins. The ECE depends on it: more bins find finer errors, but have fewer examples each, and chance
        alone then makes the ECE larger.
    """
    p, y = _rows(probabilities, labels)
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins!r}: {BINS} is usual")
    confidence, right = p.max(1), p.argmax(1) == y
    edges = np.linspace(0.0, 1.0, bins + 1)
    place = np.digitize(confidence, edges[1:-1], right=True)
    count = np.bincount(place, minlength=bins)
    known = np.where(count, count, np.nan)
    means = [np.bincount(place, weights=values, minlength=bins) / known for values in (confidence, right)]
    return Reliability(tuple(edges.tolist()), tuple(count.tolist()), *(tuple(mean.tolist()) for mean in means))


def entropy(probabilities: ArrayLike) -> Array:
    """Return the entropy over the classes in nats, of shape (n, ...)."""
    result: Array = entr(_probabilities(probabilities)).sum(1)
    return result


def mutual_information(probabilities: ArrayLike, weights: ArrayLike | None = None) -> Array:
    """Return the mutual information of label and parameters in nats, of shape (n, ...).

    `Classification` has it already; this function is for probabilities from elsewhere, such as an ensemble.

    Parameters
    ----------
    probabilities
        Those of each posterior sample, (samples, n, classes, ...).
    weights
        Weight of each sample; equal by default.
    """
    p = np.asarray(probabilities, dtype=float)
    share = np.ones(len(p)) if weights is None else np.asarray(weights, dtype=float)
    if p.ndim < 3 or share.shape != p.shape[:1] or not (share >= 0).all() or not share.sum() > 0:
        raise ValueError(
            "the mutual information needs probabilities (samples, n, classes, ...) and one weight per sample, not "
            f"negative and not all zero; got shape {p.shape} and weights {share!r}"
        )
    share = share / share.sum()
    expected = np.tensordot(share, np.stack([entropy(sample) for sample in p]), 1)
    result: Array = np.maximum(entropy(np.tensordot(share, p, 1)) - expected, 0.0)
    return result


def auroc(inside: ArrayLike, outside: ArrayLike) -> float:
    """Return how well a score tells examples from outside the distribution from those inside it.

    1 means that every score outside is larger, 0.5 that the score says nothing.

    Parameters
    ----------
    inside
        Scores, such as the entropy, of examples like those trained on.
    outside
        Scores of other examples, which should be larger.

    Examples
    --------
    >>> auroc([0.1, 0.3], [0.3, 0.7])
    0.875
    """
    low, high = (np.asarray(scores, dtype=float).reshape(-1) for scores in (inside, outside))
    if not low.size or not high.size or np.isnan(low).any() or np.isnan(high).any():
        raise ValueError(
            f"an AUROC needs scores that are not nan on both sides, got {low.size} inside with {np.isnan(low).sum()} "
            f"nan, and {high.size} outside with {np.isnan(high).sum()} nan"
        )
    ranks = rankdata(np.concatenate([low, high]), method="average")
    larger = ranks[low.size :].sum() - high.size * (high.size + 1) / 2
    return float(larger / (low.size * high.size))


def _rows(probabilities: ArrayLike, labels: ArrayLike) -> tuple[Array, NDArray[np.int64]]:
    """Return probabilities (N, classes) and labels (N,), one row for each label."""
    p, y = _probabilities(probabilities), np.asarray(labels)
    if y.shape != p.shape[:1] + p.shape[2:] or y.dtype.kind not in "biu" or not y.size:
        raise ValueError(
            f"probabilities of shape {p.shape} need integer labels of shape {p.shape[:1] + p.shape[2:]}, at least one; "
            f"got {y.dtype} of shape {y.shape}"
        )
    if y.min() < 0 or y.max() >= p.shape[1]:
        raise ValueError(
            f"labels run from {y.min()} to {y.max()}, but there are {p.shape[1]} classes (0 to {p.shape[1] - 1}): "
            "leave out examples without a label"
        )
    return np.moveaxis(p, 1, -1).reshape(-1, p.shape[1]), y.reshape(-1).astype(np.int64)


def _probabilities(values: ArrayLike) -> Array:
    p = np.asarray(values, dtype=float)
    if p.ndim < 2 or p.shape[1] < 2:
        raise ValueError(
            f"probabilities must have the shape (n, classes, ...) with two classes or more, got {p.shape}; for two "
            "classes and one probability q, pass the columns 1 - q and q"
        )
    if not np.isfinite(p).all() or (p < 0).any() or (np.abs(p.sum(1) - 1.0) > TOLERANCE).any():
        raise ValueError(
            "probabilities must lie between 0 and 1 and sum to 1 over the classes (dimension 1), but they run from "
            f"{p.min():.3g} to {p.max():.3g} and their sums from {p.sum(1).min():.3g} to {p.sum(1).max():.3g}: pass a "
            "softmax of logits, such as bank.classify(model, x).probabilities"
        )
    return p
