"""Evidence for docs/paper-notes.md on the regression tests and the latent variables; run through paper_notes.py."""

import math
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from sparse_langevin import (
    ChainWarning,
    GaussianLikelihood,
    OneMinus,
    Polynomial,
    Pruning,
    RMSprop,
    Sampler,
    SpikeSlab,
    psgld_sa,
)
from sparse_langevin.sampling.mixture import sigma_root
from sparse_langevin.sampling.schedules import Schedule

Numbers = dict[str, float]
N, P, SIGMA = 100, 200, math.sqrt(3.0)  # the paper's first regression test
PRIOR = SpikeSlab(v0=0.1, v1=100.0, latents="averaged")
PAPER_STEP = Polynomial(0.05, 0.0, 1 / 3)
PAPER_OMEGA = Polynomial(100.0, 100.0, 0.7)
CAPPED_OMEGA = Polynomial(100.0, 100.0, 0.7, cap=0.1)


def sigma_quadratic() -> Numbers:
    """The quadratic for sigma has three plus signs, and so no positive root."""
    rng, prior, likelihood = np.random.default_rng(0), SpikeSlab(latents="averaged"), GaussianLikelihood(sigma=1.0)
    slab = torch.arange(P) < P // 2
    beta = torch.where(slab, torch.tensor(rng.normal(0, SIGMA * prior.v1**0.5, P)), 0.0)
    beta += torch.where(slab, 0.0, torch.tensor(rng.laplace(0, SIGMA * prior.v0, P)))
    spike_term = float(beta[~slab].abs().sum()) / prior.v0
    slab_term = float(beta[slab].square().sum()) / prior.v1
    rss = float((rng.normal(0, SIGMA, N) ** 2).sum())
    a, b, c = N + P + likelihood.nu, spike_term, rss + slab_term + likelihood.nu * likelihood.lambda_
    printed, root = np.roots([a, b, c]), likelihood.next_sigma(N, P, rss, spike_term, slab_term)
    sigma = np.geomspace(1.0, 3.0, 200_001)
    best = [sigma[np.argmax(-m * np.log(sigma) - b / sigma - c / (2 * sigma**2))] for m in (a, a + 2)]
    print(f"data drawn from the model with sigma = {SIGMA:.3f}, 100 residuals, 100 spike and 100 slab weights")
    print(f"printed, A s^2 + B s + C = 0: roots {printed[0]:.3f} and {printed[1]:.3f}")
    print(f"holds,   A s^2 - B s - C = 0: sigma = {root:.3f}")
    print(f"posterior maximised on a grid: over log sigma {best[0]:.3f}, over sigma^2 (Q1 as printed) {best[1]:.3f}")
    positive = sum(abs(z.imag) < 1e-12 and z.real > 0 for z in printed)
    grid = {"grid_minus_root": float(best[0] - root), "q1_minus_root": float(best[1] - root)}
    return {"positive_roots": positive, "root": root} | grid


def slab_norm() -> Numbers:
    """The quadratic for sigma squares kappa1; only beta is squared."""
    rng, values = np.random.default_rng(0), {}
    print(f"data drawn from the model with sigma = {SIGMA:.3f}: 100 residuals, 200 weights from the slab")
    rss, unit = float((rng.normal(0, SIGMA, N) ** 2).sum()), rng.normal(0, SIGMA, P)
    for v1 in (10.0, 0.1):
        beta, kappa1 = unit * v1**0.5, 1 / v1
        paper = sigma_root(N + P + 1, 0.0, rss + float(((kappa1 * beta) ** 2).sum()) + 1)
        ours = sigma_root(N + P + 1, 0.0, rss + float((kappa1 * beta**2).sum()) + 1)
        values |= {f"printed_{v1:g}": paper, f"holds_{v1:g}": ours}
        print(f"v1 = {v1:<4g} printed, ||kappa1*beta||^2: sigma = {paper:.2f}   holds, sum kappa1*beta^2: {ours:.2f}")
    return values


