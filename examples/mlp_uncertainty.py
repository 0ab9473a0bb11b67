"""A curve with a gap in its data: does the network know where it does not know?

A small network is fitted to noisy observations of sin(1.2 x), none of them between -1 and 1. `psgld` draws from the
posterior of its weights under a standard normal prior; there are only 31 of them, so a spike-and-slab prior would have
nothing to remove. Four chains that start from draws of the prior, much further apart than the posterior is wide, share
one bank of samples: where they agree, it is because of the data. The noise level is learned with the weights.

Printed: error and coverage on new observations, where there were data and in the gap, and what the chains say of the
middle of the gap. Drawn: the posterior mean, with one and two standard deviations.

Run: python examples/mlp_uncertainty.py [--out FOLDER]
"""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from sparse_langevin import Batches, GaussianLikelihood, PosteriorBank, RMSprop, fit, psgld

NOISE, WIDTH, CHAINS, STEPS, BURN_IN = 0.2, 10, 4, 4000, 1000


def truth(x: np.ndarray) -> np.ndarray:
    """Return the curve that the data come from."""
    return np.sin(1.2 * x)


def observe(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return noisy observations of the curve."""
    return truth(x) + NOISE * rng.standard_normal(len(x))


def column(values: np.ndarray) -> Tensor:
    """Return values as a float32 column, one row per example."""
    return torch.tensor(values, dtype=torch.float32)[:, None]


def sample(x: np.ndarray, y: np.ndarray, seed: int) -> tuple[nn.Module, PosteriorBank]:
    """Run the chains; their samples share a bank."""
    bank = PosteriorBank(thin=10, burn_in=BURN_IN)
    torch.manual_seed(seed)
    for chain in range(CHAINS):
        model = nn.Sequential(nn.Linear(1, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))
        for parameter in model.parameters():
            nn.init.normal_(parameter)
        sampler = psgld(
            model,
            GaussianLikelihood(lambda_=0.1),  # a first guess of the noise variance, worth one observation
            num_data=len(x),
            step_size=4e-3,
            preconditioner=RMSprop(alpha=0.999),
            seed=seed,
            chain=chain,
        )
        fit(sampler, Batches(column(x), column(y), batch_size=len(x)), steps=STEPS, bank=bank, progress=False)
    return model, bank


def score(model: nn.Module, bank: PosteriorBank, x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the root mean square error and the coverage of the 95 % interval."""
    prediction = bank.predict(model, column(x))
    error = (prediction.mean - column(y)).abs()
    return float(error.square().mean().sqrt()), float((error < 1.96 * prediction.total_std).float().mean())


def main(out: Path = Path("out"), seed: int = 0) -> dict[str, float]:
    """Sample, print a table, draw the picture and return the key numbers."""
    rng = np.random.default_rng(seed)
    sides = lambda n: rng.uniform(1, 3, n) * rng.choice([-1, 1], n)  # noqa: E731
    x, x_test, x_gap = sides(60), sides(1000), rng.uniform(-1, 1, 1000)
    y, y_test, y_gap = observe(x, rng), observe(x_test, rng), observe(x_gap, rng)
    model, bank = sample(x, y, seed)
    g = np.linspace(-5, 5, 201)
    P = bank.predict(model, column(g))
    s = P.std[:, 0].numpy()
    m = P.mean[:, 0].numpy()
    w = list(bank)
    k = len(w) // CHAINS
    o = torch.stack(
        [torch.func.functional_call(model, q.parameters, (column(np.zeros(1)),))[0, 0].detach() for q in w]
    ).view(CHAINS, k)
    inn = (np.abs(g) > 1) & (np.abs(g) < 3)
    print(
        seed,
        "in/gap",
        score(model, bank, x_test, y_test),
        score(model, bank, x_gap, y_gap),
        f"n.std {P.noise_std:.3f} sd in {s[inn].mean():.3f} gap0 {s[100]:.3f} +-4 {s[20]:.2f} {s[180]:.2f} zgap {(np.abs(m - truth(g)) / s)[np.abs(g) <= 1].max():.2f} zall {(np.abs(m - truth(g)) / s)[10:-10].max():.2f}",
        o.mean(1).numpy().round(2),
        o.std(1).numpy().round(2),
        flush=True,
    )
    return g, m, s, P.noise_std, x, y
