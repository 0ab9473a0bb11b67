"""The tables of docs/classification.md, made from the records."""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, stdev

from benchmarks.classification.field import CONTENDERS
from benchmarks.classification.harness import Cell
from benchmarks.classification.records import Record
from benchmarks.classification.scores import SIZES
from sparse_langevin.storage.files import write_atomically

BEGIN, END = "<!-- made by make bench-classification -->\n", "<!-- end -->\n"
Read = Callable[[Record], float]


def auroc(name: str, measure: str) -> Read:
    """Return what reads an AUROC from a record, in percent."""
    return lambda record: 100 * float(record["test"][f"auroc_{name}"][measure])


def score(name: str, factor: float = 1.0) -> Read:
    """Return what reads a score from a record."""
    return lambda record: factor * float(record["test"][name])


COLUMNS: dict[str, tuple[Read, int]] = {
    "accuracy %": (score("accuracy", 100), 2),
    "NLL": (score("nll"), 4),
    "Brier": (score("brier"), 4),
    "ECE": (score("ece"), 4),
    "CPU s": (lambda record: float(record["cpu_seconds"]), 0),
}
DOUBTS: dict[str, tuple[Read, int]] = {
    f"{name}, {short}": (auroc(name, measure), 1)
    for name in ("digits", "rotated")
    for short, measure in (("entropy", "entropy"), ("MI", "mutual_information"))
}
ATTACKS: dict[str, tuple[Read, int]] = {
    f"{size:g}": ((lambda record, size=size: 100 * float(record["test"]["fgsm"][str(size)])), 1) for size in SIZES
}


def render(finished: dict[Cell, list[Record]]) -> str:
    """Return the tables as Markdown."""
    parts = []
    for zeros in sorted({cell[1] for cell in finished}):
        rows = {CONTENDERS[name].title: found for (name, z), found in finished.items() if z == zeros and found}
        words = f"{zeros:.0%} zeros" if zeros else "Dense"
        seeds = sorted({record["seed"] for found in rows.values() for record in found})
        about = f"seeds {', '.join(map(str, seeds))}" if len(seeds) > 1 else f"seed {seeds[0]}" if seeds else "no runs"
        parts.append(f"**{words}**, {about}:\n\n" + "\n".join(_table(rows | _last(rows), COLUMNS)))
        parts.append("AUROC %, by entropy and by mutual information:\n\n" + "\n".join(_table(rows, DOUBTS)))
        parts.append("Accuracy % under FGSM, by the size of the perturbation:\n\n" + "\n".join(_table(rows, ATTACKS)))
        parts.append("Settings that the search chose:\n\n" + "\n".join(_settings(rows)))
        parts += _warmth(rows)
    return "\n\n".join(parts) + "\n"


def enter(path: Path, text: str) -> None:
    """Put the tables between the marks of a page."""
    whole = path.read_text()
    if whole.count(BEGIN) != 1 or END not in whole.split(BEGIN)[1]:
        raise ValueError(f"{path} must have one line {BEGIN.strip()!r} and after it one {END.strip()!r}: restore them")
    head, rest = whole.split(BEGIN)
    write_atomically(path, (head + BEGIN + text + END + rest.split(END, 1)[1]).encode())


def _table(rows: dict[str, list[Record]], columns: dict[str, tuple[Read, int]]) -> list[str]:
    lines = [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for title, records in rows.items():
        cells = [_text([read(record) for record in records], digits) for read, digits in columns.values()]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return lines


def _last(rows: dict[str, list[Record]]) -> dict[str, list[Record]]:
    """Return one more row: our last sample alone, to show what averaging is worth."""
    title = CONTENDERS["ours"].title
    alone = [record | {"test": record["test"]["last"]} for record in rows.get(title, [])]
    return {f"{title}, last sample alone": alone} if alone else {}


def _settings(rows: dict[str, list[Record]]) -> list[str]:
    lines = ["| | steps | epochs | settings |", "|---|---|---|---|"]
    for title, records in rows.items():
        one = records[0]
        words = ", ".join(f"{name} {value}" for name, value in one["settings"].items())
        lines.append(f"| {title} | {one['steps']:,} | {one['epochs']:.1f} | {words} |")
    return lines


def _warmth(rows: dict[str, list[Record]]) -> list[str]:
    """Return a sentence about how much warmer than asked for the chains were."""
    known = [record for records in rows.values() for record in records if record.get("warmth") is not None]
    if not known:
        return []
    warmth, tau = mean(record["warmth"] for record in known), known[0]["settings"]["tau"]
    return [
        f"The velocities of our chain are those of a temperature {warmth:.2f} times as high as was asked for; that was "
        f"1/tau = {1 / tau:g}, so samples are drawn at about {warmth / tau:.2g} times the temperature of the posterior."
    ]


def _text(values: Sequence[float], digits: int) -> str:
    """Return the mean, and with several seeds their standard deviation."""
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{spread}"
