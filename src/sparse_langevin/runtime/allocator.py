"""Memory that stays with the process between training steps.

On Linux, glibc gives large blocks back to the system as soon as they are free, and the activations of the next step are
faulted in again, page by page: a large part of the time of a training step. `keep_memory` raises the two thresholds
behind that. It is called when `sparse_langevin.sampling.training` is imported; the environment variable
``SPARSE_LANGEVIN_KEEP_MEMORY=0`` prevents it. The process then holds on to the most memory it has needed.
"""

import ctypes
import logging
import os
import sys

logger = logging.getLogger(__name__)

VARIABLE = "SPARSE_LANGEVIN_KEEP_MEMORY"
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
TRIM, MMAP = 2**31 - 1, 2**30


def keep_memory() -> bool:
    """Raise the allocator's thresholds, once and for good; return whether that was done."""
    if os.environ.get(VARIABLE) == "0" or not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if mallopt is None or not (mallopt(M_MMAP_THRESHOLD, MMAP) and mallopt(M_TRIM_THRESHOLD, TRIM)):
        return False
    logger.info("freed memory stays with the process between steps; %s=0 prevents it", VARIABLE)
    return True
