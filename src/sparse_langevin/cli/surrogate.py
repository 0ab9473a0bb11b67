"""Commands about surrogates: train, evaluate, predict, report, export."""

import io
import json
import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from sparse_langevin.cli.tables import print_table
from sparse_langevin.storage.files import require_new, write_new

Run = Annotated[Path, typer.Argument(help="Folder of a run that 'train' has made.")]
Data = Annotated[Path | None, typer.Option(help="Another data set of the same problem. The default is the run's own.")]
Device = Annotated[str | None, typer.Option(help="Where to compute, such as cuda. The default is torch's, the CPU.")]
Network = Annotated[
    str | None,
    typer.Option(
        help="module:Class of the run's network, if that is code of yours: it is imported only if you name it."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that exists.")]


def train(
    data: Annotated[Path, typer.Option(help="Data set made by 'generate' or 'import'.")],
    run: Annotated[Path, typer.Option(help="Folder of the run. If it was begun, the same command goes on.")],
    method: Annotated[str, typer.Option(help="sgld, psgld, sgld-sa, psgld-sa; or adam, the baseline.")] = "psgld-sa",
    sparsity: Annotated[float, typer.Option(help="Share of zeros in the sparse layers, in [0, 1).")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the weights, the order of the data and the noise.")] = 0,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the training data.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Samples in a step.")] = None,
    step_size: Annotated[float | None, typer.Option(help="First step size; it falls along half a cosine.")] = None,
    final_step: Annotated[float | None, typer.Option(help="Last step size, as a share of the first.")] = None,
    warmup: Annotated[float | None, typer.Option(help="Part of the run in which the step size grows.")] = None,
    momentum: Annotated[
        float | None, typer.Option(help="Memory of the average of steps, in [0, 1); 0 is the paper's algorithm.")
    ] = None,
    tau: Annotated[float | None, typer.Option(help="Inverse temperature; 1 is the posterior.")] = None,
    noise_from: Annotated[
        float | None, typer.Option(help="Part of the run after which the noise sets in; 0 is the paper's algorithm.")
    ] = None,
    v0: Annotated[float | None, typer.Option(help="Scale of the spike.")] = None,
    v1: Annotated[float | None, typer.Option(help="Variance of the slab.")] = None,
    sigma0: Annotated[float | None, typer.Option(help="Standard deviation of the Gaussian prior.")] = None,
    prune_end: Annotated[float | None, typer.Option(help="Part of the run after which the zeros are fixed.")] = None,
    samples: Annotated[int | None, typer.Option(min=0, help="Posterior samples to keep.")] = None,
    burn_in: Annotated[float | None, typer.Option(help="Part of the run before the first sample.")] = None,
    validation: Annotated[
        float | None, typer.Option(help="Share of the training data to set apart and watch instead of the test data.")
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(help="One of the problem's networks, or module:Class of your own."),
    ] = None,
    network_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Keyword argument of the network: repeat the option.")
    ] = None,
    cycles: Annotated[
        int | None, typer.Option(min=1, help="Times that the step size starts anew, to visit several modes.")
    ] = None,
    chains: Annotated[
        int, typer.Option(min=1, help="Independent chains, in processes side by side; more can be added later.")
    ] = 1,
    device: Device = None,
    profile: Annotated[bool, typer.Option("--profile", help="Say at the end where the time went.")] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write the learning curves for TensorBoard, too.")
    ] = False,
) -> None:
    """Train a sparse Bayesian surrogate; options without a value have the method's default."""
    from sparse_langevin.surrogates import Settings, open_data
    from sparse_langevin.surrogates import train as train_surrogate
    from sparse_langevin.surrogates.chains import train_chains

    given, seconds = locals(), dict[str, float]()
    changes = {f.name: given[f.name] for f in fields(Settings) if f.name not in ("method", "chain", "network_options")}
    settings = Settings.of(method, **changes, network_options=parsed_options(network_option or []))
    allow(network)
    examples = open_data(data)
    if chains == 1:
        place = train_surrogate(settings, examples, run, device=device, profile=seconds, tensorboard=tensorboard)
    elif profile or tensorboard:
        raise ValueError(f"--{'profile' if profile else 'tensorboard'} is for one chain: leave out --chains")
    else:
        place = train_chains(settings, examples, run, chains, device=device)
    if profile and seconds:
        _print_profile(seconds)
    result = place.result
    line = f"{result['parameters']:,} parameters, {result['zeros']:,} zeros of {result['sparse_parameters']:,}"
    print(f"{line} in the sparse layers; {result['epochs']} epochs in {result['seconds'] / 60:.1f} minutes")
    last = place.history()[-1]
    if errors := [f"{m.label} {last[m.name]:.3f}" for m in place.problem.measures if m.name in last]:
        part = "validation data" if place.settings.validation else "test data"
        print(f"last sample on {part}: {', '.join(errors)}")
    print(f"{run}\nnext: sparse-langevin report {run} --out report.html")


