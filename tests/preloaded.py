"""Loaded once by the fork server of the tests, see `tests.processes`; what is slow to load is loaded here."""

import torch.fx.experimental.symbolic_shapes  # noqa: F401  (torch loads it with the first gradient)
from numba.core.registry import cpu_target

import sparse_langevin.sampling.kernels.native
import sparse_langevin.studies.darcy_study
import sparse_langevin.studies.regression_report
import sparse_langevin.surrogates.report  # noqa: F401
from tests.problems.darcy import dataset_worker  # noqa: F401
from tests.sampling import chains_run, resume_worker  # noqa: F401
from tests.surrogates import kill_worker  # noqa: F401

# Numba fills its tables when it first reads or makes machine code.
cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
