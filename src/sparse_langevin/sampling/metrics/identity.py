"""No preconditioner: G = 1, the metric of SGLD."""

from dataclasses import dataclass

from torch import Tensor

from sparse_langevin.sampling.metrics.base import Metric, NativeMetric, Numbers, Vectors


@dataclass(frozen=True)
class Identity(Metric):
    """No preconditioner: the same step for every weight."""

    def inverse(self, u: Tensor, vectors: Vectors, numbers: Numbers) -> None:
        """Return None, which stands for 1/G = 1."""

    def native(self) -> NativeMetric:
        """Return a metric without formulas."""
        return NativeMetric(None)
