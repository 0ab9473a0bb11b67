r"""Gaussian random fields by the Karhunen-Loeve expansion.

    kappa = kappa_0 + Y   ("affine")   or   kappa = kappa_0 exp(Y)   ("lognormal"),    Y = sum_j mu_j sqrt(xi_j) Phi_j,

with mu_j independent N(0, 1) and (xi_j, Phi_j) the largest eigenpairs of the covariance on the cells' centres:

    squared-exponential:  variance * exp(-dx^2/lx^2 - dy^2/ly^2)
    exponential:          variance * exp(-|dx|/lx - |dy|/ly)

Both are products of a kernel in x and one in y, so their eigenpairs are products of those of two small matrices, and a
field is two small matrix products, on any grid and with any number of terms.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sparse_langevin.problems.darcy.grid import Array, Grid
from sparse_langevin.runtime.memory import require_memory

MAX_REDRAWS = 10_000


@dataclass(frozen=True)
class KLE:
    """A random permeability field.

    Parameters
    ----------
    grid
        Grid of the field.
    terms
        Number of terms that are kept, from 1 to the number of cells.
    kernel
        ``"squared-exponential"`` (the paper's) or ``"exponential"``.
    lx
        Correlation length in x.
    ly
        Correlation length in y.
    variance
        Variance of Y with all terms.
    mode
        ``"affine"`` adds Y to ``kappa_0`` and redraws fields that are not positive; ``"lognormal"`` is kappa_0*exp(Y).
    kappa_0
        Mean of an affine field, median of a log-normal one. The paper does not give its value; 6 leaves about one
        affine field in a thousand to redraw, and log-normal fields usually take 1.

    Examples
    --------
    >>> round(KLE(Grid(50, 50), terms=32).captured, 3)
    0.987
    """

    grid: Grid
    terms: int = 32
    kernel: Literal["squared-exponential", "exponential"] = "squared-exponential"
    lx: float = 0.2
    ly: float = 0.3
    variance: float = 2.0
    mode: Literal["affine", "lognormal"] = "affine"
    kappa_0: float = 6.0
    _modes: tuple[Array, Array, Array] = field(init=False, repr=False, compare=False)
    _order: NDArray[np.int64] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 1 <= self.terms <= self.grid.cells:
            raise ValueError(f"terms must lie between 1 and the number of cells {self.grid.cells}, got {self.terms!r}")
        if self.kernel not in ("squared-exponential", "exponential"):
            raise ValueError(f"kernel must be 'squared-exponential' or 'exponential', got {self.kernel!r}")
        if self.mode not in ("affine", "lognormal"):
            raise ValueError(f"mode must be 'affine' or 'lognormal', got {self.mode!r}")
        for name in ("lx", "ly", "variance", "kappa_0"):
            if not 0 < getattr(self, name) < np.inf:
                raise ValueError(f"{name} must be a positive number, got {getattr(self, name)!r}")
        size = 32 * (self.grid.nx**2 + self.grid.ny**2) + 16 * self.grid.cells
        require_memory(size, f"the expansion on {self.grid.nx} by {self.grid.ny} cells", "use fewer cells")
        x_values, x_vectors = _eigenpairs(self.grid.nx, self.grid.hx, self.lx, self.kernel)
        y_values, y_vectors = _eigenpairs(self.grid.ny, self.grid.hy, self.ly, self.kernel)
        values = self.variance * np.outer(y_values, x_values)
        # Ties (from symmetric grids) are broken by position, so that the order does not depend on rounding.
        order = np.argsort(-np.round(values / values.max(), 12).ravel(), kind="stable")
        object.__setattr__(self, "_modes", (y_vectors, np.sqrt(values), x_vectors))
        object.__setattr__(self, "_order", order[: self.terms])

    @property
    def eigenvalues(self) -> Array:
        """The eigenvalues xi_j of the terms, largest first."""
        values: Array = np.square(self._modes[1].ravel()[self._order])
        return values

    @property
    def captured(self) -> float:
        """Share of the variance that the terms capture."""
        return float(self.eigenvalues.sum() / (self.variance * self.grid.cells))

    def gaussian(self, mu: Array) -> Array:
        """The fields Y of shape (..., ny, nx) for coefficients of shape (..., terms)."""
        mu = np.asarray(mu, dtype=float)
        if mu.shape[-1] != self.terms:
            raise ValueError(f"a field of {self.terms} terms needs {self.terms} coefficients, got shape {mu.shape}")
        y_vectors, root, x_vectors = self._modes
        coefficients = np.zeros((*mu.shape[:-1], root.size))
        coefficients[..., self._order] = mu
        weighted = coefficients.reshape(*mu.shape[:-1], *root.shape) * root
        result: Array = y_vectors @ weighted @ x_vectors.T
        return result

    def sample(self, rng: np.random.Generator) -> tuple[Array, int]:
        """Draw one permeability field; return it and the number of fields that had to be drawn again."""
        for redraws in range(MAX_REDRAWS):
            y = self.gaussian(rng.standard_normal(self.terms))
            if self.mode == "lognormal":
                with np.errstate(over="ignore"):  # the solver says so
                    return self.kappa_0 * np.exp(y), 0
            if y.min() > -self.kappa_0:
                return self.kappa_0 + y, redraws
        raise ValueError(
            f"{MAX_REDRAWS} fields in a row were not positive: kappa_0 = {self.kappa_0:g} is too small for the "
            f"variance {self.variance:g}; use a larger kappa_0, or mode='lognormal'"
        )


def _eigenpairs(n: int, width: float, length: float, kernel: str) -> tuple[Array, Array]:
    """Eigenpairs of a one-dimensional kernel on n centres, largest first, with signs fixed."""
    # Neighbours a thousand lengths apart are independent to the last bit; a tiny length would overflow.
    distance = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) * min(width / length, 1e3)
    matrix = np.exp(-(distance**2)) if kernel == "squared-exponential" else np.exp(-distance)
    values, vectors = np.linalg.eigh(matrix)
    values, vectors = np.clip(values[::-1], 0.0, None), vectors[:, ::-1]
    # An eigenvector's sign is arbitrary; the largest entry of its first half is made positive. The other half has the
    # same entries up to sign and rounding, and rounding, which differs from machine to machine, must not decide.
    largest = np.argmax(np.abs(vectors[: (n + 1) // 2]), axis=0)
    return values, vectors * np.sign(vectors[largest, np.arange(n)])
