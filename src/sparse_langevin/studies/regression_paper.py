r"""The four algorithms on the regression tests as the paper prints them, run by the general samplers.

The predictors are not standardised, there is no intercept, every step uses all observations, chains start at zero, and

    v0 = 0.1, v1 = 10 (100 for PSGLD-SA), delta = 0.5, a = 1, b = p, lambda = nu = 1, alpha = 0.999,
    eps_k = 0.05 k^(-1/3),   omega_k = 100 (k + 100)^(-0.7).

The paper's misprints are corrected: it exchanges the values of v0 and v1, omega_k is capped at 0.1, and delta follows
its posterior mean (its mode runs to zero). Without a preconditioner eps_k multiplies the gradient averaged over the
data, because it is unstable on the sum; with one, the scale of the gradient cancels. The paper gives no prior for PSGLD
and SGLD; here it is N(0, 1).
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sparse_langevin.posterior import diagnostics
from sparse_langevin.sampling.algorithms import psgld, psgld_sa, sgld, sgld_sa
from sparse_langevin.sampling.likelihoods import GaussianLikelihood
from sparse_langevin.sampling.methods import method_named
from sparse_langevin.sampling.metrics import RMSprop
from sparse_langevin.sampling.priors import SpikeSlab
from sparse_langevin.sampling.sampler import Sampler
from sparse_langevin.sampling.schedules import Polynomial
from sparse_langevin.studies.regression_data import Study

Array = NDArray[np.float64]

STEP = 0.05
OMEGA = Polynomial(100.0, 100.0, 0.7, cap=0.1)
ALPHA = 0.999
ALGORITHMS: dict[str, Callable[..., Sampler]] = {
    "psgld-sa": partial(
        psgld_sa, prior=SpikeSlab(v0=0.1, v1=100.0, latents="averaged"), preconditioner=RMSprop.as_printed(ALPHA)
    ),
    "sgld-sa": partial(sgld_sa, prior=SpikeSlab(v0=0.1, v1=10.0, latents="averaged")),
    "psgld": partial(psgld, preconditioner=RMSprop.as_printed(ALPHA)),
    "sgld": sgld,
}
CHECKPOINTS = 60  # the number of steps, on a logarithmic scale, at which the test errors are evaluated
WATCHED, THIN = 8, 10  # convergence is judged on every eighth observation's prediction, at every tenth step


@dataclass(frozen=True)
class Chain:
    """All states of one chain, of shape (steps, p), their step sizes, and the mean of rho after burn-in."""

    beta: Array
    step_size: Array
    inclusion: Array | None
    burn_in: int

    @property
    def draws(self) -> Array:
        """The states after burn-in."""
        return self.beta[self.burn_in :]

    @property
    def weights(self) -> Array:
        """The step sizes after burn-in, which are the weights of the draws."""
        return self.step_size[self.burn_in :]

    def diagnose(self, study: Study) -> tuple[float, float]:
        """Largest R-hat of the chain's two halves, and smallest effective sample size, over some predictions."""
        seen, weights = (self.draws[::THIN] @ study.x[::WATCHED].T)[None], self.weights[None, ::THIN]
        return float(diagnostics.rhat(seen).max()), float(diagnostics.ess(seen, weights).min())

    def history(self, study: Study) -> dict[str, list[float]]:
        """Test errors at some steps, of the sample and of the mean over the latter half of the steps so far."""
        steps = np.unique(np.geomspace(1, len(self.beta), CHECKPOINTS).astype(int))
        total = np.cumsum(self.beta * self.step_size[:, None], axis=0)
        size = np.cumsum(self.step_size)
        half = steps // 2
        before = np.where(half[:, None] > 0, total[half - 1], 0.0)
        span = size[steps - 1] - np.where(half > 0, size[half - 1], 0.0)
        result = {"step": steps.tolist()}
        for name, beta in (
            ("sample", self.beta[steps - 1]),
            ("mean", (total[steps - 1] - before) / span[:, None]),
        ):
            error = study.x_test @ beta.T - study.y_test[:, None]
            result[f"{name}_mse"] = np.square(error).mean(0).tolist()
            result[f"{name}_mae"] = np.abs(error).mean(0).tolist()
        return result


def sampler(method: str, predictors: int, observations: int, seed: int) -> Sampler:
    """One of the four algorithms with the paper's settings, for a linear model that starts at zero."""
    model = nn.Linear(predictors, 1, bias=False, dtype=torch.float64)
    nn.init.zeros_(model.weight)
    scale = STEP if method_named(method).preconditioned else STEP / observations
    return ALGORITHMS[method](
        model,
        GaussianLikelihood(sigma=1.0),
        num_data=observations,
        step_size=Polynomial(scale, 0.0, 1 / 3),
        omega=OMEGA,
        seed=seed,
    )


def run(method: str, study: Study, steps: int, burn_in: int, seed: int) -> Chain:
    """Run one chain; every step uses all the data."""
    n, p = study.x.shape
    chain = sampler(method, p, n, seed)
    x, y = torch.as_tensor(study.x), torch.as_tensor(study.y)[:, None]
    beta, step_size, rho = np.empty((steps, p)), np.empty(steps), np.zeros(p)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the study measures what the warnings are about
        for k in range(steps):
            step_size[k] = chain.step(x, y).step_size
            beta[k] = chain.flat.vector.numpy()
            if "rho" in chain.vectors and k >= burn_in:
                rho += step_size[k] * chain.vectors["rho"].numpy()
    inclusion = rho / step_size[burn_in:].sum() if "rho" in chain.vectors else None
    return Chain(beta, step_size, inclusion, burn_in)
