"""Evidence for docs/paper-notes.md: what the paper prints, what follows from it, and what holds.

    python examples/paper_notes.py          list the notes
    python examples/paper_notes.py NAME     run one
    python examples/paper_notes.py all      run all, in about a minute

Each function prints a few lines and returns its key numbers. Here are those on the Langevin step; those on the latent
variables and on Darcy flow are in the two files beside this one.
"""

import math
import sys
from collections.abc import Callable

import numpy as np
import paper_notes_darcy as darcy
import paper_notes_latent as latent
import torch
from paper_notes_latent import PAPER_STEP, SIGMA, N, chain_warnings, linear, regression, show
from torch import Tensor, nn

from sparse_langevin import GaussianLikelihood, GaussianPrior, Polynomial, RMSprop, Sampler, psgld, sgld

Numbers = dict[str, float]


def v_weights() -> Numbers:
    """Algorithm 2 swaps the two weights in the moving average V."""
    values: Numbers = {}
    print("target N(0, 1), alpha = 0.999, eta = 1, eps = 0.05")
    for name, text, memory in (
        ("printed", "printed, V = (1-alpha) V + alpha g*g", 1 - 0.999),
        ("holds", "holds,   V = alpha V + (1-alpha) g*g", 0.999),
    ):
        squares, sampler, _ = gaussian_chain(0.05, RMSprop.as_printed(memory, 1.0), 3000)
        spread, variance = float(sampler.vectors["v"].std() / sampler.vectors["v"].mean()), float(squares.mean())
        values |= {name: variance, f"{name}_spread": spread}
        print(f"{text}: standard deviation of V {spread:.2f} of its mean, variance of the samples {variance:.2f}")
    return values


