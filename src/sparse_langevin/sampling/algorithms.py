r"""The four algorithms: {no preconditioner, RMSprop} x {Gaussian prior, learned spike and slab}.

|                    | Gaussian prior | spike and slab, learned |
|--------------------|----------------|-------------------------|
| no preconditioner  | `sgld`         | `sgld_sa`               |
| RMSprop            | `psgld`        | `psgld_sa`              |

Each returns a `Sampler` with its prior and preconditioner chosen, and takes the other options of `Sampler` by keyword.
"""

from collections.abc import Callable, Mapping
from typing import TypedDict, Unpack

from torch import nn

from sparse_langevin.sampling.flat import SparseChoice
from sparse_langevin.sampling.kernels import EngineName
from sparse_langevin.sampling.likelihoods import Likelihood, LogLikelihood
from sparse_langevin.sampling.metrics import Identity, Metric, RMSprop
from sparse_langevin.sampling.priors import GaussianPrior, Prior, as_prior
from sparse_langevin.sampling.pruning import Pruning
from sparse_langevin.sampling.sampler import Sampler
from sparse_langevin.sampling.schedules import Schedule


class Options(TypedDict, total=False):
    """Keywords that every algorithm passes on to `Sampler`."""

    seed: int
    chain: int
    tau: float | Schedule
    omega: float | Schedule
    sparse: SparseChoice
    dense_prior: Prior
    pruning: Pruning | None
    momentum: float
    engine: EngineName


def sgld(
    model: nn.Module,
    likelihood: Likelihood | LogLikelihood,
    *,
    num_data: int,
    step_size: float | Schedule,
    prior: Prior = GaussianPrior(),
    **options: Unpack[Options],
) -> Sampler:
    """Stochastic gradient Langevin dynamics with a Gaussian prior (Welling and Teh, 2011).

    The step size multiplies the gradient *summed* over the data. Steps are stable below 2 divided by the largest
    curvature of the log posterior, so the step size is of the order of 1/num_data.

    Examples
    --------
    >>> sampler = sgld(nn.Linear(3, 1), GaussianLikelihood(), num_data=100, step_size=1e-4)
    """
    _set_dense_prior(options, prior)
    return Sampler(
        model, likelihood, num_data=num_data, step_size=step_size, prior=prior, preconditioner=Identity(), **options
    )


def psgld(
    model: nn.Module,
    likelihood: Likelihood | LogLikelihood,
    *,
    num_data: int,
    step_size: float | Schedule,
    prior: Prior = GaussianPrior(),
    preconditioner: Metric = RMSprop(),
    **options: Unpack[Options],
) -> Sampler:
    """Preconditioned SGLD with a Gaussian prior (Li et al., 2016).

    The step size is, as in RMSprop or Adam, about the distance that a weight moves in one step.

    Examples
    --------
    >>> sampler = psgld(nn.Linear(3, 1), GaussianLikelihood(), num_data=100, step_size=1e-3)
    """
    _set_dense_prior(options, prior)
    return Sampler(
        model, likelihood, num_data=num_data, step_size=step_size, prior=prior, preconditioner=preconditioner, **options
    )


def sgld_sa(
    model: nn.Module,
    likelihood: Likelihood | LogLikelihood,
    *,
    num_data: int,
    step_size: float | Schedule,
    prior: Prior | Mapping[str, Prior] | None = None,
    **options: Unpack[Options],
) -> Sampler:
    """SGLD with a spike-and-slab prior learned by stochastic approximation (Deng et al., 2019).

    Examples
    --------
    >>> sampler = sgld_sa(nn.Linear(3, 1), GaussianLikelihood(), num_data=100, step_size=1e-4)
    """
    return Sampler(
        model, likelihood, num_data=num_data, step_size=step_size, prior=prior, preconditioner=Identity(), **options
    )


def psgld_sa(
    model: nn.Module,
    likelihood: Likelihood | LogLikelihood,
    *,
    num_data: int,
    step_size: float | Schedule,
    prior: Prior | Mapping[str, Prior] | None = None,
    preconditioner: Metric = RMSprop(),
    **options: Unpack[Options],
) -> Sampler:
    """Preconditioned SGLD with a learned spike-and-slab prior (Wang, Deng and Lin, 2020).

    Examples
    --------
    >>> sampler = psgld_sa(nn.Linear(3, 1), GaussianLikelihood(), num_data=100, step_size=1e-3,
    ...                    pruning=Pruning(target=0.7, end=2000))
    """
    return Sampler(
        model, likelihood, num_data=num_data, step_size=step_size, prior=prior, preconditioner=preconditioner, **options
    )


ALGORITHMS: dict[str, Callable[..., Sampler]] = {"sgld": sgld, "psgld": psgld, "sgld-sa": sgld_sa, "psgld-sa": psgld_sa}
"""The algorithms by their names in `methods`."""


def _set_dense_prior(options: Options, prior: Prior) -> None:
    """Use one prior for all parameters, unless ``dense_prior`` was given; refuse priors with latent variables."""
    if as_prior(prior, "prior").vectors:
        raise TypeError(
            f"sgld and psgld take a prior without latent variables, such as GaussianPrior(), got {prior!r}: use "
            "sgld_sa or psgld_sa"
        )
    options.setdefault("dense_prior", prior)
