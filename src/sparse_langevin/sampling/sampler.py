r"""The sampler: one object that holds a model, its posterior and the state of a chain.

A step differentiates the log-likelihood of a batch (see `gradients`), moves every block of weights (see `kernels`), and
then updates the priors' scalars, sigma and the pruning mask.
"""

import math
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from sparse_langevin.sampling import kernels, mixture, noise
from sparse_langevin.sampling.checks import as_count, assign_priors, require_finite, require_same_layout
from sparse_langevin.sampling.control_variates import Anchor
from sparse_langevin.sampling.curvature import DiagonalHessian, curvature_size, prepare_metric
from sparse_langevin.sampling.flat import FlatParameters, SparseChoice
from sparse_langevin.sampling.gradients import Gradient
from sparse_langevin.sampling.health import HealthMonitor, check_priors
from sparse_langevin.sampling.info import Info
from sparse_langevin.sampling.layout import make_scalars, make_states, make_vectors
from sparse_langevin.sampling.likelihoods import BatchEvaluation, Likelihood, LogLikelihood, as_likelihood
from sparse_langevin.sampling.metrics import Identity, Metric, as_metric
from sparse_langevin.sampling.priors import GaussianPrior, Prior
from sparse_langevin.sampling.pruning import Mask, Pruning
from sparse_langevin.sampling.schedules import Polynomial, Schedule, describe
from sparse_langevin.sampling.timetable import Timetable

OMEGA = Polynomial(*mixture.OMEGA)


