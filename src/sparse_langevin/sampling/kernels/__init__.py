"""The elementwise update of the sampler, and the engines that compute it.

An engine moves every block of weights by one Langevin step and then updates its latent variables. `reference` defines
the update in torch operations, `native` is the same arithmetic compiled for the CPU, and `choose` selects an engine.
"""

from sparse_langevin.sampling.kernels.engines import Engine, EngineName, choose
from sparse_langevin.sampling.kernels.reference import BlockState, StepScalars, Sums

__all__ = ["BlockState", "Engine", "EngineName", "StepScalars", "Sums", "choose"]
