"""Commands about surrogates: train, evaluate, predict, report."""

import io
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from sparse_langevin.cli.tables import print_table
from sparse_langevin.storage.files import require_new, write_new

Run = Annotated[Path, typer.Argument(help="Folder of a run that 'train' has made.")]
Data = Annotated[Path | None, typer.Option(help="Another data set on the same grid; the run's own unless given.")]
Device = Annotated[str | None, typer.Option(help="Where to compute, such as cuda; the CPU unless given.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that exists.")]


def train(
    data: Annotated[Path, typer.Option(help="Data set made by 'generate' or 'import'.")],
    run: Annotated[Path, typer.Option(help="Folder of the run. If it was begun, the same command goes on.")],
    method: Annotated[str, typer.Option(help="sgld, psgld, sgld-sa, psgld-sa; or adam, the baseline.")] = "psgld-sa",
    sparsity: Annotated[float, typer.Option(help="Share of zeros in the sparse layers, in [0, 1).")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the first weights, the order of the data, the noise.")] = 0,
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
    network: Annotated[str | None, typer.Option(help="module:Class of your own network, called with the grid.")] = None,
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
    from sparse_langevin.problems.darcy.datasets import DarcyData
    from sparse_langevin.surrogates import Settings
    from sparse_langevin.surrogates import train as train_surrogate
    from sparse_langevin.surrogates.chains import train_chains

    given, seconds = locals(), dict[str, float]()
    changes = {f.name: given[f.name] for f in fields(Settings) if f.name not in ("method", "chain")}
    settings = Settings.of(method, **changes)
    if chains == 1:
        place = train_surrogate(settings, DarcyData(data), run, device=device, profile=seconds, tensorboard=tensorboard)
    elif profile or tensorboard:
        raise ValueError(f"--{'profile' if profile else 'tensorboard'} is for one chain: leave out --chains")
    else:
        place = train_chains(settings, DarcyData(data), run, chains, device=device)
    if profile and seconds:
        _print_profile(seconds)
    result = place.result
    line = f"{result['parameters']:,} parameters, {result['zeros']:,} zeros of {result['sparse_parameters']:,}"
    print(f"{line} in the sparse layers; {result['epochs']} epochs in {result['seconds'] / 60:.1f} minutes")
    if (last := place.history()[-1]).get("e1") is not None:
        part = "validation data" if place.settings.validation else "test data"
        print(f"last sample on {part}: e1 {last['e1']:.3f} %, e2 {last['e2']:.3f} %")
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
    out: Annotated[Path | None, typer.Option(help="Errors of every sample, as CSV.")] = None,
    force: Force = False,
) -> None:
    """Errors on the test set, their quantiles, and the mean predictor beside them."""
    from sparse_langevin.surrogates import SurrogateRun
    from sparse_langevin.surrogates.agreement import agreement
    from sparse_langevin.surrogates.report import error_table, judge, quantile_table, trust_table

    if out is not None:
        require_new(out, overwrite=force)
    place = SurrogateRun.open(run)
    judged = judge(place, place.find_data(data))
    tables = [error_table([judged]), quantile_table([judged])]
    if judged.trust is not None:
        tables.append(trust_table([judged]))
    chains = agreement(place, judged.data) if judged.prediction.samples else None
    if chains is not None:
        tables.append(chains.table())
    for page in tables:
        print_table(page)
    for line in chains.verdict if chains is not None else ():
        print(line)
    if out is not None:
        best = judged.averaged or judged.last
        rows = zip(best.e1, best.e2, best.mass_residual, strict=True)
        lines = ["sample,e1,e2,mass_residual", *(f"{i},{a:.8g},{b:.8g},{c:.8g}" for i, (a, b, c) in enumerate(rows))]
        write_new(out, "\n".join([*lines, ""]).encode(), overwrite=force)
        print(out)


def predict(
    run: Annotated[Path, typer.Argument(help="Folder of a run, or one that 'export' has made.")],
    input: Annotated[Path, typer.Option(help="kappa (samples, ny, nx), or one field (ny, nx): .npy, .npz or HDF5.")],
    out: Annotated[Path, typer.Option(help="Velocities to write: .npz.")],
    std: Annotated[
        bool, typer.Option("--std", help="Insist on standard deviations: an error without samples.")
    ] = False,
    quantiles: Annotated[
        list[float] | None, typer.Option(help="Level of a quantile to write, such as 0.05: repeat the option.")
    ] = None,
    recalibrated: Annotated[
        bool,
        typer.Option("--recalibrated", help="Correct the deviations by factors found on the run's validation data."),
    ] = False,
    data: Annotated[
        Path | None, typer.Option(help="Where the run's data set is now, if it has moved, for --recalibrated.")
    ] = None,
    last: Annotated[bool, typer.Option("--last", help="Only the last posterior sample.")] = False,
    device: Device = None,
    force: Force = False,
) -> None:
    """Velocity of new permeability fields, with standard deviations when the run has kept samples."""
    import torch

    from sparse_langevin.problems.darcy.datasets import DarcyData
    from sparse_langevin.problems.darcy.imported import read_arrays
    from sparse_langevin.runtime.progress import progress_bar
    from sparse_langevin.storage.artefact import kind_of
    from sparse_langevin.surrogates import SurrogateRun
    from sparse_langevin.surrogates.calibration import run_factors
    from sparse_langevin.surrogates.export import load_exported
    from sparse_langevin.surrogates.prediction import Forecast
    from sparse_langevin.surrogates.prediction import predict as predict_velocity

    if out.suffix != ".npz":
        raise ValueError(f"--out must end in .npz, got {out}")
    if data is not None and not recalibrated:
        raise ValueError("--data is for --recalibrated: predictions need no data set")
    if last and (std or quantiles or recalibrated):
        raise ValueError("--last is one network, which has no spread: leave it out, or the options about error bars")
    require_new(out, overwrite=force)
    kappa = torch.from_numpy(read_arrays(input)["kappa"])
    if kind_of(run) == "model":
        if device is not None:
            raise ValueError(f"{run} is made for the CPU: leave out --device, or give the run it was exported from")
        if std or quantiles or recalibrated:
            raise ValueError(f"{run} is one network without posterior samples: give the run it was exported from")
        made = Forecast(load_exported(run).predict(kappa))
    else:
        place = SurrogateRun.open(run)
        with progress_bar(None, None, "sample") as advance:
            made = predict_velocity(
                place,
                kappa,
                last=last,
                quantiles=() if recalibrated else quantiles or (),
                device=device,
                progress=lambda done: advance(done, ""),
            )
        if recalibrated:
            moved = DarcyData(data) if data is not None else None
            if moved is not None:
                place.check_data(moved)
            made = run_factors(place, moved).apply(made, quantiles or ())
    arrays = {"velocity": made.velocity.numpy()}
    if made.std is not None:
        arrays |= {"std": made.std.numpy(), "total_std": made.total_std.numpy()}
    elif std:
        raise ValueError("there are no posterior samples to take a standard deviation of: train with --samples")
    if made.quantiles is not None:
        arrays |= {"levels": np.array(quantiles), "quantiles": made.quantiles.numpy()}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_new(out, buffer.getvalue(), overwrite=force)
    behind = f"mean of {made.samples} posterior samples" if made.samples else "the last sample alone"
    print(f"{len(kappa)} velocities ({behind}): {out}")


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of one or several runs.")],
    out: Annotated[Path, typer.Option(help="Report to write.")] = Path("report.html"),
    data: Data = None,
    sample: Annotated[list[int], typer.Option(help="Test sample to draw, from 0: repeat the option.")] = [0, 1],  # noqa: B006
    force: Force = False,
) -> None:
    """One HTML file: settings, learning curves, errors, pictures, sparsity and cost."""
    from sparse_langevin.surrogates import SurrogateRun
    from sparse_langevin.surrogates.report import judge
    from sparse_langevin.surrogates.report import report as make_report

    require_new(out, overwrite=force)
    places = [SurrogateRun.open(run) for run in runs]
    page = make_report([judge(place, place.find_data(data)) for place in places], sample)
    write_new(out, page.encode(), overwrite=force)
    print(out)


def export(
    run: Run,
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    values: Annotated[
        Literal["short", "packed", "float32", "float16", "bfloat16"],
        typer.Option(help="How weights are stored: packed and float32 exactly, short to 1/65536 of themselves."),
    ] = "short",
    onnx: Annotated[bool, typer.Option("--onnx", help="Write an ONNX file too, checked with ONNX Runtime.")] = False,
    force: Force = False,
) -> None:
    """Write the finished network as a small sparse file; 'predict' takes the folder in place of a run."""
    from sparse_langevin.surrogates import SurrogateRun
    from sparse_langevin.surrogates.export import export_run

    written, difference = export_run(SurrogateRun.open(run), out, values=values, onnx=onnx, overwrite=force)
    share = written.size / written.dense_size
    print(f"{written.size / 1e6:.2f} MB, {share:.1%} of the {written.dense_size / 1e6:.2f} MB that dense weights take")
    if written.output_change:
        print(f"rounding changes normalised velocities by at most {written.output_change:.1e}")
    if difference is not None:
        print(f"ONNX Runtime differs from torch by at most {difference:.1e}")
    print(out)
