"""Freed memory stays with the process, unless the user objects."""

import os
import subprocess
import sys

import pytest

# Allocates and frees 200 MB, and prints how many pages that faulted in the second time.
SCRIPT = """
import resource, torch
import sparse_langevin.sampling.training
def work():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        torch.ones(10_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
work()
print(work())
"""


def faults(value):
    environment = os.environ | {"SPARSE_LANGEVIN_KEEP_MEMORY": value}
    result = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    return int(result.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a setting of glibc")
def test_memory_is_kept_unless_the_variable_says_no():
    kept, returned = faults("1"), faults("0")
    assert kept < 1000 and (returned > 10 * kept or returned > 1000), (kept, returned)
