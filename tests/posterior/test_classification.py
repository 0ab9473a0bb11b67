"""Scores of class probabilities against scikit-learn, closed forms and sums done by hand."""

import itertools
import warnings

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn import metrics

from sparse_langevin.posterior import figures
from sparse_langevin.posterior.classification import (
    BINS,
    SMALLEST,
    Reliability,
    accuracy,
    assess,
    auroc,
    brier,
    ece,
    entropy,
    mutual_information,
    nll,
    reliability,
)

RNG = np.random.default_rng(0)
P = RNG.dirichlet([0.5, 1.0, 2.0, 0.3], size=400)
Y = RNG.integers(4, size=400)


def test_scores_agree_with_scikit_learn():
    scores = assess(P, Y)
    assert scores.count == 400
    assert scores.accuracy == pytest.approx(metrics.accuracy_score(Y, P.argmax(1)))
    assert scores.nll == pytest.approx(metrics.log_loss(Y, P, labels=range(4)), rel=1e-12)
    assert scores.brier == pytest.approx(metrics.brier_score_loss(Y, P, labels=range(4), scale_by_half=False))
    two = P[:, :2] / P[:, :2].sum(1, keepdims=True)
    binary = (Y > 1).astype(int)
    assert brier(two, binary) == pytest.approx(2 * metrics.brier_score_loss(binary, two[:, 1]))


def test_the_ends_of_the_scores():
    certain = np.eye(3)
    right = assess(certain, [0, 1, 2])
    assert (right.accuracy, right.nll, right.brier, right.ece) == (1.0, 0.0, 0.0, 0.0)
    wrong = assess(certain, [1, 2, 0])
    assert (wrong.accuracy, wrong.brier, wrong.ece) == (0.0, 2.0, 1.0)
    assert wrong.nll == pytest.approx(-np.log(SMALLEST))
    even = assess(np.full((8, 4), 0.25), [0, 0, 1, 1, 2, 2, 3, 3])
    assert even.nll == pytest.approx(np.log(4)) and even.brier == pytest.approx(0.75)
    assert even.accuracy == 0.25 and even.ece == pytest.approx(0.0)


def test_calibration_error_by_hand():
    """One bin with three examples and one with a single example, which lies on the bin's upper end."""
    confidence = [0.9, 1.0, 0.95, 0.6]
    correct = [True, True, False, False]
    p = np.array([[c, 1 - c] for c in confidence])
    y = [0 if c else 1 for c in correct]
    table = reliability(p, y, bins=5)
    assert table.edges == pytest.approx((0, 0.2, 0.4, 0.6, 0.8, 1.0)) and table.count == (0, 0, 1, 0, 3)
    assert table.confidence[4] == pytest.approx(0.95) and table.accuracy[4] == pytest.approx(2 / 3)
    assert np.isnan(table.confidence[0]) and np.isnan(table.accuracy[3])
    assert table.share.tolist() == [0, 0, 0.25, 0, 0.75]
    by_hand = 0.75 * (0.95 - 2 / 3) + 0.25 * (0.6 - 0)
    assert table.ece == ece(p, y, bins=5) == pytest.approx(by_hand)


@pytest.mark.parametrize("bins", [1, 7, BINS])
def test_calibration_error_example_by_example(bins):
    total = 0.0
    for low, high in itertools.pairwise(np.linspace(0, 1, bins + 1)):
        inside = [i for i in range(400) if low < P[i].max() <= high]
        gap = sum((P[i].argmax() == Y[i]) - P[i].max() for i in inside)
        total += abs(gap) / 400
    assert ece(P, Y, bins=bins) == pytest.approx(total)
    assert sum(reliability(P, Y, bins=bins).count) == 400


def test_labels_at_many_places():
    """Images of labels, (n, classes, height, width), count pixel by pixel."""
    images = P.reshape(4, 10, 10, 4).transpose(0, 3, 1, 2)
    found, flat = assess(torch.tensor(images), torch.tensor(Y.reshape(4, 10, 10))), assess(P, Y)
    assert found.count == 400
    for name in ("accuracy", "nll", "brier", "ece"):
        assert getattr(found, name) == pytest.approx(getattr(flat, name))
    np.testing.assert_allclose(entropy(images), entropy(P).reshape(4, 10, 10))


