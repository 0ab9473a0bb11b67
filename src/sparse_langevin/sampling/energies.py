r"""Differences of energy between two replicas, and whether they are to exchange their weights.

An exchange of the weights of replicas a and b changes the log density of both together by

    d = tau_a (U_a(beta_a) - U_a(beta_b)) + tau_b (U_b(beta_b) - U_b(beta_a)),

and is made with probability min(1, exp(d)). If d is estimated from m minibatches, noise alone would make hot weights
look good enough now and then, and the colder replica would get too warm. Therefore it is min(1, exp(d - u)). Noise that
is normal with variance s^2 needs u = s^2/2 (Ceperley and Dewing, 1999; for replicas Deng et al., 2020). Here s^2 is
itself estimated, from the differences between the batches, with n = m - 1 degrees of freedom; then, to second order,

    u = s^2/2 + s^4/(4 (n + 2)),

of which exp(-u) has the mean exp(-s^2/2). With 8 batches or more and s up to 1 the logarithm of the ratio between the
rates of an exchange and its reverse is within 1 % of d, at s = 2 within 8 % (3 % with 16 batches); without a correction
it would be 30 and 50 % too small.

Both weights are judged by the same examples, so that most of the noise cancels.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from sparse_langevin.sampling.sampler import Sampler


class Estimate(NamedTuple):
    """A value of d and what is known about its error."""

    value: float
    variance: float
    """Estimated variance of the error."""
    freedom: int
    """Degrees of freedom of that estimate."""

    @classmethod
    def of(cls, sums: Sequence[float], examples: Sequence[int], total: int) -> "Estimate":
        """Estimate the sum over ``total`` examples from those of batches, which are drawn without replacement."""
        seen, freedom = sum(examples), len(examples) - 1
        mean = math.fsum(sums) / seen
        spread = math.fsum((s - n * mean) ** 2 / n for s, n in zip(sums, examples, strict=True))
        unseen = 1.0 - seen / total
        return cls(total * mean, total**2 * unseen * spread / (freedom * seen) if unseen else 0.0, freedom)

    def plus(self, known: float) -> "Estimate":
        """Return the estimate with a part that is known exactly."""
        return self._replace(value=self.value + known)

    @property
    def log_acceptance(self) -> float:
        """Logarithm of the probability of an exchange."""
        return min(0.0, self.value - penalty(self.variance, self.freedom))


def penalty(variance: float, freedom: int) -> float:
    """Return u for a variance that was estimated with so many degrees of freedom.

    Examples
    --------
    >>> penalty(1.0, 10**9)
    0.50000000025
    """
    return 0.5 * variance + 0.25 * variance**2 / (freedom + 2)


class Pair(NamedTuple):
    """Two replicas and their inverse temperatures."""

    a: Sampler
    b: Sampler
    tau_a: float
    tau_b: float


def data_difference(pair: Pair, batch: Any) -> tuple[int, float]:
    """Return the number of examples in a batch, and their part of d."""
    a, b, tau_a, tau_b = pair
    energy = {}
    for sigma in {a.sigma, b.sigma}:
        for replica in (a, b):
            evaluation = replica.evaluate(batch, sigma)
            energy[sigma, replica] = -float(evaluation.log_likelihood)
    at_a = energy[a.sigma, a] - energy[a.sigma, b]
    at_b = energy[b.sigma, b] - energy[b.sigma, a]
    return evaluation.examples, tau_a * at_a + tau_b * at_b


def prior_difference(pair: Pair) -> float:
    """Return the part of d that the priors contribute."""
    a, b, tau_a, tau_b = pair
    here, there = a.flat.vector, b.flat.vector
    at_a = prior_energy(a, here) - prior_energy(a, there)
    at_b = prior_energy(b, there) - prior_energy(b, here)
    return tau_a * at_a + tau_b * at_b


def prior_energy(sampler: Sampler, beta: Tensor) -> float:
    """Return minus the log density of a sampler's priors at any weights, up to terms that do not depend on them."""
    pairs = zip(sampler.flat.blocks, sampler.blocks(), strict=True)
    return sum(float(s.prior.energy(beta[b.span], s.latent, s.numbers).double().sum()) for b, s in pairs)


def refresh_priors(sampler: Sampler) -> None:
    """Let the priors take note that the weights have been replaced."""
    for state in sampler.blocks():
        state.prior.refresh(state.beta, state.latent, state.numbers)
