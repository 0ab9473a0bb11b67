"""Metrics, also called preconditioners: one file each. A new one derives from `Metric`; nothing else need change."""

from sparse_langevin.sampling.metrics.base import Metric, NativeMetric, as_metric
from sparse_langevin.sampling.metrics.identity import Identity
from sparse_langevin.sampling.metrics.rmsprop import RMSprop

__all__ = ["Identity", "Metric", "NativeMetric", "RMSprop", "as_metric"]
