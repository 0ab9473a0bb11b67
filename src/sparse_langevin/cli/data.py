"""Commands about data sets: generate, import, info, show, convert."""

import io
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from sparse_langevin.problems import darcy
from sparse_langevin.problems.darcy.imported import read_arrays
from sparse_langevin.problems.darcy.summary import linear_code_error
from sparse_langevin.runtime.interrupts import Interrupted, deferred_signals
from sparse_langevin.runtime.progress import progress_bar
from sparse_langevin.storage.files import require_new, write_new
from sparse_langevin.surrogates.problem import open_data

generate = typer.Typer(help="Make a data set of permeability, velocity and pressure.", no_args_is_help=True)

Out = Annotated[Path, typer.Option(help="Folder of the data set. If it was begun, the same command finishes it.")]
Samples = Annotated[int, typer.Option(min=1, help="Number of samples.")]
Nx = Annotated[int, typer.Option(min=1, help="Cells in x.")]
Ny = Annotated[int, typer.Option(min=1, help="Cells in y.")]
Source = Annotated[float, typer.Option(help="The constant source f.")]
Domain = Annotated[str, typer.Option(metavar="WIDTHxHEIGHT", help="Size of the domain.")]
Side = Annotated[str | None, typer.Option(metavar="CONDITION", help="'pressure VALUE' or outward 'flow VALUE'.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the samples.")]
TestShare = Annotated[float, typer.Option(help="Share of the samples that is the test set.")]
Workers = Annotated[int | None, typer.Option(min=0, help="Processes; one per core unless given, 0 for none.")]
Permeability = Annotated[list[float], typer.Option(help="One value per facies, from the darkest: repeat the option.")]
DataSet = Annotated[Path, typer.Argument(help="A data set made by 'generate' or 'import'.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that exists.")]


@generate.command()
def kle(
    *,
    out: Out,
    samples: Samples = 1500,
    terms: Annotated[int, typer.Option(min=1, help="Terms of the Karhunen-Loeve expansion.")] = 32,
    kernel: Literal["squared-exponential", "exponential"] = "squared-exponential",
    lx: Annotated[float, typer.Option(help="Correlation length in x.")] = 0.2,
    ly: Annotated[float, typer.Option(help="Correlation length in y.")] = 0.3,
    variance: Annotated[float, typer.Option(help="Variance of the Gaussian field.")] = 2.0,
    mode: Annotated[Literal["affine", "lognormal"], typer.Option(help="kappa_0 + Y, or kappa_0 * exp(Y).")] = "affine",
    kappa_0: Annotated[
        float | None, typer.Option("--kappa-0", help="Mean (affine, default 6) or median (lognormal, default 1).")
    ] = None,
    nx: Nx = 50,
    ny: Ny = 50,
    domain: Domain = "1x1",
    source: Source = 1.0,
    left: Side = None,
    right: Side = None,
    bottom: Side = None,
    top: Side = None,
    seed: Seed = 0,
    test_share: TestShare = 2 / 15,  # the paper's 200 of 1500
    workers: Workers = None,
) -> None:
    """Gaussian random fields by the Karhunen-Loeve expansion."""
    middle = kappa_0 if kappa_0 is not None else 6.0 if mode == "affine" else 1.0
    settings = {"terms": terms, "kernel": kernel, "lx": lx, "ly": ly, "variance": variance, "mode": mode}
    settings |= {"kappa_0": middle}
    sides = given_sides(left, right, bottom, top)
    grid = grid_of(nx, ny, domain)
    _make(darcy.Recipe("kle", samples, grid, settings, source, seed, test_share, sides=sides), out, workers)


