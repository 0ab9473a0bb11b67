"""The commands for surrogates: train, evaluate, predict, report and export."""

import inspect
import json
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

from sparse_langevin.cli.data import Force
from sparse_langevin.cli.tables import print_table
from sparse_langevin.reports.page import Table
from sparse_langevin.storage.archive import write_npz
from sparse_langevin.storage.files import require_new, write_new
from sparse_langevin.surrogates.settings import Settings

Run = Annotated[Path, typer.Argument(help="Folder of a run that 'train' has made.")]
Data = Annotated[Path | None, typer.Option(help="Another data set of the same problem. The default is the run's own.")]
DEVICE = "Where to compute, such as cuda. The default is torch's, the CPU."
Device = Annotated[str | None, typer.Option(help=DEVICE)]
Network = Annotated[
    str | None,
    typer.Option(
        help="module:Class of the run's network if that is your own code, which is imported only if you name it."
    ),
]


def train(**given: Any) -> None:
    """Train a sparse Bayesian surrogate. The defaults shown are those of the method: see train --method NAME --help."""
    from sparse_langevin.surrogates import open_data
    from sparse_langevin.surrogates import train as train_surrogate
    from sparse_langevin.surrogates.chains import train_chains

    seconds: dict[str, float] = {}
    changes = {name: given[name] for name in _settings_on_the_command() if name != "method"}
    changes["network_options"] = parsed_options(given["network_option"] or [])
    settings = Settings.of(given["method"], **changes)
    run, device = given["run"], given["device"]
    examples = open_data(given["data"])
    if given["chains"] == 1:
        place = train_surrogate(
            settings, examples, run, device=device, profile=seconds, tensorboard=given["tensorboard"]
        )
    elif given["profile"] or given["tensorboard"]:
        raise ValueError(f"--{'profile' if given['profile'] else 'tensorboard'} is for one chain: leave out --chains")
    else:
        place = train_chains(settings, examples, run, given["chains"], device=device)
    if given["profile"] and seconds:
        _print_profile(seconds)
    result = place.result
    line = f"{result['parameters']:,} parameters, {result['zeros']:,} zeros of {result['sparse_parameters']:,}"
    print(f"{line} in the sparse layers; {result['epochs']} epochs in {result['seconds'] / 60:.1f} minutes")
    last = place.history()[-1]
    if errors := [f"{m.label} {last[m.name]:.3f}" for m in place.problem.measures if m.name in last]:
        part = "validation data" if place.settings.validation else "test data"
        print(f"last sample on {part}: {', '.join(errors)}")
    print(f"{run}\nnext: sparse-langevin report {run} --out report.html")


def _settings_on_the_command() -> list[str]:
    """The settings that are options. Chains are numbered by the command, a network's options are given one by one."""
    return [field.name for field in fields(Settings) if field.name not in ("chain", "network_options")]


def _train_signature() -> inspect.Signature:
    """The options of `train`: its own, and one for each setting, with the defaults of the method that was chosen."""
    words = sys.argv
    asked = next((words[i + 1] for i in range(len(words) - 1) if words[i] == "--method"), "psgld-sa")
    try:
        usual = Settings.of(asked)
    except ValueError:  # the command itself reports it
        usual = Settings.of("psgld-sa")
    described = Settings.__pydantic_fields__  # type: ignore[attr-defined]
    options: list[inspect.Parameter] = []

    def add(name: str, kind: Any, default: Any, *words: str, **details: Any) -> None:
        option = Annotated[kind, typer.Option(*words, **details)]
        options.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=option, default=default))

    required = inspect.Parameter.empty
    add("data", Path, required, help="Data set made by 'generate' or 'import'.")
    add("run", Path, required, help="Folder of the run. If it was begun, the same command goes on.")
    for name in _settings_on_the_command():
        usually = getattr(usual, name)
        shown = "the problem's own" if usually == "" else str(usually)
        default = "psgld-sa" if name == "method" else None
        add(name, type(usually) | None, default, help=described[name].description, show_default=shown)
    network = "Keyword argument of the network. Repeat the option for more."
    add("network_option", list[str] | None, None, metavar="NAME=VALUE", help=network)
    add("chains", int, 1, min=1, help="Number of independent chains. More can be added later.")
    add("device", str | None, None, help=DEVICE)
    add("profile", bool, False, "--profile", help="Print at the end where the time went.")
    add("tensorboard", bool, False, "--tensorboard", help="Also write the learning curves for TensorBoard.")
    return inspect.Signature(options)


SIGNATURE = _train_signature()
train.__signature__ = SIGNATURE  # type: ignore[attr-defined]
train.__annotations__ = {name: option.annotation for name, option in SIGNATURE.parameters.items()}


def _print_profile(seconds: dict[str, float]) -> None:
    """Print where the time went, the longest part first."""
    total = sum(seconds.values())
    longest = sorted(seconds.items(), key=lambda item: -item[1])
    rows = [(name, f"{value:.2f}", f"{value / total:.1%}") for name, value in longest]
    print_table(Table(("", "seconds", "share"), rows, "Where the time went"))