def residual_count() -> Numbers:
    """The quadratic for sigma counts N residuals; with d outputs there are N*d."""
    n, d, likelihood = 500, 20, GaussianLikelihood(sigma=1.0)
    noise = torch.tensor(np.random.default_rng(0).normal(0, SIGMA, (n, d)))
    batch = likelihood.evaluate(nn.Identity(), (torch.zeros_like(noise), noise), sigma=1.0)
    paper = likelihood.next_sigma(n, 0, float(batch.rss), 0.0, 0.0)
    ours = likelihood.next_sigma(n * batch.residuals_per_example, 0, float(batch.rss), 0.0, 0.0)
    images, outputs, weights = 1300, 5100, 6_110_624
    factor = math.sqrt((images * outputs + weights) / (images + weights))
    print(f"{n} examples with {d} outputs each, noise of sigma = {SIGMA:.3f}, no sparse weights (p = 0)")
    print(f"printed, A = N + p + nu: sigma = {paper:.3f}   holds, A = N d + p + nu: {ours:.3f}")
    print(f"at the size of the paper's flow problem the printed A makes sigma at least {factor:.2f} times too large")
    return {"printed": paper, "holds": ours, "factor": factor}


def v0_v1() -> Numbers:
    """The regression tests give the spike's width to the slab, and the slab's to the spike."""
    values: Numbers = {}
    effects = torch.tensor([0.0, 3.0], dtype=torch.float64)
    for name, v0, v1 in (
        ("printed,", 10.0, 0.1),
        ("printed,", 100.0, 0.1),
        ("holds,", 0.1, 10.0),
        ("holds,", 0.1, 100.0),
    ):
        zero, strong = inclusion_odds(effects, SpikeSlab(v0=v0, v1=v1), SIGMA, delta=0.5).tolist()
        values |= {f"zero_{v0:g}_{v1:g}": zero, f"strong_{v0:g}_{v1:g}": strong}
        print(f"{name:<8} v0 = {v0:<4g} v1 = {v1:<4g} inclusion of beta = 0: {zero:.2f}, of beta = 3: {strong:.2f}")
    _, _, messages = regression_run(steps=0, prior=SpikeSlab(v0=10.0, v1=0.1))
    show(messages)
    return values | {"warnings": len(messages)}


def omega_cap() -> Numbers:
    """The step of the latent variables starts near 4; it must stay below 1."""
    _, y = regression()
    last = max(k for k in range(1, 2000) if PAPER_OMEGA(k) > 1)
    root = GaussianLikelihood().next_sigma(N, P, float(y.square().sum()), 0.0, 0.0)  # weights still at zero
    sigma, path = 1.0, []
    for k in (1, 2, 3):
        sigma = (1 - PAPER_OMEGA(k)) * sigma + PAPER_OMEGA(k) * root
        path.append(sigma)
    _, capped, messages = regression_run(steps=3, omega=PAPER_OMEGA)
    print(f"omega_k = 100 (k+100)^-0.7: omega_1 = {PAPER_OMEGA(1):.2f}, above 1 up to k = {last}")
    print(f"printed: sigma after steps 1, 2, 3 = {', '.join(f'{s:.1f}' for s in path)} (target {root:.2f})")
    print(f"holds, capped: {', '.join(f'{s:.2f}' for s in capped)}")
    show(messages)
    values = {"omega_1": PAPER_OMEGA(1), "last_above_1": last, "sigma_2": path[1]}
    return values | {"capped_min": min(capped), "warnings": len(messages)}


def alpha_schedule() -> Numbers:
    """The memory of V is tied to omega; it needs a schedule of its own."""
    print("regression test 1, step 0.002 (the paper's at k = 15,600), omega capped at 0.1; the noise has sigma 1.73")
    values: Numbers = {}
    for name, alpha in (("printed, alpha_k = 1 - omega_k", OneMinus(CAPPED_OMEGA)), ("holds, alpha = 0.999", 0.999)):
        _, path, messages = regression_run(steps=4000, step_size=0.002, alpha=alpha)
        messages = [message for message in messages if "1 - alpha" in message]
        key = name.split(",")[0]
        values |= {f"{key}_{k}": path[k - 1] for k in (1000, 2000, 4000)} | {f"{key}_warnings": len(messages)}
        shown = ", ".join(f"{path[k - 1]:.2f}" for k in (1000, 2000, 4000))
        print(f"{name + ':':<31} sigma after 1000, 2000, 4000 steps {shown}")
        show(messages)
    return values


