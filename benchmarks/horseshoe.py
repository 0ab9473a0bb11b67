r"""NumPyro's NUTS on the regularised horseshoe of Piironen and Vehtari (2017), the usual sparse model for NUTS.

    beta_j = tau l_j z_j,  l_j^2 = c^2 lambda_j^2/(c^2 + tau^2 lambda_j^2),  z_j ~ N(0, 1),  lambda_j ~ HalfCauchy(1),
    tau ~ HalfCauchy(tau_0),  tau_0 = p0/(p - p0) sigma/sqrt(n),  c^2 ~ InverseGamma(2, 2 s^2)

with p0 the number of effects expected and s^2 the variance of the slab. Steps are tuned to an acceptance of 0.9: the
default, 0.8, leaves many divergences under this prior.
"""

import time

import numpy as np


def run(x, y, expected: float, slab: float, lengths: tuple[int, int, int]) -> tuple[float, np.ndarray]:
    """Seconds of sampling after warm-up and compilation, and draws of beta (chains, draws, p).

    ``lengths`` are the chains, which run one after the other, their steps of warm-up, and their draws.
    """
    import jax
    import jax.numpy as jnp
    import numpyro
    from numpyro import distributions as dist
    from numpyro.infer import MCMC, NUTS

    n, p = x.shape

    def model(x, y):
        sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
        tau = numpyro.sample("tau", dist.HalfCauchy(1.0)) * expected / (p - expected) * sigma / n**0.5
        c2 = numpyro.sample("c2", dist.InverseGamma(2.0, 2.0 * slab))
        width = numpyro.sample("lambda", dist.HalfCauchy(jnp.ones(p)))
        z = numpyro.sample("z", dist.Normal(jnp.zeros(p), 1.0))
        beta = numpyro.deterministic("beta", z * tau * width * jnp.sqrt(c2 / (c2 + (tau * width) ** 2)))
        numpyro.sample("y", dist.Normal(x @ beta, sigma), obs=y)

    chains, warmup, draws = lengths
    mcmc = MCMC(
        NUTS(model, target_accept_prob=0.9),
        num_warmup=warmup,
        num_samples=draws,
        num_chains=chains,
        chain_method="sequential",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(0), jnp.asarray(x), jnp.asarray(y))  # compiles, and warms up
    mcmc.post_warmup_state = mcmc.last_state
    mcmc.run(jax.random.key(1), jnp.asarray(x), jnp.asarray(y))  # compiles what follows a warm-up
    mcmc.post_warmup_state = mcmc.last_state
    begin = time.perf_counter()
    mcmc.run(jax.random.key(2), jnp.asarray(x), jnp.asarray(y))
    samples = np.asarray(jax.block_until_ready(mcmc.get_samples(group_by_chain=True)["beta"]))
    return time.perf_counter() - begin, samples
