"""The table, the claims, the figures and the page of the regression study, made from its records."""

import json
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from sparse_langevin.reports.page import Mood, Picture, Section, Table, TableCell, number, png, render, with_error
from sparse_langevin.storage.files import write_atomically
from sparse_langevin.studies import emvs, regression_paper
from sparse_langevin.studies.regression import Extent, Records
from sparse_langevin.studies.regression_claims import Claim, Verdict, verdicts
from sparse_langevin.studies.regression_contenders import LABELS, Lengths
from sparse_langevin.studies.regression_figures import figures
from sparse_langevin.studies.regression_table import RIVALS, Row, make_table

SELECTION = (
    "contender",
    "data sets",
    "good selections",
    "false predictors",
    "covers β₁",
    "covers β₂",
    "seconds",
    "worst R-hat",
    "median ESS",
)
PREDICTION = ("contender", "test MSE", "MSE / oracle", "MSE − LassoCV", "MSE − ARD", "MSE − EMVS")  # noqa: RUF001
MOODS: dict[Verdict, Mood] = {"holds": "good", "does not hold": "bad", "not decided": "quiet"}


def write_report(
    records: Records, extent: Extent, lengths: Lengths, folder: Path
) -> tuple[list[Row], list[Claim], Path]:
    """Write ``table.json``, the figures and ``report.html``; return the rows, the claims and the path of the page."""
    rows, claims = make_table(records), verdicts(records)
    table = {
        "command": extent.command(),
        "version": version("sparse-langevin"),
        "seeds": "data: numpy default_rng([test, replicate]); chains: replicate",
        "settings": asdict(lengths),
        "rows": rows,
        "claims": [asdict(claim) for claim in claims],
    }
    write_atomically(folder / "table.json", (json.dumps(table, indent=1, allow_nan=False) + "\n").encode())
    pictures: dict[int, list[Picture]] = {}
    for test in sorted({test for test, _ in records}):
        for name, (figure, caption) in figures(test, records.get((test, 0), {})).items():
            picture = Picture(png(figure), caption)
            write_atomically(folder / f"{name}.png", picture.png)
            pictures.setdefault(test, []).append(picture)
    page = folder / "report.html"
    write_atomically(page, _page(rows, claims, pictures, extent, lengths).encode())
    return rows, claims, page


def selection_cells(row: Row) -> list[str]:
    """The cells of a contender in the table with the columns `SELECTION`."""
    size = row["replicates"]
    counts = [row["good"], row["covered_beta_1"], row["covered_beta_2"]]
    good, first, second = (number(None) if count is None else f"{count}/{size}" for count in counts)
    rest = [number(row["mean_seconds"], 2), number(row["worst_rhat"], 2), number(row["median_ess"], 0)]
    return [LABELS[row["contender"]], str(size), good, number(row["mean_false"], 2), first, second, *rest]


def prediction_cells(row: Row) -> list[str]:
    """The cells of a contender in the table with the columns `PREDICTION`."""
    names = ["mse", "mse_over_oracle", *(f"mse_minus_{rival}" for rival in RIVALS)]
    return [LABELS[row["contender"]], *(with_error(row[name], row[f"{name}_se"]) for name in names)]


def _page(
    rows: list[Row], claims: list[Claim], pictures: dict[int, list[Picture]], extent: Extent, lengths: Lengths
) -> str:
    given = [claim.verdict for claim in claims]
    counts = ", ".join(f"{verdict}: {given.count(verdict)}" for verdict in MOODS if verdict in given)
    sections = [Section("Claims of the paper", _CLAIMS_TEXT, [_claims_table(claims)]), _settings(extent, lengths)]
    for test in sorted({row["test"] for row in rows}, reverse=True):
        mine = [row for row in rows if row["test"] == test]
        tables = [
            Table(SELECTION, [selection_cells(row) for row in mine], _SELECTION_TEXT),
            Table(PREDICTION, [prediction_cells(row) for row in mine], _PREDICTION_TEXT),
        ]
        sections.insert(0, Section(f"Test {test}", [_TEST_TEXT[test]], tables, pictures.get(test, ())))
    return render(
        "Small n, large p regression",
        "Two of 200 correlated predictors matter, and there are 100 observations. Which predictors are found, how well "
        f"are their effects known, and how well are new responses predicted? Verdicts on the paper's claims: {counts}.",
        sections,
        f"{extent.command()}, sparse-langevin {version('sparse-langevin')}. The data come from NumPy's "
        "default_rng([test, replicate]); the seed of the chains is the replicate.",
    )


