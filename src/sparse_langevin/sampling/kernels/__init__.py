"""The one elementwise update of the sampler, and the engines that carry it out.

An engine moves every block of weights by one Langevin step, and its latent variables after it. `reference` defines
the update in torch operations; `native` is the same arithmetic compiled for the CPU; `choose` picks one.
"""

from sparse_langevin.sampling.kernels.engines import Engine, EngineName, choose
from sparse_langevin.sampling.kernels.reference import BlockState, StepScalars, Sums

__all__ = ["BlockState", "Engine", "EngineName", "StepScalars", "Sums", "choose"]