def evaluate(
    run: Run,
    data: Data = None,
    out: Annotated[Path | None, typer.Option(help="CSV file to write, with the errors of every test example.")] = None,
    network: Network = None,
    device: Device = None,
    force: Force = False,
) -> None:
    """Print errors on the test set, their quantiles, error bars and convergence, and rivals that need no network."""
    from sparse_langevin.surrogates.report import error_table, judge, quantile_table, trust_table

    if out is not None:
        require_new(out, overwrite=force)
    place = opened(run, network)
    judged = judge(place, place.find_data(data), device)
    print_table(error_table([judged]))
    print_table(quantile_table([judged]))
    if judged.trust is not None:
        print_table(trust_table([judged]))
    if judged.chains is not None:
        print_table(judged.chains.table())
        for line in judged.chains.verdict:
            print(line)
    if judged.alarm is not None:
        print(judged.alarm, file=sys.stderr)
    if out is not None:
        names = [m.name for m in place.problem.measures]
        rows = enumerate(zip(*(judged.best.errors[name] for name in names), strict=True))
        lines = [",".join(["sample", *names]), *(",".join([str(i), *(f"{e:.8g}" for e in row)]) for i, row in rows)]
        write_new(out, "\n".join([*lines, ""]).encode(), overwrite=force)
        print(out)


def predict(
    *,
    run: Annotated[Path, typer.Argument(help="Folder of a run, or one that 'export' has made.")],
    input: Annotated[Path, typer.Option(help="Inputs to predict from: .npy, .npz or HDF5.")],
    out: Annotated[Path, typer.Option(help="File to write: .npz for all inputs, .vti for one in ParaView.")],
    std: Annotated[bool, typer.Option("--std", help="Fail if there are no posterior samples for error bars.")] = False,
    quantiles: Annotated[
        list[float] | None, typer.Option(help="Level of a quantile to write, such as 0.05. Repeat the option for more.")
    ] = None,
    recalibrated: Annotated[
        bool,
        typer.Option("--recalibrated", help="Correct the error bars by factors found on the run's validation data."),
    ] = False,
    sample: Annotated[int, typer.Option(min=0, help="Number of the input that goes into a .vti file.")] = 0,
    data: Annotated[Path | None, typer.Option(help="The run's data set, for --recalibrated, if it has moved.")] = None,
    last: Annotated[bool, typer.Option("--last", help="Use only the last posterior sample.")] = False,
    network: Network = None,
    device: Device = None,
    force: Force = False,
) -> None:
    """Predict outputs for new inputs, with standard deviations if the run has kept posterior samples."""
    from sparse_langevin.storage.artefact import kind_of
    from sparse_langevin.surrogates.ranges import outside

    if out.suffix not in (".npz", ".vti"):
        raise ValueError(f"--out must end in .npz or .vti, got {out}")
    if data is not None and not recalibrated:
        raise ValueError("--data is for --recalibrated: other predictions need no data set")
    if last and (std or quantiles or recalibrated):
        raise ValueError("--last is one network, which has no spread: leave it out, or the options for error bars")
    require_new(out, overwrite=force)
    if kind_of(run) == "model":
        if device is not None:
            raise ValueError(f"{run} is for the CPU only: leave out --device, or give the run it was exported from")
        if std or quantiles or recalibrated:
            raise ValueError(f"{run} is one network without posterior samples: give the run that it was exported from")
        problem, answer, known = _by_export(run, network)
    else:
        place = opened(run, network)
        problem, known = place.problem, place.result.get("input_range")
        answer = _by_run(place, last, quantiles or [], recalibrated, data, device)
    inputs = problem.read_inputs(input)
    warning = outside(inputs, known)
    if out.suffix == ".vti":
        if sample >= len(inputs):
            raise ValueError(f"{input} holds inputs 0 to {len(inputs) - 1}, got --sample {sample}")
        inputs = inputs[sample : sample + 1]
    pieces = _Pieces(problem, inputs, answer, std)
    if out.suffix == ".vti":
        ((example, arrays),) = pieces.each()
        shown = {name: values[0] for name, values in arrays.items() if name != "quantiles"}
        problem.write_vti(out, example[0], shown, overwrite=force)
    else:
        levels = {"levels": np.array(quantiles)} if quantiles else {}
        made = (arrays for _, arrays in pieces.each())
        write_npz(out, made, whole=levels, second=("quantiles",), overwrite=force)
    if warning is not None:
        print(f"warning: {warning}", file=sys.stderr)
    behind = f"mean of {pieces.samples} posterior samples" if pieces.samples else "the last sample alone"
    print(f"{len(inputs)} prediction{'s' * (len(inputs) != 1)} ({behind}): {out}")


