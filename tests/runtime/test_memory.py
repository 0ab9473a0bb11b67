"""Freed memory stays with the process once a run has begun, unless the user objects."""

import os
import subprocess
import sys

import pytest

# Allocates and frees 200 MB, and prints how many pages that faulted in the second time.
SCRIPT = """
import resource, sys, torch
from sparse_langevin import GaussianLikelihood, fit, sgld
def work():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        torch.ones(10_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
if sys.argv[1:]:
    sampler = sgld(torch.nn.Linear(1, 1), GaussianLikelihood(), num_data=2, step_size=1e-3, engine="reference")
    fit(sampler, [(torch.ones(2, 1), torch.ones(2, 1))], steps=1)
work()
print(work())
"""


def faults(value, *arguments):
    command, environment = [sys.executable, "-c", SCRIPT], os.environ | {"SPARSE_LANGEVIN_KEEP_MEMORY": value}
    result = subprocess.run([*command, *arguments], env=environment, capture_output=True, text=True, check=True)
    return int(result.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a setting of glibc")
def test_a_run_keeps_memory_unless_the_variable_says_no():
    kept, returned = faults("1", "fit"), faults("0", "fit")
    assert kept < 1000 < returned, (kept, returned)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a setting of glibc")
def test_importing_changes_nothing():
    assert faults("1") > 1000
