"""The time of updates and training steps of two source trees, in turns: what a change of the code costs.

    git worktree add ../before COMMIT
    python -m benchmarks.versions ../before/src src

Each tree runs in a process of its own; the two are asked in turns, so that a busy machine disturbs both alike. Where
the memory of a process lies alone changes these times by up to 9 %, so new pairs of processes are started several
times. It prints medians and quartiles of the ratio new/old. Only names that both trees have are used.
"""

import os
import statistics
import subprocess
import sys
import time

PAIRS, ROUNDS = 7, 8
WEIGHTS = 2_000_000


def worker() -> None:
    """Time what is asked for on standard input, one line each."""
    import torch
    from torch import nn

    import sparse_langevin as sl

    torch.set_num_threads(1)

    def sampler(hidden: int, algorithm: str, step_size: float, **options: object) -> object:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, hidden), nn.Tanh(), nn.Linear(hidden, 64))
        make = getattr(sl, algorithm)
        return make(model, sl.GaussianLikelihood(), num_data=1000, step_size=step_size, **options)

    x, y = torch.randn(64, 64), torch.randn(64, 64)
    jobs = {}
    for algorithm, size in (("sgld", 1e-8), ("psgld", 1e-5), ("sgld_sa", 1e-8), ("psgld_sa", 1e-5)):
        for momentum in (0.0, 0.9):
            large = sampler(WEIGHTS // 128, algorithm, size, momentum=momentum)
            large.step(x, y)
            jobs[f"update, {WEIGHTS:,} weights, {algorithm}, momentum {momentum}"] = (
                lambda s=large: s._engine.step(s._states, s.timetable.at(2, s.preconditioner), s._noise, 2),
                3,
            )
        small = sampler(64, algorithm, size)
        jobs[f"training step, 8,320 weights, {algorithm}"] = (lambda s=small: s.step(x, y), 100)
        tiny = sl.psgld_sa(nn.Linear(20, 1), sl.GaussianLikelihood(), num_data=100, step_size=1e-4)
        data = torch.randn(100, 20), torch.randn(100, 1)
        jobs["training step, 21 weights, psgld_sa"] = (lambda s=tiny, data=data: s.step(*data), 100)
    print("\t".join(jobs), flush=True)
    for name in sys.stdin:
        job, calls = jobs[name.strip()]
        begin = time.perf_counter()
        for _ in range(calls):
            job()
        print((time.perf_counter() - begin) / calls, flush=True)


def main() -> None:
    """Ask pairs of workers in turns, and print the ratios."""
    seconds: dict[str, list[list[float]]] = {}
    for _ in range(PAIRS):
        workers = [start(source) for source in sys.argv[1:3]]
        names, _ = (worker.stdout.readline().strip().split("\t") for worker in workers)
        for turn in range(ROUNDS):
            for name in names:
                for index in (0, 1) if turn % 2 else (1, 0):
                    workers[index].stdin.write(name + "\n")
                    workers[index].stdin.flush()
                    taken = float(workers[index].stdout.readline())
                    seconds.setdefault(name, [[], []])[index].append(taken)
        for worker in workers:
            worker.communicate()
    for name, (old, new) in seconds.items():
        ratios = [b / a for a, b in zip(old, new, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(f"{name:55s} {1e6 * statistics.median(old):10.1f} us, new/old {middle:.3f} ({low:.3f} to {high:.3f})")


def start(source: str) -> subprocess.Popen[str]:
    """A worker with the package in ``source``."""
    environment = os.environ | {"PYTHONPATH": os.path.abspath(source)}
    command = [sys.executable, __file__, "--worker"]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


if __name__ == "__main__":
    worker() if "--worker" in sys.argv else main()
