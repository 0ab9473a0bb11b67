"""Adam, as one would train the network without this library: the baseline, driven by the same loop.

With a pruning plan it is gradual magnitude pruning, with the schedule and the exact share of zeros of the samplers.
"""

import math
import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from sparse_langevin.sampling.flat import FlatParameters, SparseChoice
from sparse_langevin.sampling.info import Info
from sparse_langevin.sampling.pruning import Mask, Pruning
from sparse_langevin.sampling.schedules import Schedule, as_schedule, describe, value_at


class Adam:
    """torch's fused Adam on the mean squared error, with the interface that `fit` needs of a sampler.

    ``pruning`` says how the ``sparse`` layers are pruned; None leaves them as they are.
    """

    chain = 0
    target = None  # an optimiser has no samples

    def __init__(
        self,
        model: nn.Module,
        *,
        step_size: float | Schedule,
        sparse: SparseChoice = None,
        pruning: Pruning | None = None,
    ) -> None:
        self.model, self.pruning, self.steps, self.gradient_seconds = model, pruning, 0, 0.0
        self.flat = FlatParameters(model, sparse)
        self._step_size = as_schedule(step_size, "step_size")
        self._optimiser = torch.optim.Adam(self.flat.parameters, lr=1.0, fused=True)
        # Made here, and not at the first step, so that a state always has the same tensors.
        self._mean, self._square = torch.zeros_like(self.flat.vector), torch.zeros_like(self.flat.vector)
        views = zip(self.flat.views(self._mean).values(), self.flat.views(self._square).values(), strict=True)
        for parameter, (mean, square) in zip(self.flat.parameters, views, strict=True):
            state = {"step": torch.zeros((), device=parameter.device), "exp_avg": mean, "exp_avg_sq": square}
            self._optimiser.state[parameter] = state
        self.mask = Mask(self.flat, pruning) if pruning is not None else None

    def plan(self, steps: int | None, burn_in: int | None, *, anchored: bool) -> None:
        """Refuse what is for samplers only."""
        if anchored:
            raise TypeError("control variates are for samplers, which Adam is not")

    def step(self, batch: Any) -> Info:
        """One step on a batch (inputs, targets)."""
        inputs, targets = batch
        k = self.steps + 1
        size = value_at(self._step_size, k, "step_size")
        self._optimiser.param_groups[0]["lr"] = size
        begin = time.perf_counter()
        loss = functional.mse_loss(self.model(inputs), targets)
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.gradient_seconds += time.perf_counter() - begin
        self._optimiser.step()
        if self.mask is not None and self.mask.plan.due(k):
            self.mask.prune(k)
        elif self.mask is not None:
            self.mask.apply()
        self.steps = k
        value = float(loss.detach())
        if not math.isfinite(value):
            raise FloatingPointError(f"the loss is {value} at step {k}: use a smaller step size")
        return Info(k, value, math.nan, math.nan, self.sparsity, math.nan, math.nan, size)

    @property
    def sparsity(self) -> float:
        """Share of zeros among the weights of the sparse layers."""
        return 0.0 if self.mask is None else self.mask.sparsity

    def settings(self) -> dict[str, str]:
        """Settings that determine the run, as text."""
        return {
            "optimiser": "adam",
            "step_size": describe(self._step_size),
            "pruning": describe(self.pruning),
            "parameters": repr([(e.name, tuple(e.shape)) for e in self.flat.entries]),
        }

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes during a run."""
        tensors = {"beta": self.flat.vector, "mean": self._mean, "square": self._square}
        tensors |= {} if self.mask is None else {"keep": self.mask.keep}
        return {"steps": self.steps, "tensors": tensors | self.flat.unsampled(self.model)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state."""
        for name, tensor in self.state_dict()["tensors"].items():
            with torch.no_grad():
                tensor.copy_(state["tensors"][name])
        self.steps = int(state["steps"])
        if self.mask is not None:
            self.mask.count()
        for moments in self._optimiser.state.values():
            moments["step"].fill_(float(self.steps))
