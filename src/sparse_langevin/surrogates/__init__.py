"""Surrogates of the flow problem: train, save, load, evaluate, report."""

from sparse_langevin.runtime.extras import expect_surrogates

expect_surrogates("sparse_langevin.surrogates")

from sparse_langevin.surrogates.evaluation import Evaluation, evaluate
from sparse_langevin.surrogates.runs import SurrogateRun
from sparse_langevin.surrogates.settings import Settings
from sparse_langevin.surrogates.train import train

__all__ = ["Evaluation", "Settings", "SurrogateRun", "evaluate", "train"]
