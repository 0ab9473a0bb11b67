r"""What is measured: accuracy, NLL, Brier score and ECE; doubt about images from elsewhere; robustness.

The attack is one step of FGSM (Goodfellow, Shlens and Szegedy, 2015) on the mean predictive of a contender, for which
everything about it is known:

    x' = clip(x + eps sign(grad_x -log p(y | x)), 0, 1),   p = sum_s w_s p_s,
    grad log p = sum_s w_s p_s grad log p_s / p.

All members take part in the gradient. Their logarithms are differentiated, and not p_s itself, whose gradient would be
rounded to zero where a network is certain.
"""

from typing import Any

import torch
from torch import Tensor

from benchmarks.classification.data import Data, Part
from benchmarks.classification.predictors import ROWS, Members, Opinion, Predictor
from sparse_langevin.posterior import classification

SIZES = (0.02, 0.05, 0.1)  # of perturbations, in units of pixels from 0 to 1


def basic(opinion: Opinion, labels: Tensor) -> dict[str, float]:
    """Return the scores of probabilities."""
    found = classification.assess(opinion.probabilities, labels)
    return {name: getattr(found, name) for name in ("accuracy", "nll", "brier", "ece")}


def full(predictor: Predictor, data: Data, attacked: int) -> dict[str, Any]:
    """Return all scores on the test images; the first ``attacked`` of them are perturbed."""
    x, y = data.test
    inside = predictor.classify(x)
    scores: dict[str, Any] = basic(inside, y)
    *_, (_, last) = predictor.weighted()
    scores["last"] = basic(Members([last]).classify(x), y)  # of the last member or sample alone
    for name, images in data.outside.items():
        opinion = predictor.classify(images)
        pairs = {"entropy": (inside.entropy, opinion.entropy)}
        pairs["mutual_information"] = (inside.mutual_information, opinion.mutual_information)
        scores[f"auroc_{name}"] = {measure: classification.auroc(*pair) for measure, pair in pairs.items()}
    scores["fgsm"] = {}
    few = x[:attacked], y[:attacked]
    direction = attack(predictor, few)
    for size in SIZES:
        opinion = predictor.classify((few[0] + size * direction).clamp(0, 1))
        scores["fgsm"][str(size)] = basic(opinion, few[1])["accuracy"]
    return scores


def attack(predictor: Predictor, part: Part) -> Tensor:
    """Return the signs of the gradient of the mean predictive's negative log-likelihood with respect to pixels."""
    total = torch.zeros_like(part[0], dtype=torch.float64)
    for weight, forward in predictor.weighted():
        pieces = []
        for x, y in zip(part[0].split(ROWS), part[1].split(ROWS), strict=True):
            pixels = x.clone().requires_grad_()
            log_p = forward(pixels).double().log_softmax(1)[torch.arange(len(y)), y]
            share = weight * log_p.detach().exp()
            (gradient,) = torch.autograd.grad(log_p.sum(), pixels)
            pieces.append(share[:, None, None, None] * gradient)
        total -= torch.cat(pieces)
    return total.sign().float()