@generate.command()
def channels(
    *,
    out: Out,
    samples: Samples = 3000,
    permeability: Permeability = [1.0, 10.0],  # noqa: B006
    width: Annotated[float, typer.Option(help="Of a channel, in units of the domain.")] = 0.08,
    amplitude: Annotated[float, typer.Option(help="Of a channel's bends.")] = 0.08,
    wavelength: Annotated[float, typer.Option(help="Of a channel's bends.")] = 0.6,
    density: Annotated[float, typer.Option(help="Share of the area that is channel.")] = 0.26,
    orientation: Annotated[float, typer.Option(help="Angle to the x-axis in degrees.")] = 0.0,
    variation: Annotated[float, typer.Option(help="Relative spread from channel to channel.")] = 0.25,
    nx: Nx = 50,
    ny: Ny = 50,
    domain: Domain = "1x1",
    source: Source = 1.0,
    left: Side = None,
    right: Side = None,
    bottom: Side = None,
    top: Side = None,
    seed: Seed = 0,
    test_share: TestShare = 0.2,
    workers: Workers = None,
) -> None:
    """Sinuous channels in a background; needs no image."""
    settings = {
        "permeability": permeability,
        "width": width,
        "amplitude": amplitude,
        "wavelength": wavelength,
        "density": density,
        "orientation": orientation,
        "variation": variation,
    }
    sides = given_sides(left, right, bottom, top)
    grid = grid_of(nx, ny, domain)
    _make(darcy.Recipe("channels", samples, grid, settings, source, seed, test_share, sides=sides), out, workers)


@generate.command()
def image(
    *,
    out: Out,
    image: Annotated[Path, typer.Option(help="PNG, TIFF or .npy with two or more facies.")],
    samples: Samples = 3000,
    permeability: Permeability = [1.0, 10.0],  # noqa: B006
    split: Annotated[
        Literal["random", "blocked"],
        typer.Option(help="random: test crops overlap training crops. blocked: they share no pixel."),
    ] = "random",
    blocks: Annotated[int, typer.Option(min=2, help="Tiles per side of a blocked split.")] = 5,
    nx: Nx = 50,
    ny: Ny = 50,
    domain: Domain = "1x1",
    source: Source = 1.0,
    left: Side = None,
    right: Side = None,
    bottom: Side = None,
    top: Side = None,
    seed: Seed = 0,
    test_share: TestShare = 0.2,
    workers: Workers = None,
) -> None:
    """Random crops of an image of facies."""
    settings = {"image": str(image), "permeability": permeability, "split": split, "blocks": blocks}
    sides = given_sides(left, right, bottom, top)
    grid = grid_of(nx, ny, domain)
    _make(darcy.Recipe("image", samples, grid, settings, source, seed, test_share, sides=sides), out, workers)


def import_arrays(
    *,
    file: Annotated[
        Path | None, typer.Argument(help="Darcy flow: .npz or HDF5 with kappa (samples, ny, nx) and velocity; or .npy.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the data set.")] = Path("data/imported"),
    inputs: Annotated[
        str | None, typer.Option(help="Any simulator: inputs (samples, ...) as .npy, or FILE:NAME in .npz or HDF5.")
    ] = None,
    outputs: Annotated[str | None, typer.Option(help="The outputs that belong to them, likewise.")] = None,
    low: Annotated[str | None, typer.Option(help="Outputs of a cheaper simulation, to be corrected, likewise.")] = None,
    input_layout: Annotated[
        str | None,
        typer.Option(help="Dimensions after the samples: v, x, cx, yx, cyx, zyx or czyx."),
    ] = None,
    output_layout: Annotated[str | None, typer.Option(help="The same for the outputs.")] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Take only the first ones.")] = None,
    domain: Domain = "1x1",
    source: Source = 1.0,
    left: Side = None,
    right: Side = None,
    bottom: Side = None,
    top: Side = None,
    any_residual: Annotated[
        bool, typer.Option("--any-residual", help="Take velocities that do not conserve mass, or flow through sides.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Any simulator: seed of the random split.")] = 0,
    test_share: TestShare = 0.2,
    workers: Workers = None,
) -> None:
    """Make a data set of your own arrays: of Darcy flow (FILE), or of any simulator (--inputs and --outputs).

    For Darcy flow, samples without velocities are solved. For any simulator, see the page about your own data.
    """
    if (file is None) == (inputs is None) or (inputs is None) != (outputs is None):
        raise ValueError("give either FILE, with arrays of Darcy flow, or --inputs and --outputs of any simulator")
    if inputs is not None and outputs is not None:
        from sparse_langevin.problems.arrays import import_arrays as import_any

        data = import_any(
            inputs,
            outputs,
            out,
            low=low,
            input_layout=input_layout,
            output_layout=output_layout,
            samples=samples,
            test_share=test_share,
            seed=seed,
        )
        print(f"{len(data)} samples in {out}")
        return
    assert file is not None
    count, ny, nx = read_arrays(file)["kappa"].shape
    settings = {"file": str(file)} | ({"any_residual": True} if any_residual else {})
    recipe = darcy.Recipe(
        "arrays",
        samples or count,
        grid_of(nx, ny, domain),
        settings,
        source,
        test_share=test_share,
        sides=given_sides(left, right, bottom, top),
    )
    _make(recipe, out, workers)


