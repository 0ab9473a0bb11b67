"""Memory that a default fit of a sparse matrix takes: 500 x 20,000 with 1 % of numbers that are not zero.

``python -m benchmarks.memory`` prints megabytes in units of the matrix (csr). The fit runs in a process of its own, in
which a small one has already imported and compiled everything; what counts is how much the peak of resident memory
grows from there, while the estimator has the matrix (which is there before, and not counted).
"""

import argparse
import gc
import resource
import sys
import warnings
from multiprocessing import get_context

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from benchmarks.interleaved import Record, record
from sparse_langevin import SparseBayesRegressor

ROWS, COLUMNS, DENSITY = 500, 20_000, 0.01
UNIT = 1024.0 if sys.platform != "darwin" else 1.0  # of what the system calls the peak, in bytes


def records(quick: bool = False) -> list[Record]:
    """Return the peak in units of the matrix."""
    rows, columns = (50, 1000) if quick else (ROWS, COLUMNS)
    with get_context("spawn").Pool(1) as pool:
        grown, size = pool.apply(peak, (rows, columns))
    matrix = f"csr, {rows} x {columns:,}, {DENSITY:.0%} not zero"
    return [
        record(f"memory of a default fit beyond the interpreter's: {matrix}", [grown / size], unit="times the input")
    ]


def matrix(rows: int, columns: int) -> tuple[sparse.csr_array, np.ndarray]:
    """Return a random sparse matrix, and a response with three effects."""
    rng = np.random.default_rng([rows, columns])
    x = sparse.random_array((rows, columns), density=DENSITY, format="csr", rng=rng)
    beta = np.zeros(columns)
    beta[rng.choice(columns, 3, replace=False)] = 20.0
    return x, x @ beta + 0.5 * rng.standard_normal(rows)


def peak(rows: int, columns: int) -> tuple[float, int]:
    """Return by how many bytes a fit raises the peak of resident memory, and the bytes of the matrix."""
    fit(*matrix(100, 900))
    x, y = matrix(rows, columns)
    size = x.data.nbytes + x.indices.nbytes + x.indptr.nbytes
    gc.collect()
    forget_the_peak()
    before = resident()
    fit(x, y)
    return max(highest() - before, 1.0), size


def fit(x: sparse.csr_array, y: np.ndarray) -> None:
    """Fit one estimator with default settings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        SparseBayesRegressor(random_state=0).fit(x, y)


def resident() -> float:
    """Return the bytes of memory that are in use; where the system does not say, the peak so far."""
    return _status("VmRSS") or highest()


def highest() -> float:
    """Return the peak since the last `forget_the_peak`, in bytes."""
    return _status("VmHWM") or UNIT * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def forget_the_peak() -> None:
    """Begin to measure the peak anew, where the system can."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass


def _status(name: str) -> float:
    try:
        with open("/proc/self/status") as file:
            return next((1024.0 * float(line.split()[1]) for line in file if line.startswith(name)), 0.0)
    except OSError:
        return 0.0


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    for row in records():
        print(f"{row['name']}: {row['value']:.2f} {row['unit']}")