def delta_collapse() -> Numbers:
    """The printed update of delta runs to zero, and no weight leaves the spike."""
    values: Numbers = {}
    print("regression test 1, PSGLD-SA with v0 = 0.1, v1 = 100, 5000 steps")
    for update, text in (
        ("mode", "printed, (sum rho + a - 1)/(a + b + p - 2)"),
        ("mean", "holds,   (sum rho + a)/(a + b + p)"),
    ):
        prior = SpikeSlab(v0=0.1, v1=100.0, delta_update=update, latents="averaged")
        sampler, _, _ = regression_run(steps=5000, prior=prior)
        delta, rho = sampler.delta["weight"], sampler.inclusion()["weight"].flatten()
        print(f"{text + ':':<43} delta = {delta:.1e}, inclusion of beta_1 {float(rho[0]):.2f}")
        values |= {f"{update}_delta": delta, f"{update}_rho": float(rho[0])}
    return values


def log_odds() -> Numbers:
    """The quotient a/(a + b) underflows to 0/0; its log-odds do not."""
    beta, prior, delta = np.float64(3.0), SpikeSlab(latents="averaged"), 0.5
    values: Numbers = {}
    for sigma in (1.0, 0.02):
        a = np.exp(-(beta**2) / (2 * sigma**2 * prior.v1)) / math.sqrt(2 * math.pi * sigma**2 * prior.v1) * delta
        b = np.exp(-beta / (sigma * prior.v0)) / (2 * sigma * prior.v0) * (1 - delta)
        with np.errstate(invalid="ignore"):
            quotient = float(a / (a + b))
        ours = float(inclusion_odds(torch.tensor([beta]), prior, sigma, delta))
        print(f"beta = 3, sigma = {sigma:<4g}: a = {a:.1e}, b = {b:.1e}, a/(a+b) = {quotient:g}, by log-odds {ours:g}")
        values |= {f"quotient_{sigma:g}": quotient, f"log_odds_{sigma:g}": ours}
    return values


def rho_exact() -> Numbers:
    """The empirical Bayes rho is near the exact inclusion probability, unless the spike is very narrow."""
    n, grid, values = 100, torch.linspace(-6, 6, 240_001, dtype=torch.float64), {}
    print(f"one standardised predictor, n = {n}, sigma = 1, delta = 0.5; estimates of 0, 2, 3 and 5 standard errors")
    for v0 in (0.1, 0.03):
        prior, shown = SpikeSlab(v0=v0, latents="averaged"), []
        r = inclusion_odds(grid, prior, 1.0, 0.5)
        for errors in (0, 2, 3, 5):
            fit = n / 2 * (grid - errors / math.sqrt(n)).square()
            spike = torch.exp(-fit - grid.abs() / v0).sum() / (2 * v0)
            slab = torch.exp(-fit - grid.square() / (2 * prior.v1)).sum() / math.sqrt(2 * math.pi * prior.v1)
            exact, rho = float(slab / (slab + spike)), 0.5
            for _ in range(200):
                energy = fit + (1 - rho) / v0 * grid.abs() + rho / prior.v1 * grid.square() / 2
                weight = torch.exp(energy.min() - energy)
                rho = float((weight * r).sum() / weight.sum())
            shown.append(f"{exact:.2f} and {rho:.2f}")
            values |= {f"exact_{v0:g}_{errors}": exact, f"rho_{v0:g}_{errors}": rho}
        print(f"v0 = {v0:<4g}: exact inclusion and rho: " + ", ".join(shown))
    return values


def inclusion_odds(beta: torch.Tensor, prior: SpikeSlab, sigma: float, delta: float) -> torch.Tensor:
    """P(gamma = 1 | beta)."""
    return prior.inclusion(beta, prior.numbers(sigma, {"delta": delta}))