def _print_profile(seconds: dict[str, float]) -> None:
    """Where the time went, the longest first."""
    total = sum(seconds.values())
    table = Table("", "seconds", "share", title="where the time went")
    for name, value in sorted(seconds.items(), key=lambda item: -item[1]):
        table.add_row(name, f"{value:.2f}", f"{value / total:.1%}")
    Console().print(table)


def evaluate(
    run: Run,
    data: Data = None,
    out: Annotated[Path | None, typer.Option(help="Write the errors of every test example to this CSV file.")] = None,
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
    tables = [error_table([judged]), quantile_table([judged])]
    if judged.trust is not None:
        tables.append(trust_table([judged]))
    if judged.chains is not None:
        tables.append(judged.chains.table())
    for page in tables:
        print_table(page)
    for line in judged.chains.verdict if judged.chains is not None else ():
        print(line)
    if out is not None:
        names = [m.name for m in place.problem.measures]
        rows = enumerate(zip(*(judged.best.errors[name] for name in names), strict=True))
        lines = [",".join(["sample", *names]), *(",".join([str(i), *(f"{e:.8g}" for e in row)]) for i, row in rows)]
        write_new(out, "\n".join([*lines, ""]).encode(), overwrite=force)
        print(out)


def predict(
    run: Annotated[Path, typer.Argument(help="Folder of a run, or one that 'export' has made.")],
    input: Annotated[Path, typer.Option(help="Inputs to predict from: .npy, .npz or HDF5.")],
    out: Annotated[Path, typer.Option(help="File to write: .npz for all inputs, .vti for one in ParaView.")],
    std: Annotated[bool, typer.Option("--std", help="Fail if there are no posterior samples for error bars.")] = False,
    quantiles: Annotated[
        list[float] | None, typer.Option(help="Level of a quantile to write, such as 0.05: repeat the option.")
    ] = None,
    recalibrated: Annotated[
        bool,
        typer.Option("--recalibrated", help="Correct the error bars by factors found on the run's validation data."),
    ] = False,
    sample: Annotated[int, typer.Option(min=0, help="Number of the input that goes into a .vti file.")] = 0,
    data: Annotated[
        Path | None, typer.Option(help="Where the run's data set is now, if it has moved, for --recalibrated.")
    ] = None,
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
        raise ValueError("--data is for --recalibrated: predictions need no data set")
    if last and (std or quantiles or recalibrated):
        raise ValueError("--last is one network, which has no spread: leave it out, or the options about error bars")
    require_new(out, overwrite=force)
    if kind_of(run) == "model":
        if device is not None:
            raise ValueError(f"{run} is made for the CPU: leave out --device, or give the run it was exported from")
        if std or quantiles or recalibrated:
            raise ValueError(f"{run} is one network without posterior samples: give the run it was exported from")
        problem, inputs, made, known = _by_export(run, input, network)
    else:
        place = opened(run, network)
        problem, known = place.problem, place.result.get("input_range")
        inputs = problem.read_inputs(input)
        made = _by_run(place, inputs, last, quantiles or [], recalibrated, data, device)
    if made.std is None and std:
        raise ValueError("there are no posterior samples to take a standard deviation of: train with --samples")
    arrays = {problem.output_name: made.mean.numpy()} | problem.extras(inputs, made.mean.double().numpy())
    if made.std is not None:
        arrays |= {"std": made.std.numpy(), "total_std": made.total_std.numpy()}
    if made.quantiles is not None:
        arrays |= {"levels": np.array(quantiles), "quantiles": made.quantiles.numpy()}
    if out.suffix == ".vti":
        if sample >= len(inputs):
            raise ValueError(f"{input} holds inputs 0 to {len(inputs) - 1}, got --sample {sample}")
        shown = {k: v[sample] for k, v in arrays.items() if k not in ("levels", "quantiles")}
        problem.write_vti(out, inputs[sample], shown, overwrite=force)
    else:
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **arrays)
        write_new(out, buffer.getvalue(), overwrite=force)
    if (warning := outside(inputs, known)) is not None:
        print(f"warning: {warning}", file=sys.stderr)
    behind = f"mean of {made.samples} posterior samples" if made.samples else "the last sample alone"
    print(f"{len(inputs)} predictions ({behind}): {out}")


def _by_export(run: Path, input: Path, network: str | None) -> Any:
    """Problem, inputs, prediction and range of the training inputs, from what 'export' has made."""
    from sparse_langevin.deploy import read_manifest
    from sparse_langevin.posterior import Prediction
    from sparse_langevin.surrogates.export import load_exported

    surrogate = load_exported(run, trust=allow(network))
    inputs = surrogate.problem.read_inputs(input)
    made = Prediction(surrogate.predict(inputs))
    return surrogate.problem, inputs, made, read_manifest(run).meta.get("input_range")


def _by_run(
    place: Any,
    inputs: Any,
    last: bool,
    quantiles: list[float],
    recalibrated: bool,
    data: Path | None,
    device: str | None,
) -> Any:
    """A prediction by the samples of a run, with a bar for their number."""
    from sparse_langevin.runtime.progress import progress_bar
    from sparse_langevin.surrogates import open_data
    from sparse_langevin.surrogates import predict as predict_outputs
    from sparse_langevin.surrogates.calibration import run_factors

    levels = [] if recalibrated else quantiles
    with progress_bar(None, None, "sample") as advance:
        made = predict_outputs(
            place, inputs, last=last, quantiles=levels, device=device, progress=lambda done: advance(done, "")
        )
    if not recalibrated:
        return made
    moved = open_data(data) if data is not None else None
    if moved is not None:
        place.check_data(moved)
    return run_factors(place, moved, device).apply(made, quantiles)


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of one or several runs.")],
    out: Annotated[Path, typer.Option(help="Report to write.")] = Path("report.html"),
    data: Data = None,
    sample: Annotated[
        list[int] | None, typer.Option(help="Test example to draw, from 0: repeat the option. Default: the first two.")
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
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    values: Annotated[
        Literal["short", "packed", "float32", "float16", "bfloat16"],
        typer.Option(help="How weights are stored: packed and float32 exactly, short with an error below 1/65536."),
    ] = "short",
    onnx: Annotated[bool, typer.Option("--onnx", help="Also write an ONNX file, checked with ONNX Runtime.")] = False,
    network: Network = None,
    force: Force = False,
) -> None:
    """Write the finished network as a small sparse file; 'predict' takes the folder in place of a run."""
    from sparse_langevin.surrogates.export import export_run

    written, difference = export_run(opened(run, network), out, values=values, onnx=onnx, overwrite=force)
    share = written.size / written.dense_size
    print(f"{written.size / 1e6:.2f} MB, {share:.1%} of the {written.dense_size / 1e6:.2f} MB that dense weights take")
    if written.output_change:
        print(f"rounding changes normalised outputs by at most {written.output_change:.1e}")
    if difference is not None:
        print(f"ONNX Runtime differs from torch by at most {difference:.1e}")
    print(out)


def allow(network: str | None) -> bool:
    """Whether a network of the user's may be imported; its module may then lie in the working directory."""
    if network is None or ":" not in network:
        return False
    sys.path.append(os.getcwd())
    return True


def opened(run: Path, network: str | None) -> Any:
    """A run, with a network of the user's own if that was named."""
    from sparse_langevin.surrogates import SurrogateRun

    place = SurrogateRun.open(run)
    if network is not None and network != place.settings.network:
        raise ValueError(
            f"the run in {run} has the network {place.settings.network or 'of its problem'}, not {network}"
        )
    return place.trusted() if allow(network) else place


def parsed_options(words: list[str]) -> dict[str, Any]:
    """NAME=VALUE pairs; a value is JSON if it can be read so, else text."""
    options: dict[str, Any] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name.isidentifier():
            raise ValueError(f"--network-option takes NAME=VALUE, such as width=64; got {word!r}")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options