def given_sides(left: str | None, right: str | None, bottom: str | None, top: str | None) -> dict[str, str]:
    """The sides that were given."""
    sides = {"left": left, "right": right, "bottom": bottom, "top": top}
    return {side: condition for side, condition in sides.items() if condition is not None}


def grid_of(nx: int, ny: int, domain: str) -> darcy.Grid:
    """A grid on a domain such as 3x2."""
    try:
        width, height = (float(part) for part in domain.lower().split("x"))
    except ValueError as error:
        raise ValueError(f"--domain takes WIDTHxHEIGHT, such as 3x2; got {domain!r}") from error
    return darcy.Grid(nx, ny, width, height)


def info(
    data: DataSet,
    code: Annotated[
        int | None,
        typer.Option(min=1, metavar="SIZE", help="Darcy flow: add the error of the best linear code of this size."),
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Check every file's SHA-256.")] = False,
) -> None:
    """Print what a data set holds and how it was made."""
    table = Table("", "", show_header=False, box=None)
    samples = open_data(data)
    if verify:
        samples.verify()
    for name, value in samples.summary().items():
        table.add_row(f"[bold]{name}", value)
    if code is not None:
        best = linear_code_error(darcy.DarcyData(data), code)
        table.add_row("[bold]linear code", f"of {code} numbers: e1 {100 * best:.2f} % on the test set at best")
    if verify:
        table.add_row("[bold]files", "all match their SHA-256")
    Console().print(table)


def show(
    data: DataSet,
    sample: Annotated[int, typer.Option(min=0, help="Number of the sample, from 0.")] = 0,
    out: Annotated[Path, typer.Option(help="Picture to write: .png, .pdf or .svg.")] = Path("sample.png"),
    force: Force = False,
) -> None:
    """Draw permeability, pressure and both velocity components of a sample."""
    require_new(out, overwrite=force)
    kappa, solution = darcy.DarcyData(data).sample(sample)
    figure = darcy.sample_figure(kappa, solution, f"{data.name}, sample {sample}")
    write_new(out, _rendered(figure, out), overwrite=force)
    print(out)


def convert(
    data: DataSet,
    out: Annotated[Path, typer.Option(help="all.npz for all arrays, sample.vti for one sample in ParaView.")],
    sample: Annotated[int, typer.Option(min=0, help="Number of the sample that goes into a .vti file.")] = 0,
    force: Force = False,
) -> None:
    """Write a data set as .npz, or a sample as VTK image data."""
    if out.suffix not in (".npz", ".vti"):
        raise ValueError(f"--out must end in .npz or .vti, got {out}")
    loaded = darcy.DarcyData(data)
    if out.suffix == ".npz":
        loaded.export_npz(out, overwrite=force)
    else:
        kappa, solution = loaded.sample(sample)
        solution.write_vti(out, kappa, overwrite=force)
    print(out)


def _make(recipe: darcy.Recipe, out: Path, workers: int | None) -> None:
    """Generate with a bar; SIGTERM and Ctrl-C let the files in work be finished."""
    with progress_bar(recipe.samples, None, "sample") as advance, deferred_signals(SIGINT, SIGTERM) as pending:

        def report(done: int, total: int) -> None:
            advance(done, "")
            if (number := pending()) is not None and done < total:
                raise Interrupted(number, done, "sample", out)

        data = darcy.generate(recipe, out, workers=workers, progress=report)
    print(f"{len(data)} samples in {out}")


def _rendered(figure: Any, out: Path) -> bytes:
    """A figure in the format that its file's name asks for."""
    kinds = ("png", "pdf", "svg")
    if out.suffix[1:] not in kinds:
        raise ValueError(f"a picture's name ends in {', '.join('.' + k for k in kinds)}; got {out}")
    buffer = io.BytesIO()
    figure.savefig(buffer, format=out.suffix[1:], dpi=150)
    return buffer.getvalue()