def sigma_pruned() -> Numbers:
    """Weights held at zero by pruning must not be counted in the equation for sigma."""
    sampler, path, _ = regression_run(steps=4000, step_size=0.02, pruning=Pruning(target=0.98, start=1000, end=2000))
    x, y = regression()
    weight = sampler.model.weight.detach()
    rss = float((x @ weight.T - y).square().sum())
    s = sampler.vectors["s"]
    terms = [float((1 - s) @ weight.flatten().abs()) / PRIOR.v0, float(s @ weight.flatten().square()) / PRIOR.v1]
    kept = int((weight != 0).sum())
    counted = sampler.likelihood.next_sigma(N, P, rss, *terms)
    ours = sampler.likelihood.next_sigma(N, kept, rss, *terms)
    average = float(np.mean(path[-500:]))
    print(f"regression test 1 with 98 % zeros: {kept} of {P} weights left; the noise has sigma {SIGMA:.2f}")
    print(f"the same weights, all {P} counted: sigma = {counted:.2f}; only the {kept} counted: {ours:.2f}")
    print(f"the chain, mean of the last 500 steps: sigma = {average:.2f}")
    return {"kept": kept, "counted": counted, "holds": ours, "chain": average}


def beta_zeros() -> Numbers:
    """The regression tests set all coefficients to zero; those from the third on are meant."""
    index = np.arange(P)
    covariance = 0.6 ** np.abs(np.subtract.outer(index, index))
    values: Numbers = {}
    for name, first in (("printed, beta_j = 0 for j = 1..p", 1), ("holds,   beta_j = 0 for j = 3..p", 3)):
        beta = np.zeros(P)
        beta[:2] = 3.0, 1.0
        beta[first - 1 :] = 0.0
        signal = float(beta @ covariance @ beta)
        values |= {f"signal_{first}": signal, f"share_{first}": signal / (signal + SIGMA**2)}
        print(f"{name}: variance of the signal {signal:.1f}, share of the response {signal / (signal + SIGMA**2):.2f}")
    return values


def regression() -> tuple[Tensor, Tensor]:
    """Draw the paper's first regression test: beta = (3, 1, 0, ...), predictors N(0, 0.6^|i-j|), noise variance 3."""
    rng, index = np.random.default_rng(0), np.arange(P)
    factor = np.linalg.cholesky(0.6 ** np.abs(np.subtract.outer(index, index)))
    x = rng.normal(size=(N, P)) @ factor.T
    y = 3 * x[:, 0] + x[:, 1] + rng.normal(0, SIGMA, N)
    return torch.tensor(x), torch.tensor(y[:, None])


def linear() -> nn.Linear:
    """Return a linear model in double precision, at zero."""
    model = nn.Linear(P, 1, bias=False).double()
    nn.init.zeros_(model.weight)
    return model


def regression_run(
    *,
    steps: int,
    step_size: float | Schedule = PAPER_STEP,
    alpha: float | Schedule = 0.999,
    omega: Schedule = CAPPED_OMEGA,
    prior: SpikeSlab = PRIOR,
    pruning: Pruning | None = None,
) -> tuple[Sampler, list[float], list[str]]:
    """Run PSGLD-SA on the regression test; return the sampler, the path of sigma and the warnings."""
    x, y = regression()
    with chain_warnings() as messages:
        sampler = psgld_sa(
            linear(),
            GaussianLikelihood(sigma=1.0),
            num_data=N,
            step_size=step_size,
            prior=prior,
            preconditioner=RMSprop.as_printed(alpha),
            omega=omega,
            pruning=pruning,
        )
        path = [sampler.step(x, y).sigma for _ in range(steps)]
    return sampler, path, messages


@contextmanager
def chain_warnings() -> Iterator[list[str]]:
    """Collect what the library says about the health of the chain."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ChainWarning)
        yield messages
    messages.extend(str(w.message) for w in caught if issubclass(w.category, ChainWarning))


def show(messages: list[str]) -> None:
    """Print the beginning of each warning."""
    for message in messages:
        print(textwrap.shorten(f"the library warns: {message}", 118, placeholder=" ..."))