class _Pieces:
    """The arrays of a prediction, made some inputs at a time, with a progress bar."""

    def __init__(self, problem: Any, inputs: Any, answer: Any, std: bool) -> None:
        self.problem, self.inputs, self.answer, self.std = problem, inputs, answer, std
        self.samples = 0

    def each(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        from sparse_langevin.runtime.progress import progress_bar
        from sparse_langevin.surrogates.prediction import arrays_of, in_pieces

        done = 0
        with progress_bar(len(self.inputs), None, "input") as advance:
            for part, made in in_pieces(self.problem, self.inputs, self.answer):
                if made.std is None and self.std:
                    raise ValueError(
                        "the run has no posterior samples, and so no standard deviations: train with --samples"
                    )
                self.samples = made.samples
                yield part, arrays_of(self.problem, part, made)
                advance(done := done + len(part), "")
                del part, made  # before the next ones are made


def _by_export(run: Path, network: str | None) -> Any:
    """The problem of an exported model, the function that predicts, and the range of the training inputs."""
    from sparse_langevin.deploy import read_manifest
    from sparse_langevin.posterior import Prediction
    from sparse_langevin.surrogates.export import load_exported

    surrogate = load_exported(run, trust=named(network))
    known = read_manifest(run).meta.get("input_range")
    return surrogate.problem, lambda inputs: Prediction(surrogate.predict(inputs)), known


def _by_run(
    place: Any, last: bool, quantiles: list[float], recalibrated: bool, data: Path | None, device: str | None
) -> Any:
    """The function that predicts by the samples of a run."""
    from sparse_langevin.surrogates import open_data
    from sparse_langevin.surrogates.calibration import run_factors
    from sparse_langevin.surrogates.prediction import predictor

    predict = predictor(place, last=last, quantiles=[] if recalibrated else quantiles, device=device)
    if not recalibrated:
        return predict
    moved = open_data(data) if data is not None else None
    if moved is not None:
        place.check_data(moved)
    factors = run_factors(place, moved, device)
    return lambda inputs: factors.apply(predict(inputs), quantiles)


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of one or more runs.")],
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
    data: Data = None,
    sample: Annotated[
        list[int] | None,
        typer.Option(help="Number of a test example to draw, from 0. Repeat for more; the default is the first two."),
    ] = None,
    network: Network = None,
    device: Device = None,
    force: Force = False,
) -> None:
    """Write one HTML file with settings, learning curves, errors, pictures, sparsity and cost."""
    from sparse_langevin.surrogates.report import judge
    from sparse_langevin.surrogates.report import report as make_report

    require_new(out, overwrite=force)
    places = [opened(run, network) for run in runs]
    page = make_report([judge(place, place.find_data(data), device) for place in places], sample)
    write_new(out, page.encode(), overwrite=force)
    print(out)


def export(
    run: Run,
    out: Annotated[Path, typer.Option(help="Folder to write the model to.")],
    values: Annotated[
        Literal["short", "packed", "float32", "float16", "bfloat16"],
        typer.Option(
            help="How weights are stored. packed and float32 are exact, short has a relative error of at most 1/65536."
        ),
    ] = "short",
    onnx: Annotated[bool, typer.Option("--onnx", help="Also write an ONNX file, checked with ONNX Runtime.")] = False,
    network: Network = None,
    force: Force = False,
) -> None:
    """Write the finished network to a small sparse file; 'predict' takes its folder in place of a run."""
    from sparse_langevin.surrogates.export import export_run

    written, difference = export_run(opened(run, network), out, values=values, onnx=onnx, overwrite=force)
    share = written.size / written.dense_size
    print(f"{written.size / 1e6:.2f} MB, {share:.1%} of the {written.dense_size / 1e6:.2f} MB of the dense weights")
    if written.output_change:
        print(f"rounding changes normalised outputs by at most {written.output_change:.1e}")
    if difference is not None:
        print(f"ONNX Runtime differs from torch by at most {difference:.1e}")
    print(out)


def named(network: str | None) -> bool:
    """Whether the user named a network of their own, which may be imported then."""
    return network is not None and ":" in network


def opened(run: Path, network: str | None) -> Any:
    """Open a run; a network of the user's own is imported only if it was named."""
    from sparse_langevin.surrogates import SurrogateRun

    place = SurrogateRun.open(run)
    if network is not None and network != place.settings.network:
        raise ValueError(
            f"the run in {run} has the network {place.settings.network or 'of its problem'}, not {network}"
        )
    return place.trusted() if named(network) else place


def parsed_options(words: list[str]) -> dict[str, Any]:
    """Parse NAME=VALUE pairs; a value that is not JSON is text."""
    options: dict[str, Any] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name.isidentifier():
            raise ValueError(f"--network-option takes NAME=VALUE, such as width=64; got {word!r}")
        try:
            options[name] = json.loads(value)
        except (ValueError, RecursionError):
            options[name] = value
    return options
