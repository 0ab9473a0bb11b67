"""The results as CSV and JSON, for other programs."""

import csv
import io
import json

from sparse_langevin.linear.tables.results import Selection

FIELDS = (
    *("column", "unit", "level", "against", "rows", "class", "probability", "chosen"),
    *("effect", "lower", "upper", "standardised", "set"),
)


def selection_csv(result: Selection) -> bytes:
    """Return one line per column, or per level of a category, as CSV."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(FIELDS)
    for item in result.items:
        member = next((str(i) for i, one in enumerate(result.sets, start=1) if item.name in one.names), "")
        chosen = str(item.probability > result.threshold).lower()
        for e in item.effects:
            facts = (item.name, item.unit, e.level, e.against, e.rows, item.speaks_for)
            numbers = (e.mean, e.lower, e.upper, e.standardised)
            writer.writerow([*facts, item.probability, chosen, *numbers, member])
    return buffer.getvalue().encode()


def selection_json(result: Selection) -> bytes:
    """Return the whole result as JSON."""
    return json.dumps(result.as_json(), indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"
