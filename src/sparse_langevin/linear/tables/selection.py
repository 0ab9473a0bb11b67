"""From a table to what is found in it: missing values, fits, and their draws put together."""

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparse_langevin.linear.checks import check_level
from sparse_langevin.linear.credible import credible_sets
from sparse_langevin.linear.design import Design
from sparse_langevin.linear.samples import Samples
from sparse_langevin.linear.tables.cells import Values
from sparse_langevin.linear.tables.design import Group, groups_of, labels_of, predictors
from sparse_langevin.linear.tables.effects import Draws, item_of
from sparse_langevin.linear.tables.families import FAMILIES, Family, family_for
from sparse_langevin.linear.tables.findings import count, listed, option
from sparse_langevin.linear.tables.missing import FEW, FILLS, fill, incomplete
from sparse_langevin.linear.tables.quiet import fitted_quietly
from sparse_langevin.linear.tables.results import Item, OneEffect, Selection
from sparse_langevin.linear.tables.score import cross_validate, folds_for, in_words
from sparse_langevin.linear.tables.table import Table

CLEAR = 0.95  # probability of any effect from which on columns are said to matter though none can be named
DRAWS, FEWEST_DRAWS = 400.0, 100.0  # effective ones: of all fits together, and of each
KEPT = 4000  # draws of all fits together
SHOWN = 12  # columns whose correlations are shown
MISSING = ("auto", "drop", "impute", "error")
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Settings:
    """What is to be done with a table."""

    family: str = "auto"
    missing: str = "auto"
    """``"drop"`` leaves incomplete rows out, ``"impute"`` fills them in, ``"auto"`` decides, ``"error"`` refuses."""
    threshold: float = 0.5
    level: float = 0.95
    folds: int = 5
    seed: int = 0
    max_steps: int | None = None
    """Of the chains from which the results are; the estimator's default if None."""

    def options(self) -> dict[str, Any]:
        """Return the estimator's options."""
        return {
            "threshold": self.threshold,
            "max_steps": self.max_steps,
            "n_jobs": -1,
            "random_state": self.seed,
        }


