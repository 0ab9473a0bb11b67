"""Classification: a softmax of the model's outputs."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from sparse_langevin.sampling.likelihoods.base import BatchEvaluation, as_pair, call_model


@dataclass(frozen=True)
class CategoricalLikelihood:
    """Classification with logits of shape (n, classes, ...) and integer targets of shape (n, ...).

    There is no noise level: sigma is 1.
    """

    @property
    def sigma(self) -> float:
        """Always 1; it is the scale of the spike-and-slab prior."""
        return 1.0

    @property
    def learn(self) -> bool:
        """False, since there is no noise level to learn."""
        return False

    def evaluate(self, model: nn.Module, batch: Any, sigma: float) -> BatchEvaluation:
        """Return the negative cross entropy of a batch (inputs, targets)."""
        inputs, targets = as_pair(batch)
        logits = call_model(model, inputs)
        wanted = logits.shape[:1] + logits.shape[2:]
        if logits.dim() < 2 or targets.shape != wanted or targets.is_floating_point():
            raise ValueError(
                f"logits of shape {tuple(logits.shape)} need integer targets of shape {tuple(wanted)}, "
                f"got {targets.dtype} of shape {tuple(targets.shape)}"
            )
        try:
            total = functional.cross_entropy(logits, targets.long(), reduction="sum")
        except IndexError as error:
            raise ValueError(
                f"targets run from {int(targets.min())} to {int(targets.max())}, "
                f"but the model has {logits.shape[1]} classes (0 to {logits.shape[1] - 1})"
            ) from error
        return BatchEvaluation(-total, targets.shape[0], total.detach() / targets.numel())

    def output_curvature(self, outputs: Tensor, sigma: float) -> Tensor:
        """Return the second derivative of the log-likelihood with respect to each logit."""
        share = outputs.softmax(1)
        return share * (share - 1)
