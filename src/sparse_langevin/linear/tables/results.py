"""What is found in a table: for each column a probability and effects; sets of columns that stand for one effect."""

from dataclasses import dataclass, field
from typing import Any

from sparse_langevin.linear.tables.cells import Values
from sparse_langevin.linear.tables.findings import count
from sparse_langevin.linear.tables.score import CrossValidation


@dataclass(frozen=True)
class Effect:
    """The effect of one unit of a column, or of one level of a category."""

    level: str
    """Of a category; nothing for numbers."""
    against: str
    """With what the level is compared."""
    rows: int
    """That have this level."""
    mean: float
    lower: float
    upper: float
    standardised: float
    """Per standard deviation of the column, if it holds numbers, and in standard deviations of a numeric target."""


@dataclass(frozen=True)
class Item:
    """What is found about a column."""

    name: str
    unit: str
    probability: float
    """That it has an effect."""
    effects: list[Effect]
    speaks_for: str = ""
    """The class whose log-odds the effects change."""
    place: int = 0
    """In the table."""

    @property
    def main(self) -> Effect:
        """The largest effect; of numbers, the only one."""
        return max(self.effects, key=lambda effect: abs(effect.mean))

    @property
    def label(self) -> str:
        """Its name, with the level of the largest effect."""
        e = self.main
        against = f" instead of {e.against}" if len(self.effects) == 1 else ""
        return f"{self.name}: {e.level}{against}" if e.level else self.name


@dataclass(frozen=True)
class OneEffect:
    """Columns of which at least one has an effect, though it cannot be told which."""

    names: list[str]
    probability: float
    purity: float
    """Smallest correlation between two of them."""


@dataclass(frozen=True)
class Selection:
    """All that is found in a table."""

    source: str
    target: str
    family: str
    effect_is: str
    rows: int
    items: list[Item]
    """All columns, the most probable first."""
    sets: list[OneEffect]
    together: list[str]
    """If columns matter but it cannot be told which: a few that together predict as well as all."""
    any_effect: float
    """Probability that at least one column has an effect."""
    small_effects: float
    """Probability that all columns have small effects together, beside those that stand out."""
    validation: CrossValidation | None
    correlation: Values
    """Of `correlated`."""
    correlated: list[str]
    threshold: float
    level: float
    remarks: list[str] = field(default_factory=list)
    """On the result."""
    read: list[str] = field(default_factory=list)
    """On the table."""

    @property
    def chosen(self) -> list[Item]:
        """The columns that are more probable than the threshold."""
        return [item for item in self.items if item.probability > self.threshold]

    @property
    def headline(self) -> str:
        """The result in one line."""
        k, p = len(self.chosen), len(self.items)
        where = f"({count(self.rows, 'row')} of {self.source})"
        named = {item.name for item in self.chosen}
        hidden = sum(not named.intersection(one.names) for one in self.sets)
        if k and hidden:
            more = f", and at least one column in {'each of ' * (hidden > 1)}{count(hidden, 'other set')}"
        else:
            more = ""
        if k:
            return f"{k} of {count(p, 'column')} {'matters' if k == 1 else 'matter'} for {self.target}{more} {where}"
        if hidden:
            sets = "one set" if hidden == 1 else f"each of {hidden} sets"
            return f"at least one column in {sets} of columns matters for {self.target} {where}"
        if self.together:
            return f"some of {count(p, 'column')} matter for {self.target}, but it cannot be told which {where}"
        return f"none of {count(p, 'column')} could be told apart from no effect on {self.target} {where}"

    def as_json(self) -> dict[str, Any]:
        """Return the numbers of the result as JSON."""
        score = self.validation.score if self.validation else None
        return {
            "headline": self.headline,
            "file": self.source,
            "target": self.target,
            "family": self.family,
            "effect": self.effect_is,
            "rows": self.rows,
            "threshold": self.threshold,
            "level": self.level,
            "probability_of_any_effect": self.any_effect,
            "probability_of_small_effects_of_all": self.small_effects,
            "cross_validation": score
            and {"score": score.name, "value": score.value, "error": score.error, "baseline": score.baseline},
            "columns": [_item(item, self.threshold) for item in self.items],
            "sets": [{"columns": s.names, "probability": s.probability, "purity": s.purity} for s in self.sets],
            "together": self.together,
            "remarks": [*self.remarks, *self.read],
        }


def _item(item: Item, threshold: float) -> dict[str, Any]:
    effects = [
        {
            **({"level": e.level, "against": e.against, "rows": e.rows} if e.level else {}),
            **({"class": item.speaks_for} if item.speaks_for else {}),
            "effect": e.mean,
            "lower": e.lower,
            "upper": e.upper,
            "standardised": e.standardised,
        }
        for e in item.effects
    ]
    return {
        "name": item.name,
        "unit": item.unit,
        "probability": item.probability,
        "chosen": item.probability > threshold,
        "effects": effects,
    }
