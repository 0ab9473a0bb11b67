"""The gradient of minus the log-likelihood of the whole data set, estimated from a batch.

A likelihood sums over the n examples of a batch. The factor N/n that scales the sum to the whole data set is applied
here and nowhere else.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from sparse_langevin.sampling.batch_norm import BatchNorms
from sparse_langevin.sampling.closed_form import LinearGradient
from sparse_langevin.sampling.control_variates import Anchor
from sparse_langevin.sampling.curvature import DiagonalHessian
from sparse_langevin.sampling.flat import FlatParameters
from sparse_langevin.sampling.likelihoods import BatchEvaluation, Likelihood


class Differentiated(NamedTuple):
    """The result for one batch; the gradient itself is in ``flat.grad``."""

    evaluation: BatchEvaluation
    scale: float
    """The factor N/n."""
    curvature: Tensor | None
    """The diagonal of the Hessian, if it is needed."""


class Gradient:
    """Evaluates batches and writes gradients to ``flat.grad``; with ``curvature`` it finds the diagonal Hessian too."""

    def __init__(
        self,
        model: nn.Module,
        likelihood: Likelihood,
        flat: FlatParameters,
        num_data: int,
        curvature: DiagonalHessian | None,
    ) -> None:
        self._model, self._likelihood, self._flat, self._num_data = model, likelihood, flat, num_data
        self._curvature = curvature
        self._linear = LinearGradient.of(model, likelihood, flat) if curvature is None else None
        self.norms = BatchNorms(model)
        """The layers whose running statistics a step may change."""
        self.anchor: Anchor | None = None
        """What reduces the noise of minibatches, if anything does."""
        self.seconds = 0.0
        """Total time spent on evaluating and differentiating batches."""

    def __call__(self, data: Any, sigma: float, step: int) -> Differentiated:
        """Write the gradient of minus the log-likelihood at noise level ``sigma`` to ``flat.grad``."""
        begin = time.perf_counter()
        self._flat.check_seating()
        self.norms.check()
        difference = None if self.anchor is None else self.anchor.difference(data)
        result = self._closed_form(data, sigma) or self._by_autograd(data, sigma, step)
        if difference is not None:
            self._flat.grad.add_(difference)
        float(result.evaluation.loss)  # waits for the device, so that the time is right
        self.seconds += time.perf_counter() - begin
        return result

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Leave random states and running statistics as they were."""
        vector = self._flat.vector
        with torch.random.fork_rng([vector.device] if vector.is_cuda else []), self.norms.restored():
            yield

    def initial_sigma(self, data: Any) -> float:
        """Return the noise level at which a chain starts, from a likelihood that takes it from the data."""
        with self.looking():
            return float(cast(Any, self._likelihood).initial_sigma(self._model, data))

    def at(self, data: Any, sigma: float) -> int:
        """Write the gradient of a batch alone to ``flat.grad``, without an anchor; return the number of examples."""
        return (self._closed_form(data, sigma) or self._by_autograd(data, sigma, 0)).evaluation.examples

    def _closed_form(self, data: Any, sigma: float) -> Differentiated | None:
        evaluation = None if self._linear is None else self._linear(data, sigma, self._scale)
        return None if evaluation is None else Differentiated(evaluation, self._scale(evaluation.examples), None)

    def _by_autograd(self, data: Any, sigma: float, step: int) -> Differentiated:
        with torch.enable_grad():
            evaluation = self._likelihood.evaluate(self._model, data, sigma)
            scale = self._scale(evaluation.examples)
            create_graph = self._curvature is not None and not self._curvature.exact
            gradients = self._flat.differentiate(evaluation.log_likelihood, -scale, create_graph=create_graph)
        if self._curvature is None:
            return Differentiated(evaluation, scale, None)
        second = self._curvature(self._flat, gradients, scale, data, sigma, step)
        return Differentiated(evaluation, scale, second)

    def _scale(self, examples: int) -> float:
        """Return N/n, the factor from a batch to the whole data set."""
        if examples > self._num_data:
            raise ValueError(
                f"the batch has {examples} examples but num_data is {self._num_data}: "
                "num_data is the size of the whole data set"
            )
        return self._num_data / examples