def test_entropies_in_closed_form():
    np.testing.assert_allclose(entropy([[1.0, 0.0, 0.0], [1 / 3] * 3, [0.5, 0.5, 0.0]]), [0, np.log(3), np.log(2)])
    np.testing.assert_allclose(entropy(P), stats.entropy(P, axis=1))
    # Samples that are certain of different classes: all of the entropy is about the parameters.
    apart = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])
    assert mutual_information(apart) == pytest.approx(np.log(2))
    assert mutual_information(apart, [3.0, 1.0]) == pytest.approx(stats.entropy([0.75, 0.25]))
    # Samples that agree: none of it is.
    assert mutual_information(np.stack([P, P, P])) == pytest.approx(np.zeros(400), abs=1e-12)


def test_mutual_information_is_a_mean_divergence():
    """It is the weighted mean of the divergences of the samples from their average."""
    samples, weights = RNG.dirichlet([1.0, 1.0, 1.0], size=(5, 7)), RNG.random(5)
    share = weights / weights.sum()
    mean = sum(w * p for w, p in zip(share, samples, strict=True))
    expected = sum(w * stats.entropy(p, mean, axis=1) for w, p in zip(share, samples, strict=True))
    np.testing.assert_allclose(mutual_information(samples, weights), expected)
    assert not np.allclose(mutual_information(samples), expected)


@pytest.mark.parametrize("decimals", [12, 1, 0])
def test_auroc_with_and_without_ties(decimals):
    inside, outside = RNG.normal(size=60).round(decimals), RNG.normal(0.7, size=45).round(decimals)
    pairs = [(a < b) + 0.5 * (a == b) for a in inside for b in outside]
    assert auroc(inside, outside) == pytest.approx(np.mean(pairs))
    scores, labels = np.concatenate([inside, outside]), [0] * 60 + [1] * 45
    assert auroc(inside, outside) == pytest.approx(metrics.roc_auc_score(labels, scores))
    assert auroc(outside, inside) == pytest.approx(1 - np.mean(pairs))
    assert auroc(inside, inside) == 0.5 and auroc([0], [1]) == 1.0 and auroc([2, 2], [2]) == 0.5


def test_what_is_refused():
    for score in (accuracy, nll, brier, ece, reliability, assess):
        with pytest.raises(ValueError, match=r"sum to 1 .* pass a softmax of logits"):
            score(RNG.normal(size=(3, 2)), [0, 1, 0])
        with pytest.raises(
            ValueError, match=r"need integer labels of shape \(400,\), at least one; got int64 of shape"
        ):
            score(P, Y[:-1])
        with pytest.raises(ValueError, match="got float64"):
            score(P, Y.astype(float))
        with pytest.raises(ValueError, match=r"labels run from -1 to 3, but there are 4 classes \(0 to 3\)"):
            score(P, np.where(np.arange(400) == 5, -1, Y))
    with pytest.raises(ValueError, match=r"two classes or more, got \(3,\)"):
        assess([0.1, 0.2, 0.7], [1])
    with pytest.raises(ValueError, match="at least one"):
        assess(np.zeros((0, 2)), np.zeros(0, int))
    with pytest.raises(ValueError, match="bins must be at least 1, got 0"):
        ece(P, Y, bins=0)
    with pytest.raises(ValueError, match="2 inside with 1 nan, and 1 outside with 0 nan"):
        auroc([1.0, np.nan], [2.0])
    for bad in ([], [1.0, -1.0]):
        with pytest.raises(ValueError, match="one weight per sample"):
            mutual_information(np.stack([P, P]), bad)


def test_reliability_figure():
    tables = {"posterior": reliability(P, Y), "one network": reliability(P, P.argmax(1))}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = figures.reliability_figure(tables)
        figure.canvas.draw()
    curve, share = figure.axes
    line = curve.get_lines()[0]
    known = np.array(tables["posterior"].count) > 0
    np.testing.assert_allclose(line.get_xdata(), np.array(tables["posterior"].confidence)[known])
    np.testing.assert_allclose(line.get_ydata(), np.array(tables["posterior"].accuracy)[known])
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names[-1] == "calibrated" and names[0] == f"posterior (ECE {tables['posterior'].ece:.3f})"
    np.testing.assert_allclose(share.patches[0].get_data().values, tables["posterior"].share)
    assert all(axis.get_xlabel() and axis.get_ylabel() for axis in figure.axes)
    with pytest.raises(ValueError, match="nothing to draw"):
        figures.reliability_figure({})
    assert isinstance(tables["posterior"], Reliability)