def select_variables(
    table: Table, settings: Settings, progress: Progress = lambda done, total, text: None
) -> Selection:
    """Fit the estimator that suits the target, on all cores, and say what each column does.

    ``progress`` is told how many of how many fits are done, and what was done last.
    """
    check_level(settings.level)
    name, noticed = family_for(table.target, settings.family)
    family, remarks = FAMILIES[name], [noticed] if noticed else []
    table, fillings, about = _without_gaps(table, settings)
    y = family.response(table.target)
    folds, why = folds_for(y, y.dtype.kind == "f", settings.folds)
    done, total = 0, fillings + folds

    def advance(text: str) -> None:
        nonlocal done
        done += 1
        progress(done, total, text)

    progress(0, total, "")
    first, fits, warned, matrices = None, [], [], []
    groups = groups_of(table.columns)
    shared = settings.options() | {"groups": labels_of(groups)}
    options = shared | {"target_ess": max(FEWEST_DRAWS, DRAWS / fillings)}
    rng = np.random.default_rng(settings.seed)
    for _ in range(fillings):
        filled = fillings > 1
        values = fill(table.columns, family.coded(y), rng) if filled else [column.values for column in table.columns]
        matrices.append(x := predictors(table.columns, values))
        model, said = fitted_quietly(family.estimator(options), x, y, table.lines)
        first = first or model
        fits.append(_found(family, model, KEPT // fillings))
        warned += said
        advance("fit")
    draws = _pooled(fits)
    scale = family.scale(y)
    items = [item_of(group, draws, matrices, scale, settings.level) for group in groups]
    items.sort(key=lambda item: -item.probability)
    validation = None
    if folds:
        validation = cross_validate(table, family, y, folds, shared, settings.seed, advance)
    remarks += [in_words(validation, table.target.name) if validation else why, *_told(warned, fillings)]
    sets, together = _sets(draws, groups, matrices[0]), []
    clear = any(item.probability > settings.threshold for item in items) or sets
    if not clear and draws.any_effect > CLEAR:
        together = _together(first, groups)
    names, correlation = _correlation(items, sets, groups, matrices, settings.threshold)
    return Selection(
        source=table.source,
        target=table.target.name,
        family=name,
        effect_is=family.effect_is(table.target),
        rows=len(y),
        items=items,
        sets=sets,
        together=together,
        any_effect=draws.any_effect,
        small_effects=draws.small_effects,
        validation=validation,
        correlation=correlation,
        correlated=names,
        threshold=settings.threshold,
        level=settings.level,
        remarks=remarks,
        read=[*table.remarks, *about],
    )


def _without_gaps(table: Table, settings: Settings) -> tuple[Table, int, list[str]]:
    """Return the table with the rows to use, how often values have to be drawn (1 if none is missing), and remarks."""
    if settings.missing not in MISSING:
        raise ValueError(f"missing must be one of {', '.join(MISSING)}, got {settings.missing!r}")
    gaps = incomplete(table.columns)
    remarks: list[str] = []
    if not gaps.any():
        return table, 1, remarks
    rows, cells = int(gaps.sum()), sum(int(np.isnan(column.values).sum()) for column in table.columns)
    where = [column.name for column in table.columns if np.isnan(column.values).any()]
    what = (
        f"{count(cells, 'value')} {'is' if cells == 1 else 'are'} missing in {rows} of {count(len(gaps), 'row')} "
        f"({'column' if len(where) == 1 else 'columns'} {listed(where, 6)})"
    )
    if settings.missing == "error":
        raise ValueError(
            f"{table.source}: {what}: fill them in, take --missing impute or --missing drop, or leave columns out: "
            f"{option('ignore', *where)}"
        )
    if settings.missing == "impute" or (settings.missing == "auto" and rows > FEW * len(gaps)):
        remarks.append(
            f"{what}. They were drawn {FILLS} times from what the other columns and the target say about them, and the "
            f"results are those of {FILLS} fits together, so that the intervals allow for what is not known."
        )
        return table, FILLS, remarks
    if (left := len(gaps) - rows) < 2:
        raise ValueError(f"{table.source}: {what}, and {count(left, 'row')} would be left: take --missing impute")
    verb = "was" if rows == 1 else "were"
    remarks.append(f"{what}. {'This row' if rows == 1 else 'These rows'} {verb} left out; --missing impute keeps them.")
    table = table.kept(~gaps)
    if len(np.unique(table.target.texts)) < 2:
        raise ValueError(f"{table.source}: {what}, and in the others the target does not vary: take --missing impute")
    constant = [column.name for column in table.columns if np.ptp(column.values) == 0]
    if len(constant) == len(table.columns):
        raise ValueError(f"{table.source}: {what}, and in the others no column varies: take --missing impute")
    if constant:
        remarks.append(f"In the other rows {listed(map(repr, constant))} did not vary and had to be left out, too.")
    table = replace(table, columns=[column for column in table.columns if column.name not in constant])
    return table, 1, remarks


def _found(family: Family, model: Any, most: int) -> Draws:
    """Return draws of one fit."""
    classes, effects = family.effects(model, most)
    present, small = model.inclusion_samples_, float((model._beside.get("h", np.zeros(1)) > 0).mean())
    return Draws(classes, effects, present, model.inclusion_probability_, small)


def _pooled(fits: Sequence[Draws]) -> Draws:
    """Put the draws of several fits together."""
    return Draws(
        classes=fits[0].classes,
        effects=[_stacked([fit.effects[k] for fit in fits]) for k in range(len(fits[0].classes))],
        present=sparse.vstack([fit.present for fit in fits], format="csc"),
        probability=np.mean([fit.probability for fit in fits], axis=0),
        small_effects=float(np.mean([fit.small_effects for fit in fits])),
    )


def _stacked(parts: list[Samples]) -> Samples:
    """Join draws, which are sparse, by columns, if all of them are."""
    if all(sparse.issparse(part) for part in parts):
        return sparse.vstack(parts, format="csc")
    return np.vstack([part.toarray() if sparse.issparse(part) else part for part in parts])


def _told(warned: Sequence[str], fits: int) -> list[str]:
    """Return each warning once; those that differ in their numbers alone are the same, from several fits."""
    alike: dict[str, list[str]] = {}
    for text in warned:
        alike.setdefault(re.sub(r"\d+(\.\d+)?", "0", text), []).append(text)
    return [
        f"A warning of the fit: {texts[0]}"
        if fits == 1 or len(set(texts)) == 1
        else f"{len(texts)} of {fits} fits gave a warning; the first one: {texts[0]}"
        for texts in alike.values()
    ]


def _sets(draws: Draws, groups: Sequence[Group], x: Values) -> list[OneEffect]:
    """Return the sets of columns, at least two each, that stand for one effect."""
    mean, std = x.mean(0), x.std(0)
    used = np.flatnonzero(std > 0)
    design = Design(x, mean[used], std[used], used)
    found = credible_sets(draws.present[:, used].tocsr(), draws.probability[used], design)
    names = {place: group.column.name for group in groups for place in group.places}
    sets = []
    for one in found:
        columns = list(dict.fromkeys(names[used[member]] for member in one.members))
        if len(columns) > 1:
            sets.append(OneEffect(columns, one.probability, one.purity))
    return sets


def _together(model: Any, groups: Sequence[Group]) -> list[str]:
    """Return the columns that the estimator names when it can name none for certain."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says what is said here, too
        mask: NDArray[np.bool_] = model.get_support()
    return [group.column.name for group in groups if mask[group.places].any()]


def _correlation(
    items: Sequence[Item], sets: Sequence[OneEffect], groups: Sequence[Group], matrices: Sequence[Values], least: float
) -> tuple[list[str], Values]:
    """Return correlations of the columns that were chosen or belong to a set; if there are none, of the first ones."""
    place = {group.column.name: group for group in groups}
    members = {name for one in sets for name in one.names}
    wanted = [item for item in items if item.probability > least or item.name in members]
    wanted = wanted if len(wanted) > 1 else list(items[:SHOWN])
    names, columns = [], []
    for item in wanted[:SHOWN]:
        group = place[item.name]
        levels = [effect.level for effect in item.effects]
        member = levels.index(item.main.level)
        names.append(item.label)
        columns.append(np.mean([x[:, group.places[member]] for x in matrices], axis=0))
    with np.errstate(invalid="ignore"):
        found: Values = np.atleast_2d(np.corrcoef(np.array(columns)))
    return names, np.nan_to_num(found)
