"""The results as tables and as one HTML page."""

from collections.abc import Sequence

from sparse_langevin.linear.tables import figures
from sparse_langevin.linear.tables.findings import listed, shortened, with_unit
from sparse_langevin.linear.tables.results import Item, Selection
from sparse_langevin.reports.page import Picture, Section, Table, png, render

MENTIONED = 0.25  # probability of small effects of all columns, from which on they are mentioned: more than before
NOTHING = (
    "No column could be told apart from no effect. That does not show that there is none: there may be too few rows."
)


def columns_table(items: Sequence[Item], result: Selection, caption: str = "") -> Table:
    """Return columns with their probabilities and effects."""
    named = any(item.speaks_for for item in items) and len({item.speaks_for for item in result.items}) > 1
    head = ["column", "probability", "effect", f"{result.level:.0%} interval", "standardised"]
    rows = []
    for item in items:
        e = item.main
        row = [
            _shown(item),
            f"{item.probability:.3f}",
            f"{e.mean:.4g}",
            f"{e.lower:.4g} to {e.upper:.4g}",
            f"{e.standardised:.3g}",
        ]
        rows.append([*row, item.speaks_for] if named else row)
    return Table([*head, "of class"] if named else head, rows, caption)


def levels_tables(result: Selection) -> list[Table]:
    """Return a table for each chosen category that has more than two levels: how they differ."""
    tables = []
    for item in result.chosen:
        if len(item.effects) < 2:
            continue
        head = ("level", "rows", "effect", f"{result.level:.0%} interval")
        rows = [
            (shortened(e.level), str(e.rows), f"{e.mean:.4g}", f"{e.lower:.4g} to {e.upper:.4g}")
            for e in sorted(item.effects, key=lambda e: -e.mean)
        ]
        tables.append(
            Table(
                head,
                rows,
                f"Levels of {shortened(item.name)}: by how much each differs from the average row.",
            )
        )
    return tables


def sets_table(result: Selection) -> Table:
    """Return the sets of columns that stand for one effect."""
    head = ("one effect of", "probability", "smallest correlation")
    rows = [
        (" or ".join(map(shortened, one.names)), f"{one.probability:.3f}", f"{one.purity:.2f}") for one in result.sets
    ]
    return Table(head, rows, "At least one column of each line matters, but it cannot be told which.")


def tables_of(result: Selection) -> list[Table]:
    """Return the tables of what was found; none if nothing was."""
    found = [columns_table(result.chosen, result), *levels_tables(result)] if result.chosen else []
    return [*found, sets_table(result)] if result.sets else found


def sentences(result: Selection) -> list[str]:
    """Return what a reader has to know about the result."""
    told = []
    false = round(sum(1 - item.probability for item in result.chosen))
    if false and result.small_effects <= MENTIONED:  # or else what does not stand out has a small effect still
        told.append(
            f"Of the {len(result.chosen)} columns above the threshold, about {false} can be expected to have no effect "
            "after all: that is the sum of the probabilities that they have none."
        )
    if result.together:
        told.append(
            f"Together, {listed(result.together, 20)} predict almost as well as all columns; others may do so, too."
        )
    elif not result.chosen and not result.sets:
        told.append(NOTHING)
        told.append(f"The probability that at least one column has an effect is {result.any_effect:.2f}.")
    elif not result.sets:
        told.append("No columns were found that could stand for each other.")
    if result.small_effects > MENTIONED:
        told.append(
            f"With probability {result.small_effects:.2f} all columns together have small effects, too. The "
            "probability of a column is that its effect stands out from these, so that an interval may be clear of "
            "zero although this probability is not near 1."
        )
    if result.chosen or result.sets:
        told.append(_meaning(result))
    return [*told, *result.remarks]


def selection_page(result: Selection) -> str:
    """Return the result as one HTML page with pictures."""
    pictures = [
        Picture(
            png(figures.inclusion_and_effects(result)),
            "Left: the probability that a column has an effect. Right: its effect with the interval that holds it "
            f"with probability {result.level:.0%}, per standard deviation of the column.",
        )
    ]
    if len(result.items) > figures.SHOWN:
        pictures.append(
            Picture(
                png(figures.all_probabilities(result)), "The probabilities of all columns, in the order of the file."
            )
        )
    if len(result.correlated) > 1:
        named = {item.name for item in result.chosen}.union(*(one.names for one in result.sets))
        of = "of the chosen columns" if len(named) > 1 else "of the most probable columns"
        pictures.append(
            Picture(
                png(figures.correlation(result)), f"Correlation {of}: columns near 1 or -1 can stand for each other."
            )
        )
    sections = [Section("Columns that matter", sentences(result), tables_of(result), pictures)]
    if result.validation is not None:
        picture = Picture(
            png(figures.predictions(result)),
            "What was observed, beside predictions of rows that were left out of the fit.",
        )
        sections.append(Section("Predictions", [result.remarks[_score(result)]], (), [picture]))
    sections.append(Section("The table", result.read or ["All columns could be used as they are."]))
    everything = columns_table(result.items, result, "All columns, ordered by probability.")
    sections.append(Section("All columns", (), [everything]))
    return render("Variable selection", result.headline, sections)


def _score(result: Selection) -> int:
    return next(i for i, text in enumerate(result.remarks) if "left out of the fit" in text)


def _shown(item: Item) -> str:
    return with_unit(shortened(item.label), item.unit)


def _meaning(result: Selection) -> str:
    """Say what an effect is."""
    text = f"An effect is the change of {result.effect_is} when the column increases by one unit, all else being equal."
    if result.family == "counts":
        text += " An effect of 0.1 means that the mean grows by a tenth, as exp(0.1) is about 1.1."
        text += (
            " If rows were watched for different times or areas, give the logarithm of these as a column: an effect "
            "near 1 says that counts are in proportion to them."
        )
    per = {"classes": "in log-odds", "counts": "in logarithms"}.get(result.family, "in standard deviations")
    text += f" Standardised, it is {per}, per standard deviation of a column of numbers."
    if any(item.main.level for item in result.items):
        text += (
            " The effect of a category is that of the level named, compared with the other level or the average row."
        )
    return text
