"""Problems of every kind, and data for them."""

import numpy as np

from sparse_langevin.problems.arrays import ArraysProblem, Variable

SHAPES = {
    "v": (5,),
    "x": (37,),
    "cx": (2, 41),
    "yx": (9, 14),
    "cyx": (2, 11, 6),
    "zyx": (5, 6, 7),
    "czyx": (2, 3, 6, 5),
}


def variable(layout, names=(), units=()):
    return Variable(layout, SHAPES[layout], names, units)


def problem(first, second, **settings):
    return ArraysProblem(variable(first), variable(second), **settings)


def examples(made, count=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, *made.input_shape)), rng.standard_normal((count, *made.output_shape))
