"""The posterior distribution that a chain has sampled: a bank of samples, and what they predict."""

from typing import TYPE_CHECKING

from sparse_langevin.runtime.lazy import lazily

if TYPE_CHECKING:
    from sparse_langevin.posterior.bank import PosteriorBank
    from sparse_langevin.posterior.encoding import Sample
    from sparse_langevin.posterior.mixture import Mixture
    from sparse_langevin.posterior.predictive import Prediction, Predictive
    from sparse_langevin.posterior.probabilities import Classification
    from sparse_langevin.storage.errors import DamagedError

__all__ = ["Classification", "DamagedError", "Mixture", "PosteriorBank", "Prediction", "Predictive", "Sample"]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "bank": ("PosteriorBank",),
        "encoding": ("Sample",),
        "mixture": ("Mixture",),
        "predictive": ("Prediction", "Predictive"),
        "probabilities": ("Classification",),
        "store": ("DamagedError",),
    },
)
