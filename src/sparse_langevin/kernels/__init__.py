"""The one elementwise update of the sampler, and the engines that carry it out.

`update` moves one block of weights by one Langevin step and its latent variables after it. An engine is a function
with that signature; `reference` is the readable one, which runs on any device.
"""

from sparse_langevin.kernels.reference import BlockState, StepScalars, Sums, update

__all__ = ["BlockState", "StepScalars", "Sums", "update"]
