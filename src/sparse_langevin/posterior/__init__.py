"""The posterior that a chain leaves behind: a bank of samples and what they predict."""

from sparse_langevin.posterior.bank import PosteriorBank, Prediction, Sample

__all__ = ["PosteriorBank", "Prediction", "Sample"]
