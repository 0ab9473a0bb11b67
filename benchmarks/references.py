"""Posteriors by NUTS (NumPyro), which the tests hold the samplers against: ``python -m benchmarks.references``.

It writes ``tests/sampling/statistics/references.json`` anew: means and standard deviations, with their Monte Carlo
errors, of a logistic regression (breast cancer), of the eight schools, and of the outputs of a small network on data
with a gap. All models and data are in `tests.sampling.statistics.models`, in NumPy.
"""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.diagnostics import effective_sample_size, gelman_rubin
from numpyro.infer import MCMC, NUTS

from tests.sampling.statistics import models

FILE = Path(models.__file__).with_name("references.json")


def main() -> None:
    """Sample all posteriors and write the file."""
    jax.config.update("jax_enable_x64", True)
    numpyro.set_host_device_count(2)
    found = {"breast cancer": breast_cancer(), "eight schools": eight_schools(), "network": network()}
    FILE.write_text(json.dumps(found, indent=1) + "\n")
    for name, record in found.items():
        print(f"{name}: largest R-hat {record['rhat']:.4f}, fewest effective draws {record['ess']:.0f}")


def breast_cancer() -> dict[str, Any]:
    """Logistic regression, standardised predictors, N(0, 1) priors of all coefficients."""
    x, y = models.breast_cancer()

    def model() -> None:
        beta = numpyro.sample("beta", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
        numpyro.sample("y", dist.Bernoulli(logits=jnp.asarray(x) @ beta), obs=jnp.asarray(y))

    return summary(run(model, draws=4000)["beta"])


def eight_schools() -> dict[str, Any]:
    """The eight schools, not centred; parameters (mu, log tau, eta)."""

    def model() -> None:
        mu = numpyro.sample("mu", dist.Normal(0, models.SCALE))
        log_tau = numpyro.sample("log_tau", dist.Normal(*models.LOG_TAU))
        eta = numpyro.sample("eta", dist.Normal(0, 1).expand([8]).to_event(1))
        numpyro.sample("y", dist.Normal(mu + jnp.exp(log_tau) * eta, jnp.asarray(models.ERRORS)), obs=models.EFFECTS)

    draws = run(model, draws=10_000)
    return summary(np.concatenate([draws["mu"][..., None], draws["log_tau"][..., None], draws["eta"]], axis=2))


def network() -> dict[str, Any]:
    """Outputs of a network 1-50-1 on a grid; the weights themselves have symmetries."""
    x, y = models.gap_data()
    width = models.WIDTH

    def output(w1: Any, b1: Any, w2: Any, b2: Any, inputs: Any) -> Any:
        return jnp.tanh(inputs[:, None] * w1 + b1) @ w2 + b2

    def model() -> None:
        w1 = numpyro.sample("w1", dist.Normal(0, models.PRIOR["w1"]).expand([width]).to_event(1))
        b1 = numpyro.sample("b1", dist.Normal(0, models.PRIOR["b1"]).expand([width]).to_event(1))
        w2 = numpyro.sample("w2", dist.Normal(0, models.PRIOR["w2"]).expand([width]).to_event(1))
        b2 = numpyro.sample("b2", dist.Normal(0, models.PRIOR["b2"]))
        numpyro.sample("y", dist.Normal(output(w1, b1, w2, b2, jnp.asarray(x)), models.NOISE), obs=jnp.asarray(y))

    draws = run(model, draws=2000)
    grid = jnp.asarray(models.GRID)
    made = jax.vmap(jax.vmap(lambda w1, b1, w2, b2: output(w1, b1, w2, b2, grid)))
    return summary(np.asarray(made(*(draws[name] for name in ("w1", "b1", "w2", "b2")))))


def run(model: Any, draws: int) -> dict[str, np.ndarray]:
    """Return draws (chains, draws, ...) by name."""
    sampler = MCMC(
        NUTS(model, target_accept_prob=0.9), num_warmup=1000, num_samples=draws, num_chains=4, progress_bar=False
    )
    sampler.run(jax.random.PRNGKey(0))
    return {name: np.asarray(values) for name, values in sampler.get_samples(group_by_chain=True).items()}


def summary(draws: np.ndarray) -> dict[str, Any]:
    """Return means, deviations and diagnostics of draws (chains, draws, quantities)."""
    flat = draws.reshape(-1, draws.shape[-1])
    return {
        "mean": flat.mean(0).tolist(),
        "std": flat.std(0, ddof=1).tolist(),
        "rhat": float(np.max(gelman_rubin(draws))),
        "ess": float(np.min(effective_sample_size(draws))),
        "versions": {"numpyro": numpyro.__version__, "jax": jax.__version__},
    }


if __name__ == "__main__":
    main()
