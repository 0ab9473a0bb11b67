r"""The sampler: one object that holds a model, its posterior and the state of a chain.

A step evaluates the batch, scales its log-likelihood by N/n (here and nowhere else), differentiates, lets the kernel
move every block, and then updates delta, sigma and the mask.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sparse_langevin.sampling import kernels, noise
from sparse_langevin.sampling.checks import (
    as_count,
    assign_priors,
    require_finite,
    require_frozen_statistics,
    require_same_layout,
)
from sparse_langevin.sampling.closed_form import LinearGradient
from sparse_langevin.sampling.curvature import DiagonalHessian
from sparse_langevin.sampling.flat import Block, FlatParameters, SparseChoice
from sparse_langevin.sampling.health import HealthMonitor, capped_omega, check_spike_and_slab
from sparse_langevin.sampling.likelihoods import (
    Evaluation,
    GaussianLikelihood,
    Likelihood,
    LogLikelihood,
    as_likelihood,
)
from sparse_langevin.sampling.preconditioners import Identity, Preconditioner, RMSprop
from sparse_langevin.sampling.priors import GaussianPrior, Prior, SpikeSlab
from sparse_langevin.sampling.pruning import Pruning, prune
from sparse_langevin.sampling.schedules import Constant, Polynomial, Schedule, as_schedule, describe, value_at

OMEGA = Polynomial(10.0, 100.0, 0.7, cap=0.1)  # the paper's exponent and offset; cap of the SGLD-SA authors' code


@dataclass(frozen=True, slots=True)
class Info:
    """What happened in one step."""

    step: int
    """Number of the step, from 1."""
    loss: float
    """Batch loss before the step: mean squared error, cross entropy, or mean negative log-likelihood."""
    sigma: float
    """Noise level after the step."""
    inclusion: float
    """Mean of rho over all weights under a spike-and-slab prior; nan if there are none."""
    sparsity: float
    """Share of the sparse layers' weights that the last pruning set to zero."""
    drift_norm: float
    """Length of the deterministic part of the step."""
    noise_norm: float
    """Length of the random part of the step."""
    step_size: float
    """The step size used; posterior averages weight samples by it."""


