r"""The likelihood of classes: scores, probabilities and gradients.

P(class | x) comes from the scores eta = intercept + X w: a sigmoid for two classes (one row of w), a softmax for more.
"""

import math
from typing import NamedTuple

import numpy as np

from sparse_langevin.linear.coefficient import sigmoid
from sparse_langevin.linear.gaussian import Array
from sparse_langevin.runtime.jit import compiled


class Data(NamedTuple):
    """Standardised predictors, and one row of 0/1 targets per row of coefficients."""

    x: Array
    columns: Array
    """The transpose of x, so that the values of one predictor are contiguous in memory."""
    y: Array
    batch: int
    """Number of rows in each step; the number of all rows if there are no minibatches."""


@compiled
def class_scores(x, w, intercept):
    """Return the scores eta, with a row for each row of w."""
    scores = w @ x.T
    for k in range(len(intercept)):
        scores[k] += intercept[k]
    return scores


@compiled
def probabilities(scores):
    """Return the probabilities of the classes: the sigmoid of a single row, or the softmax over several rows."""
    rows, n = scores.shape
    result = np.empty((rows, n))
    for i in range(n):
        if rows == 1:
            result[0, i] = sigmoid(scores[0, i])
            continue
        top = scores[:, i].max()
        total = 0.0
        for k in range(rows):
            result[k, i] = math.exp(scores[k, i] - top)
            total += result[k, i]
        for k in range(rows):
            result[k, i] /= total
    return result


@compiled
def likelihood_gradient(data, chosen, w, intercept):
    """Estimate the log-likelihood's gradients in coefficients and intercepts from the chosen rows, without bias."""
    x, y = data.x[chosen], data.y[:, chosen]
    excess = (data.x.shape[0] / len(chosen)) * (y - probabilities(class_scores(x, w, intercept)))
    return excess @ x, excess.sum(1)


@compiled
def expansion(data, scores, k, j, b):
    """Return the quadratic approximation (c, q) of coefficient (k, j)'s log-likelihood, and the log-likelihood."""
    rows, n = scores.shape
    log_likelihood, score, information = 0.0, 0.0, 1e-12
    for i in range(n):
        top = 0.0 if rows == 1 else scores[:, i].max()
        top = max(top, scores[k, i])
        total = math.exp(-top) if rows == 1 else 0.0
        for m in range(rows):
            total += math.exp(scores[m, i] - top)
            log_likelihood += data.y[m, i] * scores[m, i]
        log_likelihood -= top + math.log(total)
        share, value = math.exp(scores[k, i] - top) / total, data.columns[j, i]
        score += (data.y[k, i] - share) * value
        information += share * (1.0 - share) * value * value
    return score + information * b, information, log_likelihood
