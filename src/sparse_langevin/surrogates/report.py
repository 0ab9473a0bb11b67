"""The report of one or more runs in one HTML file: errors, learning curves, pictures, sparsity, settings, cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from sparse_langevin.posterior import Prediction
from sparse_langevin.posterior.calibration import LEVELS
from sparse_langevin.posterior.figures import calibration_figure
from sparse_langevin.reports.page import Picture, Section, Table, number, png, render
from sparse_langevin.surrogates.agreement import Agreement, Collector
from sparse_langevin.surrogates.calibration import Trust, trust
from sparse_langevin.surrogates.evaluation import QUANTILES, Evaluation, evaluate
from sparse_langevin.surrogates.figures import curves_figure, deviation_figure
from sparse_langevin.surrogates.prediction import predict
from sparse_langevin.surrogates.problem import Array, DataSet, Measure
from sparse_langevin.surrogates.runs import MODEL, SAMPLES, SurrogateRun
from sparse_langevin.surrogates.surrogate import find_device, outputs_of

HOPELESS = 3.0  # times the error of the training mean


@dataclass(frozen=True)
class Judged:
    """A run with its errors on a test set."""

    run: SurrogateRun
    data: DataSet
    last: Evaluation
    """Errors of the finished network, the last sample of its chain."""
    prediction: Prediction
    """Prediction of the test examples with all samples that were kept."""
    averaged: Evaluation | None
    """Errors of the mean over the samples; None without samples."""
    trust: Trust | None
    """Quality of the error bars; None without samples."""
    chains: Agreement | None
    """Convergence of the chains; None if there are too few samples."""

    @property
    def best(self) -> Evaluation:
        """Errors of the mean over the samples if there are some, else of the finished network."""
        return self.averaged or self.last

    @property
    def alarm(self) -> str | None:
        """What must be said about a run that answers far worse than the training mean; None if it does not."""
        measure = self.last.measures[0]
        rivals = [rival.errors[measure.name] for rival in self.last.baselines if rival.name == "training mean"]
        times = self.best.mean(measure.name) / rivals[0] if rivals and rivals[0] else 0.0
        if times < HOPELESS:
            return None
        return (
            f"Warning: the error of {self.name} is {times:.3g} times that of the training mean. The run has diverged, "
            "or has hardly begun to learn: use a smaller step size, or train longer."
        )

    @property
    def name(self) -> str:
        """Name in tables: method, sparsity and folder, unless the folder has the name of the method."""
        method, sparsity, folder = self.run.settings.method, self.run.settings.sparsity, self.run.path.name
        share = f" {sparsity:.0%}" if sparsity else ""
        return f"{method}{share}" + (f", {folder}" if folder != method else "")


def judge(run: SurrogateRun, data: DataSet | None = None, device: str | None = None) -> Judged:
    """Evaluate a finished run on the test part of its data set, or of another one of the same problem.

    The posterior samples are read once, and once more on validation data when error bars are first recalibrated.
    """
    data = data or run.find_data()
    surrogate = run.surrogate().to(find_device(device))
    last = evaluate(lambda inputs: surrogate.predict(inputs).double().numpy(), data)
    collector = Collector(outputs_of(run.problem))
    made = predict(run, data.inputs("test"), device=device, observe=collector)
    averaged = evaluate(lambda inputs: made.mean.double().numpy(), data) if made.samples else None
    known = trust(run, data, made, device) if made.samples > 1 else None
    return Judged(run, data, last, made, averaged, known, collector.agreement())


def report(judged: Sequence[Judged], shown: Sequence[int] | None = None) -> str:
    """Return the report as HTML.

    Parameters
    ----------
    judged
        The runs, judged on one data set.
    shown
        Numbers of the test examples to draw, counted from 0; the first two unless given.
    """
    first = judged[0]
    tests = len(first.last)
    for other in judged[1:]:
        if other.data.fingerprint != first.data.fingerprint:
            raise ValueError(
                f"{first.run.path} is judged on {first.data.folder}, {other.run.path} on {other.data.folder}: a report "
                "compares runs on one data set; choose it with --data"
            )
    shown = range(min(2, tests)) if shown is None else shown
    for index in shown:
        if not 0 <= index < tests:
            raise ValueError(f"the test set holds examples 0 to {tests - 1}, got {index}")
    measure = first.run.problem.measures[0].name
    curves = f"Error {measure} on the data that were watched, and loss on the training data, against epochs."
    sections = [
        Section("Errors", _error_text(judged), [error_table(judged), quantile_table(judged)]),
        Section("Learning curves", (), (), [Picture(png(curves_figure([j.run for j in judged])), curves)]),
        Section("Predictions", (), (), [p for j in judged for p in _pictures(j, shown)]),
        *_trust_sections(judged),
        *_chain_sections(judged),
        Section("Sparsity", (), [_layer_table(judged)], _inclusion_pictures(judged)),
        Section("Settings and cost", (), [_settings_table(judged), _cost_table(judged)]),
    ]
    versions = ", ".join(f"{name} {value}" for name, value in first.run.versions.items())
    title = f"Surrogate{'s' * (len(judged) > 1)} of {first.run.problem.title}"
    return render(title, f"{first.data.folder.name}: {tests} test examples", sections, footer=versions)


def _shown(measure: Measure, value: float) -> str:
    """An error as tables show it."""
    return number(measure.factor * value) if measure.factor != 1.0 else f"{value:.2g}"


def error_table(judged: Sequence[Judged]) -> Table:
    """Mean errors, one row per run, followed by rivals that need no network."""
    measures = judged[0].run.problem.measures
    columns = ("", *(m.label for m in measures), f"{measures[0].label} of the last sample", "samples", "zeros %")
    rows = []
    for one in judged:
        result = one.run.result
        share = 100 * result["zeros"] / max(1, result["sparse_parameters"])
        errors = (_shown(m, one.best.mean(m.name)) for m in measures)
        last = _shown(measures[0], one.last.mean(measures[0].name))
        rows.append((one.name, *errors, last, str(one.prediction.samples or 1), number(share, 2)))
    empty = ("–",) * 3  # noqa: RUF001
    for rival in judged[0].last.baselines:
        rows.append((rival.name, *(_shown(m, rival.errors[m.name]) for m in measures), *empty))
    texts = "; ".join(f"{rival.name}: {rival.text}" for rival in judged[0].last.baselines)
    caption = (
        f"Means over the test set. The rivals in the last rows know only the training part of the data set ({texts}). "
        "Zeros are counted in the sparse layers."
    )
    return Table(columns, rows, caption)


def quantile_table(judged: Sequence[Judged]) -> Table:
    """Quantiles of the first measure over the test examples."""
    measure = judged[0].run.problem.measures[0]
    columns = ("", *(f"{q:.0%}" for q in QUANTILES), "largest", "example")
    rows = []
    for one in judged:
        errors = one.best.errors[measure.name]
        worst = int(np.argmax(errors))
        values = [_shown(measure, v) for v in one.best.quantiles(measure.name).values()]
        rows.append((one.name, *values, _shown(measure, float(errors[worst])), str(worst)))
    return Table(columns, rows, f"Quantiles of {measure.label} over the test examples, and the worst one.")


def trust_table(judged: Sequence[Judged]) -> Table:
    """Coverage of intervals, scores, and whether large deviations go with large errors."""
    columns = ("", *(f"{level:.0%}" for level in LEVELS), "width", "CRPS", "NLL", "rank")
    rows = []
    for one in judged:
        if one.trust is None:
            continue
        for name, found in one.trust.results.items():
            shares = [f"{found.coverage[level]:.1%}" for level in LEVELS]
            scores = [number(found.sharpness[0.9], 4), number(found.crps, 5), number(found.nll, 3)]
            rows.append((f"{one.name}, {name}", *shares, *scores, number(one.trust.rank_correlation, 2)))
    caption = (
        "Share of the test set's outputs that lie in intervals of 50 to 95 %, mean width of those of 90 %, scores, and "
        "rank correlation of standard deviation and error over the test examples. Recalibrated: with factors for the "
        "deviations due to weights and noise, which were found on validation data."
    )
    return Table(columns, rows, caption)


def _pictures(one: Judged, shown: Sequence[int]) -> list[Picture]:
    inputs, true = one.data.inputs("test"), one.data.outputs("test")
    predicted, std = one.prediction.mean.double().numpy(), one.prediction.std
    measure = one.run.problem.measures[0]
    pictures = []
    for index in shown:
        spread: Array | None = None if std is None else std[index].double().numpy()
        figure = one.run.problem.figure(inputs[index], true[index], predicted[index], spread)
        error = _shown(measure, float(one.best.errors[measure.name][index]))
        caption = f"{one.name}: test example {index}, {measure.label} {error}."
        if std is not None:
            caption += " The standard deviation is that of the weights' posterior samples."
        pictures.append(Picture(png(figure, 80), caption))
    return pictures


def _error_text(judged: Sequence[Judged]) -> list[str]:
    first, tests = judged[0], len(judged[0].last)
    problem = first.run.problem
    measures = ", ".join(f"{m.name} is {m.text}" for m in problem.measures)
    note = problem.note(first.data)
    return [
        f"Errors on the {tests} test examples of {first.data.folder.name}: {measures}. An error means little without "
        "those of the rivals below, which need no network.",
        *([note] if note else []),
        *(text for one in judged if (text := one.alarm)),
    ]


def _trust_sections(judged: Sequence[Judged]) -> list[Section]:
    pictures = []
    for one in judged:
        if one.trust is None:
            continue
        coverage, errors = calibration_figure(one.trust.results), deviation_figure(one.trust)
        pictures.append(Picture(png(coverage), f"{one.name}: promised and actual coverage."))
        pictures.append(Picture(png(errors), f"{one.name}: error against standard deviation."))
    return [Section("Error bars", (), [trust_table(judged)], pictures)] if pictures else []


def _chain_sections(judged: Sequence[Judged]) -> list[Section]:
    """Convergence of the chains, one section per run."""
    return [
        Section(f"Convergence of {one.name}", _sentences(chains.verdict), [chains.table()], chains.pictures())
        for one in judged
        if (chains := one.chains) is not None
    ]


def _sentences(lines: Sequence[str]) -> list[str]:
    return [f"{line[0].upper()}{line[1:]}." for line in lines]


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
            Picture(
                png(figure), f"{one.name}: inclusion probabilities of all weights in the sparse layers, pruned or not."
            )
        )
    return pictures


def _settings_table(judged: Sequence[Judged]) -> Table:
    names = list(judged[0].run.settings.as_json())
    rows = [(name, *(str(one.run.settings.as_json()[name]) for one in judged)) for name in names]
    for name in judged[0].run.result["remarks"]:
        rows.append((name, *(one.run.result["remarks"].get(name, "") for one in judged)))
    return Table(("setting", *(one.run.path.name for one in judged)), rows)


def _cost_table(judged: Sequence[Judged]) -> Table:
    columns = ("", "parameters", "chains", "steps", "minutes", "seconds per epoch", "network MB", "samples MB")
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
    return Table(columns, rows, "Minutes count all chains together, steps those of each chain.")


def _size(folder: Path) -> int:
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) if folder.exists() else 0
