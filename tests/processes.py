"""Processes that begin in milliseconds: forks of a server that has loaded `tests.preloaded` once.

A process that begins anew loads torch and Numba for several seconds. All tests share one server, as a second choice of
what to load would be ignored.
"""

import multiprocessing
import os
import sys
from multiprocessing import forkserver
from types import SimpleNamespace

from sparse_langevin.runtime import processes as library

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["tests.preloaded"])


def fork_quickly(patch, context=processes):
    """Let the library's own processes begin like this, too; those of `tests/runtime/test_processes.py` begin anew."""
    if context is processes:
        forkserver.ensure_running()  # it would block signals, too, if the library started it with its first process
    patch.setattr(library, "_CONTEXT", context)


def run_command(arguments, errors):
    """Be the command sparse-langevin on one thread, with standard error in a file; executed in a process of its own."""
    import torch

    from sparse_langevin.cli import main

    torch.set_num_threads(1)
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    # It would not find the server that it comes from; having used no threads, it can be forked itself.
    fork_quickly(SimpleNamespace(setattr=setattr), multiprocessing.get_context("fork"))
    sys.argv = ["sparse-langevin", *arguments]
    main()