def noise_covariance() -> Numbers:
    """The update equation has noise of covariance G^(1/2); it must be G."""
    scale, eps, steps = np.repeat([0.25, 1.0, 4.0], 1000), 0.02, 3000
    metric = 1 / (1e-3 + 1 / scale)  # alpha = 1 keeps V at the first gradient, 1/scale^2
    rng, beta, squares = np.random.default_rng(0), scale.copy(), np.zeros(3000)
    for k in range(steps):
        beta += -eps * metric * beta / scale**2 + np.sqrt(2 * eps * np.sqrt(metric)) * rng.normal(size=3000)
        squares += (k >= steps // 2) * (beta / scale) ** 2 / (steps - steps // 2)
    paper = squares.reshape(3, -1).mean(1)
    ours = (
        gaussian_chain(eps, RMSprop.as_printed(1.0), steps, scales=torch.tensor(scale))[0]
        .reshape(3, -1)
        .mean(1)
        .numpy()
    )
    print("variance over the target's variance, targets N(0, s^2) with s = 0.25, 1, 4")
    print("printed, covariance 2 eps G^(1/2): " + ", ".join(f"{v:.2f}" for v in paper))
    print("holds,   covariance 2 eps G:       " + ", ".join(f"{v:.2f}" for v in ours))
    return {f"{name}_{i}": float(v[i]) for name, v in (("printed", paper), ("holds", ours)) for i in range(3)}


def step_scale() -> Numbers:
    """The step sizes of the regression tests do not fit gradients summed over the data."""
    x, y = regression()
    curvature = float(torch.linalg.matrix_norm(x, 2)) ** 2 / SIGMA**2
    last = next(k for k in range(1, 10**6) if PAPER_STEP(k) < 2 / curvature) - 1
    print(f"largest curvature {curvature:.0f}: SGLD is stable below 2/curvature = {2 / curvature:.4f}")
    print(f"0.05 k^(-1/3) on the gradient summed over the data is above that up to k = {last}")
    values: Numbers = {"curvature": curvature, "last_unstable": last}
    for name, text, scale in (("sum", "0.05", 0.05), ("mean", "0.05/N", 0.05 / N)):
        step_size = Polynomial(scale, 0.0, 1 / 3)
        likelihood = GaussianLikelihood(sigma=SIGMA, learn=False)
        sampler = sgld(linear(), likelihood, num_data=N, step_size=step_size)
        losses = [sampler.step(x, y).loss for _ in range(50)]
        values[name] = losses[-1]
        shown = ", ".join(f"{losses[k - 1]:.3g}" for k in (1, 10, 50))
        print(f"{text} k^(-1/3) on the sum: mean squared error at steps 1, 10, 50 = {shown}")
    return values


def gamma_sum() -> Numbers:
    """The bound on the bias without Gamma is a sum that diverges; the eps-weighted average vanishes."""
    k = np.arange(1, 10**6 + 1)
    forgets, eps = (100.0 + k) ** -0.7, 0.05 * k ** (-1 / 3)
    values: Numbers = {}
    print("alpha_k = 1 - (100+k)^-0.7, eps_k = 0.05 k^(-1/3)      K = 10^2     10^4     10^6")
    rows = {
        "plain": ("printed to vanish: sum (1-alpha_k)", np.cumsum(forgets)),
        "square": ("printed to vanish: sum (1-alpha_k)^2", np.cumsum(forgets**2)),
        "weighted": ("vanishes: sum eps_k (1-alpha_k) / sum eps_k", np.cumsum(eps * forgets) / np.cumsum(eps)),
        "ratio": ("vanishes: (1-alpha_K)/eps_K, what the bias follows", forgets / eps),
    }
    for name, (text, row) in rows.items():
        chosen = [float(row[10**e - 1]) for e in (2, 4, 6)]
        values |= {f"{name}_{e}": v for e, v in zip((2, 4, 6), chosen, strict=True)}
        print(f"{text:<52}" + "".join(f"{v:9.4f}" for v in chosen))
    return values


def gamma_bias() -> Numbers:
    """Leaving out Gamma widens the samples, by an amount that depends on (1-alpha)/eps."""
    exact = stationary_variance(lambda beta: 1 + np.abs(beta))
    squares, _, messages = gaussian_chain(0.01, RMSprop.as_printed(0.0, 1.0), 3000)
    plain = float(squares.mean())
    corrected = variance(0.01, RMSprop(alpha=0.0, eta=1.0, correction="auto"), 3000)
    print("variance of samples of N(0, 1), eta = 1")
    print(f"alpha = 0, no Gamma: {exact:.3f} by quadrature, {plain:.2f} from the chain at eps = 0.01")
    print(f"alpha = 0, with Gamma (correction='auto'): {corrected:.2f} from the chain at eps = 0.01")
    values: Numbers = {"quadrature": exact, "plain": plain, "corrected": corrected}
    for alpha in (0.9, 0.99, 0.999):
        for eps, steps in ((0.1, 1000), (0.01, 3000)):
            values[f"moving_{alpha}_{eps}"] = variance(eps, RMSprop.as_printed(alpha, 1.0), steps)
            values[f"frozen_{alpha}_{eps}"] = variance(eps, RMSprop(alpha, 1.0, freeze=steps // 3), steps)
        found = [values[f"{kind}_{alpha}_{eps}"] for eps in (0.1, 0.01) for kind in ("moving", "frozen")]
        shown = "{:.2f}, frozen {:.2f} at eps = 0.1; {:.2f}, frozen {:.2f} at eps = 0.01".format(*found)
        print(f"alpha = {alpha}, no Gamma: {shown}")
    show(messages)
    return values


def tau_gamma() -> Numbers:
    """At inverse temperature tau, Gamma has to be divided by tau."""
    tau = 2.0
    literal = stationary_variance(lambda beta: (1 + np.abs(beta)) ** (1 - tau), tau)
    ours = variance(0.01, RMSprop(alpha=0.0, eta=1.0, correction="auto"), 3000, tau=tau)
    print("target exp(-tau beta^2/2) with tau = 2, variance 1/2; alpha = 0, eta = 1")
    print(f"printed, drift G g + Gamma:     variance {literal:.3f} by quadrature")
    print(f"holds,   drift G g + Gamma/tau: variance {ours:.2f} from the chain at eps = 0.01")
    return {"printed": literal, "holds": ours}


class Weights(nn.Module):
    """A bare vector of weights."""

    def __init__(self, beta: Tensor) -> None:
        super().__init__()
        self.beta = nn.Parameter(beta)


def gaussian_chain(
    eps: float, preconditioner: RMSprop, steps: int, *, tau: float = 1.0, scales: Tensor | None = None
) -> tuple[Tensor, Sampler, list[str]]:
    """Run PSGLD on 3000 independent weights of target N(0, scale^2), each a chain of its own.

    Returns each weight's mean square over scale^2 in the second half of the run, the sampler and the warnings.
    """
    scale = torch.ones(3000, dtype=torch.float64) if scales is None else scales
    start = torch.randn(3000, generator=torch.Generator().manual_seed(0), dtype=torch.float64) / tau**0.5
    model = Weights(start if scales is None else scale * start.sign())
    with chain_warnings() as messages:
        sampler = psgld(
            model,
            lambda model, _: -0.5 * (model.beta / scale).square().sum().reshape(1),
            num_data=1,
            step_size=eps,
            prior=GaussianPrior(math.inf),
            preconditioner=preconditioner,
            tau=tau,
        )
        squares = torch.zeros_like(scale)
        for k in range(steps):
            sampler.step(None)
            if k >= steps // 2:
                squares += (model.beta.detach() / scale).square() / (steps - steps // 2)
    return squares, sampler, messages


def variance(*arguments: object, **options: object) -> float:
    """Run `gaussian_chain` and average over the weights."""
    return float(gaussian_chain(*arguments, **options)[0].mean())


def stationary_variance(weight: Callable[[np.ndarray], np.ndarray], tau: float = 1.0) -> float:
    """Variance of the density weight(beta) * exp(-tau beta^2/2), by quadrature."""
    beta = np.linspace(-12, 12, 240_001)
    density = weight(beta) * np.exp(-tau * beta**2 / 2)
    return float((beta**2 * density).sum() / density.sum())


NOTES = {
    note.__name__.replace("_", "-"): note
    for note in (
        v_weights,
        noise_covariance,
        latent.sigma_quadratic,
        latent.slab_norm,
        latent.residual_count,
        latent.v0_v1,
        latent.omega_cap,
        latent.alpha_schedule,
        step_scale,
        latent.beta_zeros,
        gamma_sum,
        gamma_bias,
        tau_gamma,
        latent.delta_collapse,
        latent.log_odds,
        latent.rho_exact,
        latent.sigma_pruned,
        darcy.covariance_sign,
        darcy.positive_fields,
        darcy.boundary_sign,
        darcy.sample_counts,
        darcy.e2_norm,
        darcy.parameter_count,
    )
}


def main(arguments: list[str]) -> int:
    """List the notes, or run those named."""
    names = list(NOTES) if arguments == ["all"] else arguments
    unknown = [name for name in names if name not in NOTES]
    if unknown:
        print(f"unknown note {unknown[0]!r}; the notes are: {', '.join(NOTES)}", file=sys.stderr)
        return 2
    if not names:
        for name, note in NOTES.items():
            print(f"{name:<18}{note.__doc__.splitlines()[0]}")
    for name in names:
        if len(names) > 1:
            print(f"\n{name}: {NOTES[name].__doc__.splitlines()[0]}")
        NOTES[name]()
    return 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main(sys.argv[1:]))
