"""Whether noise looks normal, and what outliers do not move."""

import numpy as np
from scipy import stats

from sparse_langevin.linear.design import Array
from sparse_langevin.runtime.warn import warn

OUTLIER = 1e-4  # probability with which normal noise alone would give the warning about residuals


def look_at_residuals(residual: Array, weight: Array | None, of: str = "", remedy: str = "noise='student'") -> None:
    """Warn if residuals, in units of the noise, have heavier tails than a normal distribution; ``of`` names them."""
    if weight is not None:
        residual = np.where(weight == 0, 0.0, residual)
    worst = int(np.abs(residual).argmax())
    expected = float(stats.norm.isf(0.5 * OUTLIER / len(residual)))
    if abs(residual[worst]) > expected:
        warn(
            f"{of}observation {worst} lies {abs(residual[worst]):.1f} standard deviations of the noise from its "
            f"prediction, where normal noise reaches {expected:.1f} once in {1 / OUTLIER:,.0f} data sets: effects "
            f"may stay hidden. Look at it, or choose {remedy}.",
            UserWarning,
        )


def robust(y: Array, centred: bool) -> tuple[float, float]:
    """Return the median, and the standard deviation of normal noise with the same median distance from it."""
    centre = float(np.median(y)) if centred else 0.0
    distance = float(np.median(np.abs(y - centre)))
    return centre, distance / 0.6745 or float(y.std())