class Sampler:
    """A chain over the weights of a model.

    Parameters
    ----------
    model
        Any module. Its trainable parameters are re-seated in one flat vector; move the model to its device first.
    likelihood
        `GaussianLikelihood`, `CategoricalLikelihood`, or a function ``(model, batch)`` that returns one
        log-likelihood per example.
    num_data
        Number of examples N in the whole data set. The log-likelihood of a batch of n is scaled by N/n.
    step_size
        eps_k, a number or a schedule. It multiplies the gradient summed over the data.
    prior
        Prior of the sparse layers: `SpikeSlab`, `GaussianPrior`, or a mapping from layer names to either (layers not
        named get ``SpikeSlab()``).
    preconditioner
        `Identity` or `RMSprop`.
    dense_prior
        Prior of all other parameters.
    omega
        Step of the stochastic approximation of rho, delta and sigma; values in [0, 1].
    tau
        Inverse temperature, a number or a schedule; 1 samples the posterior, ``math.inf`` optimises.
    sparse
        The sparse layers: a predicate on (name, parameter) or a list of names or modules. Default: the weights of
        linear and convolution layers.
    pruning
        A `Pruning` plan, or None.
    momentum
        mu in [0, 1). The weights move by the running average of their Langevin steps with this memory: underdamped
        Langevin dynamics, with the same posterior. It damps the oscillations of stiff directions, so that far larger
        steps are stable, and at 0.9 the error of a finite step is 19 times smaller; 0 is the plain algorithm.
    seed, chain
        Together they determine all noise; chains of one seed are independent.
    engine
        Who carries out the update: ``"native"`` (machine code for the CPU), ``"compiled"`` (torch.compile),
        ``"reference"`` (plain torch), or the fastest that works for the model's device, ``"auto"``. They differ by
        rounding, so a run must keep its engine to resume bit for bit.

    Examples
    --------
    >>> sampler = Sampler(nn.Linear(3, 1), GaussianLikelihood(), num_data=100, step_size=1e-4)
    >>> info = sampler.step(torch.randn(10, 3), torch.randn(10, 1))
    >>> info.step
    1
    """

    def __init__(
        self,
        model: nn.Module,
        likelihood: Likelihood | LogLikelihood,
        *,
        num_data: int,
        step_size: float | Schedule,
        prior: Prior | Mapping[str, Prior] = SpikeSlab(),
        preconditioner: Preconditioner = Identity(),
        dense_prior: GaussianPrior = GaussianPrior(),
        omega: float | Schedule = OMEGA,
        tau: float | Schedule = 1.0,
        sparse: SparseChoice = None,
        pruning: Pruning | None = None,
        momentum: float = 0.0,
        seed: int = 0,
        chain: int = 0,
        engine: kernels.EngineName = "auto",
    ) -> None:
        if not isinstance(preconditioner, Identity | RMSprop):
            raise TypeError(f"preconditioner must be Identity() or RMSprop(...), got {preconditioner!r}")
        if not isinstance(pruning, Pruning | None):
            raise TypeError(f"pruning must be Pruning(target=..., end=...) or None, got {pruning!r}")
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum must lie in [0, 1), got {momentum!r}; 0.9 is usual")
        num_data = as_count(num_data, "num_data, the number of examples in the whole data set,", low=1)
        chain = as_count(chain, "chain", high=2**31)
        seed = as_count(seed, "seed", high=2**64)
        self.model = model
        self.likelihood = as_likelihood(likelihood)
        self.num_data = num_data
        self.preconditioner = preconditioner
        self.pruning = pruning
        self.momentum = float(momentum)
        self.seed, self.chain = seed, chain
        self._step_size = as_schedule(step_size, "step_size")
        self._tau = as_schedule(tau, "tau")
        self._omega = capped_omega(as_schedule(omega, "omega"))
        self._eta = float(getattr(preconditioner, "eta", 0.0))
        self._alpha = as_schedule(getattr(preconditioner, "alpha", 0.0), "alpha")
        for name, schedule, high in (
            ("step_size", self._step_size, math.inf),
            ("tau", self._tau, math.inf),
            ("omega", self._omega, 1.0),
            ("alpha", self._alpha, 1.0),
        ):
            value_at(schedule, 1, name, high=high)
        self._norms = [m for m in model.modules() if getattr(m, "running_mean", None) is not None]
        require_frozen_statistics(self._norms)
        self.flat = FlatParameters(model, sparse)
        self._sizes = {b.name: b.size for b in self.flat.blocks}
        self._priors = assign_priors(model, self.flat.blocks, prior, dense_prior)
        check_spike_and_slab(self._priors.items())
        if pruning is not None and not any(b.sparse for b in self.flat.blocks):
            raise ValueError("pruning needs sparse layers, but none were found: name them with sparse=[...]")

        self.steps = 0
        """Steps taken so far."""
        self.gradient_seconds = 0.0
        """Time spent on evaluating and differentiating the model."""
        self.sigma = float(self.likelihood.sigma)
        """Current noise level."""
        self.delta = {n: p.delta for n, p in self._priors.items() if isinstance(p, SpikeSlab)}
        """Current inclusion probability of each spike-and-slab layer."""
        vector, start = self.flat.vector, self.flat.sparse_start
        self.v = torch.zeros_like(vector) if isinstance(preconditioner, RMSprop) else None
        self.velocity = torch.zeros_like(vector) if momentum else None
        self.rho = torch.zeros_like(vector[start:]) if self.delta else None
        self.s = torch.zeros_like(vector[start:]) if self.delta else None
        self.keep = torch.ones_like(vector[start:], dtype=torch.bool) if pruning else None
        self._kept = {b.name: b.size for b in self.flat.blocks if b.sparse}
        self._engine = kernels.choose(vector, engine)
        self._linear = LinearGradient.of(model, self.likelihood, self.flat)
        self._states = self._make_states()
        self._noise = self._stream(noise.WEIGHTS)
        self._curvature = None
        if correction := getattr(preconditioner, "correction", None):
            self._curvature = DiagonalHessian(correction, model, self.likelihood, self._stream(noise.PROBES))
        self._health, self._largest_step = HealthMonitor(), 0.0

    def step(self, *batch: Any) -> Info:
        """Take one step on a batch and say what happened.

        Parameters
        ----------
        *batch
            ``step(x, y)`` or one object of any structure. The built-in likelihoods take (inputs, targets), where
            inputs may be a tensor, a tuple of positional or a mapping of named inputs.
        """
        data = batch[0] if len(batch) == 1 else batch
        k = self.steps + 1
        scalars = self._scalars(k)
        begin = time.perf_counter()
        evaluation, scale, second = self._differentiate(data, k)
        loss = float(evaluation.loss)
        self.gradient_seconds += time.perf_counter() - begin
        require_finite(self.flat, second, loss, data, k, squares=self.v is not None)
        sums = self._move(scalars, second, k)
        total = kernels.Sums(*map(sum, zip(*sums.values(), strict=True)))
        self._update_latents(evaluation, scale, scalars.omega, sums, total, k)
        if self.pruning is not None and self.pruning.due(k):
            self._prune(self.pruning)
        self.steps = k
        self._check_health(scalars, sums, total)
        return Info(
            step=k,
            loss=loss,
            sigma=self.sigma,
            inclusion=total.rho / sum(self._sizes[name] for name in self.delta) if self.delta else math.nan,
            sparsity=self.sparsity,
            drift_norm=math.sqrt(total.drift),
            noise_norm=math.sqrt(total.noise),
            step_size=scalars.step_size,
        )

    @property
    def sparsity(self) -> float:
        """Share of the sparse layers' weights that the last pruning set to zero."""
        total = sum(self._sizes[name] for name in self._kept)
        return 1.0 - sum(self._kept.values()) / total if total else 0.0

    def inclusion(self) -> dict[str, Tensor]:
        """Inclusion probabilities rho of each spike-and-slab layer, in the layer's shape."""
        shapes = {entry.name: entry.shape for entry in self.flat.entries}
        pairs = zip(self.flat.blocks, self._states, strict=True)
        return {
            block.name: state.rho.view(shapes[block.name]).clone() for block, state in pairs if state.rho is not None
        }

    def settings(self) -> dict[str, str]:
        """The settings that determine the chain, as text; a resumed run must have the same."""
        return {
            "num_data": str(self.num_data),
            "seed": str(self.seed),
            "chain": str(self.chain),
            "likelihood": describe(self.likelihood),
            "step_size": describe(self._step_size),
            "tau": describe(self._tau),
            "omega": describe(self._omega),
            "alpha": describe(self._alpha),
            "preconditioner": describe(self.preconditioner),
            "pruning": describe(self.pruning),
            "priors": repr({name: describe(prior) for name, prior in self._priors.items()}),
            "parameters": repr([(e.name, tuple(e.shape)) for e in self.flat.entries]),
            "dtype": str(self.flat.vector.dtype),
        } | ({"momentum": str(self.momentum)} if self.momentum else {})

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes during a run; tensors are views, not copies.

        Frozen parameters and buffers of the model are included, so that a checkpoint holds the whole model.
        """
        tensors = {"beta": self.flat.vector} | {n: getattr(self, n) for n in ("v", "velocity", "rho", "s", "keep")}
        return {
            "steps": self.steps,
            "sigma": self.sigma,
            "delta": dict(self.delta),
            "tensors": {n: t for n, t in tensors.items() if t is not None} | self.flat.unsampled(self.model),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state made by a sampler with the same settings; nothing changes if it does not fit."""
        self.flat.check_seating()
        mine = self.state_dict()
        require_same_layout(mine, state)
        steps, sigma = int(state["steps"]), float(state["sigma"])
        delta = {name: float(state["delta"][name]) for name in self.delta}
        with torch.no_grad():
            for name, tensor in mine["tensors"].items():
                tensor.copy_(state["tensors"][name])
        self.steps, self.sigma, self.delta = steps, sigma, delta
        if self.keep is not None:
            self._count_kept()

    def _scalars(self, k: int) -> kernels.StepScalars:
        """All schedules at step k, each checked."""
        tau = value_at(self._tau, k, "tau")
        if tau == 0:
            raise ValueError(f"tau is 0 at step {k}: an inverse temperature must be positive")
        return kernels.StepScalars(
            first=k == 1,
            step_size=value_at(self._step_size, k, "step_size"),
            tau=tau,
            omega=value_at(self._omega, k, "omega", high=1.0),
            sigma=self.sigma,
            alpha=value_at(self._alpha, k, "alpha", high=1.0),
            eta=self._eta,
            momentum=self.momentum,
        )

    def _differentiate(self, data: Any, k: int) -> tuple[Evaluation, float, Tensor | None]:
        """Gradient of minus the log-likelihood into ``flat.grad``; N/n; and the diagonal Hessian if Gamma is on."""
        self.flat.check_seating()
        require_frozen_statistics(self._norms)
        if self._linear is not None and self._curvature is None:
            known = self._linear(data, self.sigma, self._scale)
            if known is not None:
                return known, self._scale(known.examples), None
        with torch.enable_grad():
            evaluation = self.likelihood.evaluate(self.model, data, self.sigma)
            scale = self._scale(evaluation.examples)
            create_graph = self._curvature is not None and not self._curvature.exact
            gradients = self.flat.differentiate(evaluation.log_likelihood, -scale, create_graph=create_graph)
        if self._curvature is None:
            return evaluation, scale, None
        return evaluation, scale, self._curvature(self.flat, gradients, scale, data, self.sigma, k)

    def _scale(self, examples: int) -> float:
        """N/n, the factor from a batch to the whole data set."""
        if examples > self.num_data:
            raise ValueError(
                f"the batch has {examples} examples but num_data is {self.num_data}: "
                "num_data is the size of the whole data set"
            )
        return self.num_data / examples

    def _move(self, scalars: kernels.StepScalars, second: Tensor | None, k: int) -> dict[str, kernels.Sums]:
        """Let the engine update every block."""
        held = self.keep if self.pruning is not None and self.pruning.holds(k) else None
        for block, state in zip(self.flat.blocks, self._states, strict=True):
            state.curvature = None if second is None else second[block.span]
            state.keep = held[self._sparse_span(block)] if held is not None and block.sparse else None
            if isinstance(state.prior, SpikeSlab):
                state.log_odds = state.prior.log_odds_at_zero(self.delta[block.name])
        sums = self._engine.step(self._states, scalars, self._noise, k)
        return dict(zip(self._sizes, sums, strict=True))

    def _update_latents(
        self,
        evaluation: Evaluation,
        scale: float,
        omega: float,
        sums: Mapping[str, kernels.Sums],
        total: kernels.Sums,
        k: int,
    ) -> None:
        """Stochastic approximation of delta and sigma, after rho and s have moved."""
        for name, delta in self.delta.items():
            prior = self._priors[name]
            assert isinstance(prior, SpikeSlab)
            target = prior.delta_target(sums[name].rho, self._sizes[name], delta)
            self.delta[name] = (1.0 - omega) * delta + omega * target
        if not self.likelihood.learn or evaluation.rss is None:
            return
        assert isinstance(self.likelihood, GaussianLikelihood)
        # A weight that is held at zero is no longer a parameter: it has no density to take part in sigma's.
        live = self._kept if self.pruning is not None and self.pruning.holds(k) else self._sizes
        target = self.likelihood.next_sigma(
            residuals=self.num_data * evaluation.residuals_per_example,
            weights=sum(live[name] for name in self.delta),
            rss=scale * float(evaluation.rss),
            spike=total.spike,
            slab=total.slab,
        )
        self.sigma = (1.0 - omega) * self.sigma + omega * target

    def _prune(self, plan: Pruning) -> None:
        assert self.keep is not None
        layers = [self._sparse_span(b) for b in self.flat.blocks if b.sparse]
        parts = layers if plan.scope == "layer" else [slice(0, self.keep.numel())]
        with torch.no_grad():
            prune(self.flat.vector[self.flat.sparse_start :], self.keep, parts, plan.share(self.steps + 1))
        self._count_kept()

    def _count_kept(self) -> None:
        assert self.keep is not None
        self._kept = {b.name: int(self.keep[self._sparse_span(b)].sum()) for b in self.flat.blocks if b.sparse}

    def _check_health(
        self, scalars: kernels.StepScalars, sums: Mapping[str, kernels.Sums], total: kernels.Sums
    ) -> None:
        self._health.check_collapse(self.steps, {name: sums[name].rho for name in self.delta})
        self._largest_step = max(self._largest_step, scalars.step_size)
        if math.isinf(scalars.tau) or scalars.step_size < 0.01 * self._largest_step:
            return  # an optimiser, or the end of an annealed schedule
        self._health.check_spread(self.steps, total.drift, total.noise, self.flat.vector)
        settled = isinstance(self._alpha, Constant) or self.steps >= 1000
        if self.v is not None and self._curvature is None and settled:
            self._health.check_memory(self.steps, self.v, scalars.step_size, scalars.tau, scalars.alpha, scalars.eta)

    def _make_states(self) -> list[kernels.BlockState]:
        """What the kernel needs of each block; views, made once."""
        states = []
        for block in self.flat.blocks:
            beta, grad = self.flat.vector[block.span], self.flat.grad[block.span]
            state = kernels.BlockState(self._priors[block.name], beta, grad, start=block.start)
            if self.v is not None:
                state.v = self.v[block.span]
            if self.velocity is not None:
                state.velocity = self.velocity[block.span]
            if self.rho is not None and self.s is not None and block.name in self.delta:
                state.rho, state.s = self.rho[self._sparse_span(block)], self.s[self._sparse_span(block)]
                state.rho.fill_(self.delta[block.name])
                state.s.fill_(self.delta[block.name])
            states.append(state)
        return states

    def _stream(self, kind: int) -> noise.CounterNoise:
        vector = self.flat.vector
        stream = 2 * self.chain + kind
        return noise.CounterNoise(self.seed, self.flat.size, stream=stream, dtype=vector.dtype, device=vector.device)

    def _sparse_span(self, block: Block) -> slice:
        """The block's slice of the vectors that cover only the sparse part."""
        return slice(block.start - self.flat.sparse_start, block.stop - self.flat.sparse_start)