def _claims_table(claims: list[Claim]) -> Table:
    body: list[list[TableCell | str]] = [
        [str(c.test), c.quote, c.version, c.criterion, c.measured, TableCell(c.verdict, MOODS[c.verdict])]
        for c in claims
    ]
    return Table(("test", "the paper says", "algorithms", "it holds if", "measured", "verdict"), body, prose=True)


def _settings(extent: Extent, lengths: Lengths) -> Section:
    paragraphs = (
        f"There are {extent.replicates} data sets of each test; the algorithms as printed are run on the first "
        f"{min(extent.replicates, extent.paper_replicates)}. Test errors are those on 1000 new observations of each "
        "data set.",
        "Library: SparseBayesRegressor with its defaults. It standardises the predictors and derives the spike and the "
        f"slab from the size of the data. Four chains take {lengths.burn_in} steps of burn-in and at most "
        f"{lengths.max_steps} after it. Under a Gaussian prior the preconditioner is the same for all standardised "
        "predictors, so PSGLD and SGLD coincide.",
        "As printed: the general samplers sgld, psgld, sgld_sa and psgld_sa on predictors that are not standardised, "
        f"one chain of {lengths.paper_steps} steps, {lengths.paper_burn_in} of them burn-in. v0 = 0.1 and v1 = 10 "
        "(100 for PSGLD-SA; the paper exchanges v0 and v1), delta = 0.5, a = 1, b = p, lambda = nu = 1, alpha = "
        f"{regression_paper.ALPHA}. The step sizes are {regression_paper.STEP} k^(-1/3). Without a preconditioner "
        "they multiply the gradient averaged over the data, because they are unstable on the sum; with one, its scale "
        f"cancels. omega_k = 100 (k + 100)^(-0.7), capped at {regression_paper.OMEGA.cap}; delta follows its "
        "posterior mean. PSGLD and SGLD have a standard normal prior, as the paper gives none. R-hat compares the two "
        "halves of the chain.",
        f"EMVS: EM for the same model, with v0 from {emvs.PATH[0]:g} to {emvs.PATH[-1]:g} and v1 = {emvs.HYPER.v1}. "
        "LassoCV and ARDRegression are scikit-learn's, on standardised predictors. The oracle is least squares on the "
        "two predictors that matter.",
    )
    return Section("Settings", paragraphs)


_TEST_TEXT = {
    1: "Predictors of equal scale: n = 100, p = 200, β = (3, 1, 0, …), correlation 0.6^|i−j|, noise variance 3.",  # noqa: RUF001
    2: "The same as test 1, but with the first predictor multiplied by 0.3 before the responses are made.",
}
_SELECTION_TEXT = (
    "A good selection has both true predictors and at most one false one. Covers: the 95 % interval holds the true "
    "value. Under a Gaussian prior (PSGLD, SGLD) nothing is selected."
)
_PREDICTION_TEXT = (
    "Means ± standard errors over data sets. Ratios and differences compare fits of the same data; if a difference is "
    "negative, the contender of that row is better."
)
_CLAIMS_TEXT = (
    "The paper's statements about these tests, each with the numbers from the records that decide it.",
    "The thresholds are this study's, not the paper's. The algorithms as printed are run once, on few data sets.",
)
