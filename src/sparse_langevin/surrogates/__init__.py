"""Surrogates of simulators: train, save, load, evaluate, predict, report; for any problem."""

from typing import TYPE_CHECKING

from sparse_langevin.runtime.extras import expect_surrogates
from sparse_langevin.runtime.lazy import lazily

if TYPE_CHECKING:
    from sparse_langevin.surrogates.codec import Codec
    from sparse_langevin.surrogates.evaluation import Evaluation, evaluate
    from sparse_langevin.surrogates.prediction import predict
    from sparse_langevin.surrogates.problem import Baseline, DataSet, Measure, Problem, open_data
    from sparse_langevin.surrogates.runs import SurrogateRun
    from sparse_langevin.surrogates.settings import Settings
    from sparse_langevin.surrogates.surrogate import Surrogate
    from sparse_langevin.surrogates.training import train

expect_surrogates("a surrogate")

__all__ = [
    "Baseline",
    "Codec",
    "DataSet",
    "Evaluation",
    "Measure",
    "Problem",
    "Settings",
    "Surrogate",
    "SurrogateRun",
    "evaluate",
    "open_data",
    "predict",
    "train",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "codec": ("Codec",),
        "evaluation": ("Evaluation", "evaluate"),
        "prediction": ("predict",),
        "problem": ("Baseline", "DataSet", "Measure", "Problem", "open_data"),
        "runs": ("SurrogateRun",),
        "settings": ("Settings",),
        "surrogate": ("Surrogate",),
        "training": ("train",),
    },
)
