"""The old name of `sparse_langevin.problems.darcy`, for one more release."""

import sys
import warnings

from sparse_langevin.problems import darcy

warnings.warn(
    "sparse_langevin.darcy is now sparse_langevin.problems.darcy; the old name goes with version 0.3",
    FutureWarning,
    stacklevel=2,
)
sys.modules[__name__] = darcy