class Sampler:
    """A chain over the weights of a model.

    Parameters
    ----------
    model
        Any module. Its trainable parameters become views of one flat vector; move the model to its device first.
    likelihood
        `GaussianLikelihood`, `CategoricalLikelihood`, or a function ``(model, batch)`` that returns one
        log-likelihood per example.
    num_data
        Number of examples N in the whole data set. The log-likelihood of a batch of n examples is scaled by N/n.
    step_size
        eps_k, a number or a schedule. It multiplies the gradient summed over the data.
    prior
        Prior of the sparse layers: `SpikeSlab`, `GaussianPrior`, one of your own (see `priors`), or a mapping from
        layer names to priors. The default is ``SpikeSlab()`` for one layer and `SpikeSlab.for_network` for several.
    preconditioner
        The metric of the Langevin step: `Identity`, `RMSprop`, or one of your own (see `metrics`).
    dense_prior
        Prior of all other parameters.
    omega
        Step of the stochastic approximation of rho, delta and sigma: a number or a schedule, with values in [0, 1].
    tau
        Inverse temperature, a number or a schedule; 1 samples the posterior, ``math.inf`` optimises.
    sparse
        The sparse layers: a predicate on (name, parameter) or a list of names or modules. Default: the weights of
        linear, convolution, bilinear and attention layers.
    pruning
        A `Pruning` plan, or None.
    momentum
        Memory of the velocity in one step, in [0, 1): underdamped Langevin dynamics by the BAOAB splitting. It samples
        the same posterior with a far smaller error of the finite step (none at all for a Gaussian with full batches),
        and steps are stable up to (1 + momentum)/(1 - momentum) times as far. 0 is the plain algorithm.
    seed, chain
        Together they determine all noise; chains with the same seed are independent.
    engine
        How the update is computed: ``"native"`` (machine code for the CPU), ``"compiled"`` (torch.compile),
        ``"reference"`` (plain torch), or ``"auto"``, the fastest that works on the model's device. They differ by
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
        prior: Prior | Mapping[str, Prior] | None = None,
        preconditioner: Metric = Identity(),
        dense_prior: Prior = GaussianPrior(),
        omega: float | Schedule = OMEGA,
        tau: float | Schedule = 1.0,
        sparse: SparseChoice = None,
        pruning: Pruning | None = None,
        momentum: float = 0.0,
        seed: int = 0,
        chain: int = 0,
        engine: kernels.EngineName = "auto",
    ) -> None:
        if not isinstance(pruning, Pruning | None):
            raise TypeError(f"pruning must be Pruning(target=..., end=...) or None, got {pruning!r}")
        self.num_data = as_count(num_data, "num_data, the number of examples in the whole data set,", low=1)
        self.chain = as_count(chain, "chain", high=2**31)
        self.seed = as_count(seed, "seed", high=2**64)
        self.model = model
        self.likelihood = as_likelihood(likelihood)
        self.preconditioner = as_metric(preconditioner)
        self.pruning = pruning
        self.timetable = Timetable(step_size, tau, omega, momentum)
        self.timetable.at(1, preconditioner)  # a bad schedule should be reported here, not at the first step
        self.flat = FlatParameters(model, sparse)
        self._sizes = {b.name: b.size for b in self.flat.blocks}
        self._priors = assign_priors(model, self.flat, prior, dense_prior)
        check_priors(self._priors)
        self.mask = Mask(self.flat, pruning) if pruning is not None else None
        """Which weights are pruned; None without a plan."""

        self.steps = 0
        """Number of steps taken so far."""
        self.sigma = 1.0 if self.likelihood.sigma is None else float(self.likelihood.sigma)
        """Current noise level."""
        self.scalars = make_scalars(self._priors)
        """The numbers that the prior of each block has learned, such as delta, by block and name."""
        self.vectors = make_vectors(self.flat, self._priors, preconditioner, momentum=momentum > 0)
        """The vectors with one number per weight, by name: the metric's, the priors' and the velocity."""
        self._selecting = [name for name in self._sizes if "rho" in self._priors[name].vectors]
        self._scaling = [name for name in self._sizes if self._priors[name].scales_with_sigma]
        self._engine = kernels.choose(self.flat.vector, engine, [*self._priors.values(), preconditioner])
        self._states = make_states(self.flat, self._priors, preconditioner, self.vectors)
        self.branch(0)
        curvature = None
        if preconditioner.correction is not None:
            curvature = DiagonalHessian(preconditioner.correction, model, self.likelihood, self.probes())
        self._gradient = Gradient(model, self.likelihood, self.flat, self.num_data, curvature)
        self.batch_norms = self._gradient.norms.live
        """Names of the BatchNorm layers in training mode; predictions need training inputs for them."""
        self._health = HealthMonitor({name: self._priors[name] for name in self._selecting}, momentum)

    def step(self, *batch: Any) -> Info:
        """Take one step on a batch and report what happened.

        Parameters
        ----------
        *batch
            Two arguments, ``step(x, y)``, or one object of any structure. The built-in likelihoods take (inputs,
            targets), where inputs may be a tensor, a tuple of positional inputs or a mapping of named inputs.
        """
        data = batch[0] if len(batch) == 1 else batch
        k = self.steps + 1
        if k == 1 and self.likelihood.sigma is None:
            self.sigma = self._gradient.initial_sigma(data)
        scalars, states, size = self.timetable.at(k, self.preconditioner), self.blocks(), None
        if self.timetable.noise_begins(k) and self.preconditioner.expects(k):
            size = curvature_size(self.flat, lambda: self.gradient(data), self.probes(), k)
        with self._gradient.norms.restored(only_on_error=True):
            evaluation, scale, second = self._gradient(data, self.sigma, k)
            loss = float(evaluation.loss)
            require_finite(self.flat, second, loss, data, k, squares=self.preconditioner.squares)
        if size is not None:
            prepare_metric(states, size, scalars.tau)
        sums = self._move(scalars, second, k)
        total = kernels.Sums(*map(sum, zip(*sums.values(), strict=True)))
        self._update_latents(evaluation, scale, scalars.omega, sums, total, k)
        if self.mask is not None and self.mask.plan.due(k):
            pairs = zip(self.flat.blocks, self._states, strict=True)
            self.mask.prune(k, {b.name: s.vectors() for b, s in pairs if b.sparse})
        self.steps = k
        included, moved = {n: sums[n].included for n in self._selecting}, (total.drift, total.noise)
        self._health.check(k, scalars, included, moved, self.flat.vector, self.preconditioner, self.vectors)
        return Info(
            step=k,
            loss=loss,
            sigma=self.sigma,
            inclusion=total.included / sum([self._sizes[n] for n in self._selecting]) if self._selecting else math.nan,
            sparsity=self.sparsity,
            drift_norm=math.sqrt(total.drift),
            noise_norm=math.sqrt(total.noise),
            step_size=scalars.step_size,
        )

    def plan(self, steps: int | None, burn_in: int | None, *, anchored: bool = False) -> None:
        """Prepare for a run; `fit` calls this.

        Parameters
        ----------
        steps
            Length of the run in steps; None if it is not known.
        burn_in
            Number of the step after which samples are kept; None if none are.
        anchored
            Whether gradients have control variates; somebody must then move the `anchor` now and then.
        """
        if anchored and self._gradient.anchor is None:
            self._gradient.anchor = Anchor(self.flat, self._gradient.at)
        self.preconditioner = self.preconditioner.planned(self.steps, steps, burn_in)
        self._health.burn_in = burn_in
        for state in self._states:
            state.metric = self.preconditioner

    @property
    def target(self) -> "Sampler":
        """The sampler whose weights are kept: this one."""
        return self

    def branch(self, replica: int) -> None:
        """Take the noise of another replica of the same chain, see `ReplicaExchange`."""
        self._replica = replica
        self._noise = noise.for_chain(self.flat.vector, self.seed, self.chain, noise.WEIGHTS, replica)

    def evaluate(self, data: Any, sigma: float) -> BatchEvaluation:
        """Return the likelihood of a batch at the weights and a noise level; no step is taken."""
        with torch.no_grad(), self._gradient.looking():
            return self.likelihood.evaluate(self.model, data, sigma)

    def gradient(self, data: Any) -> Tensor:
        """Return the gradient of minus the log-likelihood at the weights, estimated from a batch; no step is taken."""
        with self._gradient.looking():
            self._gradient(data, self.sigma, self.steps + 1)
        return self.flat.grad.clone()

    def blocks(self) -> list[kernels.BlockState]:
        """Return the state of each block, with the prior's numbers at the present sigma."""
        for block, state in zip(self.flat.blocks, self._states, strict=True):
            state.numbers = tuple(state.prior.numbers(self.sigma, self.scalars[block.name]))
        return self._states

    @property
    def anchor(self) -> Anchor | None:
        """The anchor of the control variates, if there are any."""
        return self._gradient.anchor

    @property
    def gradient_seconds(self) -> float:
        """Time spent on evaluating and differentiating the model."""
        return self._gradient.seconds

    @property
    def sparsity(self) -> float:
        """Share of the sparse layers' weights that the last pruning set to zero."""
        return 0.0 if self.mask is None else self.mask.sparsity

    @property
    def noise_std(self) -> float:
        """Standard deviation of a new observation around the model's output; 0 if the likelihood has no such noise."""
        return self.sigma if getattr(self.likelihood, "additive_noise", False) else 0.0

    @property
    def delta(self) -> dict[str, float]:
        """Current inclusion probability of each layer whose prior learns one."""
        return {name: scalars["delta"] for name, scalars in self.scalars.items() if "delta" in scalars}

    def inclusion(self) -> dict[str, Tensor]:
        """Return the inclusion probabilities rho of each layer whose prior has them, in the layer's shape."""
        shapes = {entry.name: entry.shape for entry in self.flat.entries}
        found = {}
        for block, state in zip(self.flat.blocks, self._states, strict=True):
            if block.name in self._selecting:
                rho = state.latent[state.prior.vectors.index("rho")]
                found[block.name] = rho.view(shapes.get(block.name, rho.shape)).clone()
        return found

    def settings(self) -> dict[str, str]:
        """Return the settings that determine the chain, as text; a resumed run must have the same."""
        return {
            "num_data": str(self.num_data),
            "seed": str(self.seed),
            "chain": str(self.chain),
            "likelihood": describe(self.likelihood),
            **self.timetable.settings(),
            "preconditioner": describe(self.preconditioner),
            "pruning": describe(self.pruning),
            "priors": repr({name: describe(prior) for name, prior in self._priors.items()}),
            "parameters": repr([(e.name, tuple(e.shape)) for e in self.flat.entries]),
            "dtype": str(self.flat.vector.dtype),
            **self._gradient.norms.settings(),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return everything that changes during a run; tensors are views, not copies.

        Frozen parameters and buffers of the model are included, so that a checkpoint holds the whole model.
        """
        more = {} if self.mask is None else {"keep": self.mask.keep}
        more |= {} if self.anchor is None else self.anchor.tensors
        return {
            "steps": self.steps,
            "sigma": self.sigma,
            "scalars": {name: dict(scalars) for name, scalars in self.scalars.items()},
            "tensors": {"beta": self.flat.vector, **self.vectors, **more} | self.flat.unsampled(self.model),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of a sampler with the same settings; nothing changes if it does not fit."""
        self.flat.check_seating()
        mine = self.state_dict()
        require_same_layout(mine, state)
        steps, sigma = int(state["steps"]), float(state["sigma"])
        scalars = {
            block: {name: float(state["scalars"][block][name]) for name in mine} for block, mine in self.scalars.items()
        }
        with torch.no_grad():
            for name, tensor in mine["tensors"].items():
                tensor.copy_(state["tensors"][name])
        self.steps, self.sigma, self.scalars = steps, sigma, scalars
        if self.mask is not None:
            self.mask.count()

    def _move(self, scalars: kernels.StepScalars, second: Tensor | None, k: int) -> dict[str, kernels.Sums]:
        """Update every block, and return its sums."""
        held = self.mask if self.mask is not None and self.mask.plan.holds(k) else None
        for block, state in zip(self.flat.blocks, self._states, strict=True):
            state.curvature = None if second is None else second[block.span]
            state.keep = held.of(block) if held is not None and block.sparse else None
        sums = self._engine.step(self._states, scalars, self._noise, k)
        return dict(zip(self._sizes, sums, strict=True))

    def _update_latents(
        self,
        evaluation: BatchEvaluation,
        scale: float,
        omega: float,
        sums: Mapping[str, kernels.Sums],
        total: kernels.Sums,
        k: int,
    ) -> None:
        """Update the priors' scalars and sigma by stochastic approximation."""
        for name, scalars in self.scalars.items():
            if scalars:
                included, size = sums[name].included, self._sizes[name]
                self.scalars[name] = self._priors[name].next_scalars(scalars, included, size, omega)
        if not self.likelihood.learn or evaluation.rss is None:
            return
        # A weight that is held at zero is no longer a parameter: it has no prior density that depends on sigma.
        sizes = self._sizes | self.mask.kept if self.mask is not None and self.mask.plan.holds(k) else self._sizes
        target = cast(Any, self.likelihood).next_sigma(
            residuals=self.num_data * evaluation.residuals_per_example,
            weights=sum([sizes[name] for name in self._scaling]),
            rss=scale * float(evaluation.rss),
            linear=total.linear,
            quadratic=total.quadratic,
        )
        self.sigma = (1.0 - omega) * self.sigma + omega * target

    def probes(self) -> noise.CounterNoise:
        """Return the random signs of the chain's probes of the curvature."""
        return noise.for_chain(self.flat.vector, self.seed, self.chain, noise.PROBES, self._replica)
