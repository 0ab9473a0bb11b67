"""The report of one or several runs in one HTML file: errors, learning curves, pictures, sparsity, settings, cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from sparse_langevin.posterior.calibration import LEVELS
from sparse_langevin.posterior.figures import calibration_figure
from sparse_langevin.problems.darcy.datasets import DarcyData
from sparse_langevin.reports.page import Picture, Section, Table, number, png, render
from sparse_langevin.surrogates.agreement import agreement
from sparse_langevin.surrogates.calibration import Trust, trust
from sparse_langevin.surrogates.evaluation import QUANTILES, Evaluation
from sparse_langevin.surrogates.evaluation import evaluate as evaluate_network
from sparse_langevin.surrogates.figures import curves_figure, deviation_figure, prediction_figure
from sparse_langevin.surrogates.prediction import Forecast, predict
from sparse_langevin.surrogates.runs import MODEL, SAMPLES, SurrogateRun, fingerprint


@dataclass(frozen=True)
class Judged:
    """A run with its errors on a test set."""

    run: SurrogateRun
    data: DarcyData
    last: Evaluation
    """Of the finished network, the last sample of its chain."""
    prediction: Forecast
    """Of the test fields, by all samples that were kept."""
    averaged: Evaluation | None
    """Of the mean over the samples; None without samples."""
    trust: Trust | None
    """Of its error bars; None without samples."""

    @property
    def name(self) -> str:
        """How tables call it: by method, sparsity and folder, unless the folder is called like the method."""
        method, sparsity, folder = self.run.settings.method, self.run.settings.sparsity, self.run.path.name
        share = f" {sparsity:.0%}" if sparsity else ""
        return f"{method}{share}" + (f", {folder}" if folder != method else "")


def judge(run: SurrogateRun, data: DarcyData | None = None) -> Judged:
    """Evaluate a finished run on the test part of its data set, or of another on the same grid."""
    data = data or run.find_data()
    last = evaluate_network(run.surrogate().predict, data)
    prediction = predict(run, torch.from_numpy(data.array("kappa", "test")))
    averaged = evaluate_network(lambda kappa: prediction.velocity, data) if prediction.samples else None
    known = trust(run, data, prediction) if prediction.samples > 1 else None
    return Judged(run, data, last, prediction, averaged, known)


def report(judged: Sequence[Judged], shown: Sequence[int] = (0, 1)) -> str:
    """The page.

    Parameters
    ----------
    judged
        The runs.
    shown
        Test samples to draw, counted from 0.
    """
    first = judged[0]
    tests = len(first.last.e1)
    for other in judged[1:]:
        if fingerprint(other.data) != fingerprint(first.data):
            raise ValueError(
                f"{first.run.path} is judged on {first.data.folder}, {other.run.path} on {other.data.folder}: a report "
                "compares runs on one data set; choose it with --data"
            )
    for index in shown:
        if not 0 <= index < tests:
            raise ValueError(f"the test set holds samples 0 to {tests - 1}, got {index}")
    sections = [
        Section("Errors", _error_text(first, tests), [error_table(judged), quantile_table(judged)]),
        Section("Learning curves", (), (), [Picture(png(curves_figure([j.run for j in judged])), CURVES)]),
        Section("Predictions", (), (), [p for j in judged for p in _pictures(j, shown)]),
        *_trust_sections(judged),
        *_chain_sections(judged),
        Section("Sparsity", (), [_layer_table(judged)], _inclusion_pictures(judged)),
        Section("Settings and cost", (), [_settings_table(judged), _cost_table(judged)]),
    ]
    versions = ", ".join(f"{name} {value}" for name, value in first.run.versions.items())
    title = "Surrogate of Darcy flow" if len(judged) == 1 else "Surrogates of Darcy flow"
    return render(title, f"{first.data.folder.name}: {tests} test samples", sections, footer=versions)


CURVES = "Error e1 on the data that were watched, and loss on the training data, against epochs."


def error_table(judged: Sequence[Judged]) -> Table:
    """Mean errors, one row a run, with the mean predictor below."""
    columns = ("", "e1 %", "e2 %", "mass residual", "e1 % of the last sample", "samples", "zeros %")
    rows = []
    for one in judged:
        best = one.averaged or one.last
        result = one.run.result
        share = 100 * result["zeros"] / max(1, result["sparse_parameters"])
        rows.append(
            (
                one.name,
                number(100 * best.mean("e1")),
                number(100 * best.mean("e2")),
                f"{best.mean('mass_residual'):.2g}",
                number(100 * one.last.mean("e1")),
                str(one.prediction.samples or 1),
                number(share, 2),
            )
        )
    base = judged[0].last
    for name, first, second in (
        ("training mean", base.baseline_e1, base.baseline_e2),
        ("first order", base.first_order_e1, base.first_order_e2),
    ):
        rows.append((name, number(100 * first), number(100 * second), "–", "–", "–", "–"))  # noqa: RUF001
    caption = (
        "Means over the test set; the last two rows know the training part of the same data set. Zeros are counted in "
        "the sparse layers."
    )
    return Table(columns, rows, caption)


def quantile_table(judged: Sequence[Judged]) -> Table:
    """How e1 is spread over the test samples."""
    columns = ("", *(f"{q:.0%}" for q in QUANTILES), "largest", "sample")
    rows = []
    for one in judged:
        best = one.averaged or one.last
        worst = int(np.argmax(best.e1))
        values = [number(100 * v) for v in best.quantiles("e1").values()]
        rows.append((one.name, *values, number(100 * float(best.e1[worst])), str(worst)))
    return Table(columns, rows, "Quantiles of e1 in percent over the test samples, and the worst one.")


def trust_table(judged: Sequence[Judged]) -> Table:
    """Coverage of intervals, scores, and whether large deviations go with large errors."""
    columns = ("", *(f"{level:.0%}" for level in LEVELS), "width", "CRPS", "NLL", "rank")
    rows = []
    for one in judged:
        if one.trust is None:
            continue
        for name, found in (("as it is", one.trust.plain), ("recalibrated", one.trust.recalibrated)):
            if found is None:
                continue
            shares = [f"{found.coverage[level]:.1%}" for level in LEVELS]
            scores = [number(found.sharpness[0.9], 4), number(found.crps, 5), number(found.nll, 3)]
            rows.append((f"{one.name}, {name}", *shares, *scores, number(one.trust.rank_correlation, 2)))
    caption = (
        "Share of the test set's velocities that lie in intervals of 50 to 95 %, mean width of those of 90 %, scores; "
        "rank correlation of standard deviation and error over the test samples. Recalibrated: with factors on the "
        "deviations of weights and noise, found on validation data."
    )
    return Table(columns, rows, caption)


def _pictures(one: Judged, shown: Sequence[int]) -> list[Picture]:
    kappa, true = one.data.array("kappa", "test"), one.data.array("velocity", "test")
    predicted, std = one.prediction.velocity.double().numpy(), one.prediction.std
    best = one.averaged or one.last
    pictures = []
    for index in shown:
        spread = None if std is None else std[index].double().numpy()
        figure = prediction_figure(one.data.grid, kappa[index], true[index], predicted[index], spread)
        caption = f"{one.name}: test sample {index}, e1 {100 * float(best.e1[index]):.3f} %."
        if std is not None:
            caption += " The standard deviation is that of the weights' posterior samples."
        pictures.append(Picture(png(figure, 80), caption))
    return pictures


def _error_text(first: Judged, tests: int) -> list[str]:
    recipe = first.data.recipe
    overlap = recipe["kind"] == "image" and recipe["settings"].get("split", "random") == "random"
    where = ", cut at random from the same image as the training fields: they overlap" if overlap else ""
    return [
        f"Against the finite element velocities of {tests} test fields{where}. e1 is the relative L2 "
        "error, e2 the same weighted by 1/kappa. The mean predictor, which always answers the training mean, has "
        f"e1 = {100 * first.last.baseline_e1:.2f} %: an error means little without it. First order is the solution of "
        "the flow problem linearised around the training mean, which needs no network.",
    ]


def _trust_sections(judged: Sequence[Judged]) -> list[Section]:
    pictures = []
    for one in judged:
        if one.trust is None:
            continue
        results = {"as it is": one.trust.plain}
        if one.trust.recalibrated is not None:
            results["recalibrated"] = one.trust.recalibrated
        pictures.append(Picture(png(calibration_figure(results)), f"{one.name}: promised and kept coverage."))
        pictures.append(Picture(png(deviation_figure(one.trust)), f"{one.name}: error against standard deviation."))
    return [Section("Error bars", (), [trust_table(judged)], pictures)] if pictures else []


def _chain_sections(judged: Sequence[Judged]) -> list[Section]:
    """What the samples say about the convergence of their chains; one section a run."""
    found = [(one.name, agreement(one.run, one.data)) for one in judged if one.prediction.samples]
    return [
        Section(f"Convergence of {name}", known.verdict, [known.table()], known.pictures())
        for name, known in found
        if known is not None
    ]


def _layer_table(judged: Sequence[Judged]) -> Table:
    rows = [
        (one.name, name.removeprefix("network."), f"{layer['size']:,}", f"{layer['zeros']:,}", number(share, 2))
        for one in judged
        for name, layer in one.run.result["layers"].items()
        for share in [100 * layer["zeros"] / layer["size"]]
    ]
    return Table(("", "layer", "weights", "zeros", "zeros %"), rows, "Sparse layers of the finished network.")


def _inclusion_pictures(judged: Sequence[Judged]) -> list[Picture]:
    """Histograms of the inclusion probabilities, for the methods that have them."""
    pictures = []
    for one in judged:
        counts = one.run.result["inclusion"]
        if not counts:
            continue
        figure = Figure(figsize=(3.0 * len(counts), 2.8), layout="constrained")
        axes = np.atleast_1d(figure.subplots(1, len(counts), sharey=True))
        for axis, (name, values) in zip(axes, counts.items(), strict=True):
            edges = np.linspace(0, 1, len(values) + 1)
            axis.stairs(np.array(values) / max(1, sum(values)), edges, fill=True)
            axis.set(title=name.removeprefix("network."), xlabel="inclusion probability", xlim=(0, 1))
        axes[0].set_ylabel("share of the weights")
        pictures.append(
            Picture(png(figure), f"{one.name}: inclusion probabilities of the sparse layers' weights, pruned ones too.")
        )
    return pictures


def _settings_table(judged: Sequence[Judged]) -> Table:
    names = list(judged[0].run.settings.as_json())
    rows = [(name, *(str(one.run.settings.as_json()[name]) for one in judged)) for name in names]
    logs = [one.run.result["log_input"] for one in judged]
    rows.append(("input", *("logarithm of the permeability" if log else "permeability" for log in logs)))
    return Table(("setting", *(one.run.path.name for one in judged)), rows)


def _cost_table(judged: Sequence[Judged]) -> Table:
    columns = ("", "parameters", "chains", "steps", "minutes", "seconds an epoch", "network MB", "samples MB")
    rows = []
    for one in judged:
        result, folder, chains = one.run.result, one.run.path, one.run.chains()
        seconds = sum(chain.result["seconds"] for chain in chains)
        kept = sum(_size(chain.path / SAMPLES) for chain in chains)
        rows.append(
            (
                one.name,
                f"{result['parameters']:,}",
                str(len(chains)),
                str(result["steps"]),
                number(seconds / 60, 1),
                number(seconds / result["epochs"] / len(chains), 2),
                number((folder / MODEL).stat().st_size / 1e6, 1),
                number(kept / 1e6, 1),
            )
        )
    return Table(columns, rows, "Minutes are those of all chains together, steps those of each.")


def _size(folder: Path) -> int:
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) if folder.exists() else 0
