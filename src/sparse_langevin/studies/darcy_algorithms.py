"""The algorithms that a surrogate study compares, and their records."""

from collections.abc import Sequence
from dataclasses import dataclass

from sparse_langevin.studies.darcy_cells import SPARSITIES, Record, Study, Variant, variant_of
from sparse_langevin.surrogates.settings import Settings

VARIANTS: dict[Variant, str] = {"": "", "darcy": "Darcy network", "plain": "no momentum"}
Errors = dict[int, float | None]
"""Errors by seed; None for a run that diverged."""


@dataclass(frozen=True)
class Algorithm:
    """A method with its share of zeros and its variant."""

    method: str
    sparsity: float = 0.0
    variant: Variant = ""

    @classmethod
    def of(cls, record: Record) -> "Algorithm":
        """The algorithm that a record belongs to."""
        return cls(record["method"], record["sparsity"], variant_of(Settings.from_json(record["settings"])))

    def __str__(self) -> str:
        name = "Adam" if self.method == "adam" else self.method.upper()
        share = f" {self.sparsity:.0%}" if self.sparsity else ""
        variant = f" ({VARIANTS[self.variant]})" if self.variant else ""
        return f"{name}{share}{variant}"


def algorithms(study: Study) -> list[Algorithm]:
    """The algorithms of the paper's table, followed by the baselines."""
    pairs = [Algorithm(method, share) for share in SPARSITIES[study] for method in ("psgld-sa", "sgld-sa")]
    return [Algorithm("psgld"), Algorithm("sgld"), *pairs, Algorithm("adam"), Algorithm("adam", 0.7)]


def pick(found: Sequence[Record], field: str, algorithm: Algorithm) -> list[Record]:
    """The records of an algorithm on a field, one for each seed."""
    return [r for r in found if r["field"]["name"] == field and Algorithm.of(r) == algorithm]


def errors(found: Sequence[Record], field: str, algorithm: Algorithm, measure: str = "e1") -> Errors:
    """An algorithm's errors on a field, in percent."""
    return {r["seed"]: r.get(measure) for r in pick(found, field, algorithm)}


def mean(values: Errors) -> float | None:
    """The mean over the seeds; None if there are none, or if a run has diverged."""
    known = [value for value in values.values() if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
