"""The command ``demo``: everything at a small scale, from random fields to a report."""

from pathlib import Path
from typing import Annotated

import typer

from sparse_langevin.storage.files import require_new, write_new

METHODS = ("psgld-sa", "sgld-sa")


def demo(
    out: Annotated[
        Path, typer.Option(help="Folder for data, runs and report. If it was begun, the same command goes on.")
    ] = Path("runs/demo"),
    samples: Annotated[int, typer.Option(min=20, help="Number of flow problems to solve.")] = 600,
    cells: Annotated[int, typer.Option(min=8, help="Number of cells in x and in y.")] = 25,
    epochs: Annotated[int, typer.Option(min=1, help="Number of passes over the training data.")] = 40,
    force: Annotated[bool, typer.Option("--force", help="Replace the report if it exists already.")] = False,
) -> None:
    """Solve random flow problems, train two sparse Bayesian surrogates, and compare them in a report."""
    from sparse_langevin.problems import darcy
    from sparse_langevin.surrogates import Settings, train
    from sparse_langevin.surrogates.report import judge, report

    page = out / "report.html"
    require_new(page, overwrite=force)
    settings = {"terms": 32, "kappa_0": 6.0}
    recipe = darcy.Recipe("kle", samples, darcy.Grid(cells, cells), settings, test_share=2 / 15)
    print(f"solving {samples} flow problems on {cells} by {cells} cells")
    data = darcy.generate(recipe, out / "data")
    judged = []
    for method in METHODS:
        print(f"training {method} to 70 % zeros, {epochs} epochs")
        run = train(Settings.of(method, sparsity=0.7, epochs=epochs), data, out / method)
        judged.append(judge(run))
        best = judged[-1].best
        known = ", ".join(f"{rival.name} {100 * rival.errors['e1']:.1f} %" for rival in best.baselines)
        print(f"  e1 {100 * best.mean('e1'):.2f} % on test data ({known}), {run.result['seconds']:.0f} s")
    write_new(page, report(judged).encode(), overwrite=force)
    print(f"report: {page}")
