"""Memory: what stays with the process between training steps, and what is refused before it is taken.

On Linux, glibc returns large blocks to the system as soon as they are freed, and the activations of the next step have
to be faulted in again, page by page, which takes a large part of the time of a training step. `keep_memory` raises the
two thresholds that decide this, so that the process holds on to the most memory it has needed. `fit` calls it when its
first run begins; importing the library changes nothing. The environment variable ``SPARSE_LANGEVIN_KEEP_MEMORY=0``
prevents it.
"""

import ctypes
import functools
import logging
import os
import sys

logger = logging.getLogger(__name__)

VARIABLE = "SPARSE_LANGEVIN_KEEP_MEMORY"
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
TRIM, MMAP = 2**31 - 1, 2**30


@functools.cache
def keep_memory() -> bool:
    """Raise the allocator's thresholds for the rest of the process, at the first call; return whether that was done."""
    if os.environ.get(VARIABLE) == "0" or not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if mallopt is None or not (mallopt(M_MMAP_THRESHOLD, MMAP) and mallopt(M_TRIM_THRESHOLD, TRIM)):
        return False
    logger.info("freed memory stays with the process between steps; %s=0 prevents it", VARIABLE)
    return True


def require_memory(size: int, what: str, remedy: str) -> None:
    """Raise a ValueError if something needs more bytes than this machine has, before it is attempted."""
    there = machine_memory()
    if size > there:
        raise ValueError(
            f"{what} needs about {size / 1e9:,.0f} GB of memory, and this machine has {there / 1e9:,.0f} GB: {remedy}"
        )


def machine_memory() -> int:
    """Bytes of memory of this machine; where the system does not tell, as many as there may be."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return sys.maxsize
