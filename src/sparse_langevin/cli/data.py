"""The commands for data sets: generate, import, info, show and convert."""

import io
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from sparse_langevin.cli.progress import stoppable
from sparse_langevin.cli.tables import print_facts
from sparse_langevin.problems import darcy
from sparse_langevin.problems.darcy.imported import read_arrays
from sparse_langevin.problems.darcy.summary import linear_code_error
from sparse_langevin.storage.files import require_new, write_new
from sparse_langevin.surrogates.problem import open_data

generate = typer.Typer(help="Make a data set of permeability, velocity and pressure.", no_args_is_help=True)

Out = Annotated[Path, typer.Option(help="Folder of the data set. If it was begun, the same command finishes it.")]
Samples = Annotated[int, typer.Option(min=1, help="Number of samples.")]
Nx = Annotated[int, typer.Option(min=1, help="Number of cells in x.")]
Ny = Annotated[int, typer.Option(min=1, help="Number of cells in y.")]
Source = Annotated[float, typer.Option(help="The constant source of the flow.")]
Domain = Annotated[str, typer.Option(metavar="WIDTHxHEIGHT", help="Size of the domain, such as 3x2.")]
Side = Annotated[
    str | None,
    typer.Option(metavar="CONDITION", help="What holds on this side: 'pressure VALUE' or outward 'flow VALUE'."),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the samples.")]
TestShare = Annotated[float, typer.Option(help="Share of the samples that form the test set.")]
Workers = Annotated[int | None, typer.Option(min=0, help="Number of processes, by default one per core; 0 for none.")]
DataSet = Annotated[Path, typer.Argument(help="A data set made by 'generate' or 'import'.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists already.")]


@generate.command()
def kle(
    *,
    out: Out,
    samples: Samples = 1500,
    terms: Annotated[int, typer.Option(min=1, help="Number of terms of the Karhunen-Loeve expansion.")] = 32,
    kernel: Annotated[
        Literal["squared-exponential", "exponential"], typer.Option(help="Covariance of the Gaussian field.")
    ] = "squared-exponential",
    lx: Annotated[float, typer.Option(help="Correlation length in x.")] = 0.2,
    ly: Annotated[float, typer.Option(help="Correlation length in y.")] = 0.3,
    variance: Annotated[float, typer.Option(help="Variance of the Gaussian field.")] = 2.0,
    mode: Annotated[
        Literal["affine", "lognormal"],
        typer.Option(help="Permeability is kappa_0 + Y or kappa_0 * exp(Y), where Y is the Gaussian field."),
    ] = "affine",
    kappa_0: Annotated[
        float | None,
        typer.Option("--kappa-0", help="Mean permeability (affine, default 6), or its median (lognormal, default 1)."),
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
    """Make Gaussian random fields by the Karhunen-Loeve expansion, and solve the flow through them."""
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
    permeability: Annotated[
        list[float], typer.Option(help="Permeability of the background and of the channels: give the option twice.")
    ] = [1.0, 10.0],  # noqa: B006
    width: Annotated[float, typer.Option(help="Mean width of a channel, in units of the domain.")] = 0.08,
    amplitude: Annotated[float, typer.Option(help="Mean amplitude of a channel's bends.")] = 0.08,
    wavelength: Annotated[float, typer.Option(help="Mean wavelength of a channel's bends.")] = 0.6,
    density: Annotated[float, typer.Option(help="Share of the area that the channels cover.")] = 0.26,
    orientation: Annotated[float, typer.Option(help="Angle of the channels to the x-axis, in degrees.")] = 0.0,
    variation: Annotated[float, typer.Option(help="How much the channels differ from each other, as a share.")] = 0.25,
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
    """Make sinuous channels in a background, without an image, and solve the flow through them."""
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
    image: Annotated[Path, typer.Option(help="Image with two or more facies: PNG, TIFF or .npy.")],
    samples: Samples = 3000,
    permeability: Annotated[
        list[float], typer.Option(help="Permeability of a facies. Repeat the option for each, from the darkest on.")
    ] = [1.0, 10.0],  # noqa: B006
    split: Annotated[
        Literal["random", "blocked"],
        typer.Option(help="random: crops for testing overlap those for training. blocked: they share no pixel."),
    ] = "random",
    blocks: Annotated[int, typer.Option(min=2, help="Number of tiles per side of a blocked split.")] = 5,
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
    """Cut random crops out of an image of facies, and solve the flow through them."""
    settings = {"image": str(image), "permeability": permeability, "split": split, "blocks": blocks}
    sides = given_sides(left, right, bottom, top)
    grid = grid_of(nx, ny, domain)
    _make(darcy.Recipe("image", samples, grid, settings, source, seed, test_share, sides=sides), out, workers)


def import_arrays(
    *,
    file: Annotated[
        Path | None,
        typer.Argument(help="Darcy flow: .npz or HDF5 with kappa (samples, ny, nx) and velocity, or .npy with kappa."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the data set.")] = Path("data/imported"),
    inputs: Annotated[
        str | None,
        typer.Option(help="Any simulator: inputs (samples, ...), as a .npy file or as FILE:NAME in .npz or HDF5."),
    ] = None,
    outputs: Annotated[
        str | None, typer.Option(help="Any simulator: the outputs for these inputs, given in the same way.")
    ] = None,
    low: Annotated[
        str | None, typer.Option(help="Any simulator: outputs of a cheaper simulator, which the surrogate corrects.")
    ] = None,
    input_layout: Annotated[
        str | None,
        typer.Option(help="Any simulator: dimensions of an input, one of v, x, cx, yx, cyx, zyx and czyx."),
    ] = None,
    output_layout: Annotated[str | None, typer.Option(help="Any simulator: dimensions of an output.")] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Take only this many samples, from the first on.")] = None,
    domain: Domain = "1x1",
    source: Source = 1.0,
    left: Side = None,
    right: Side = None,
    bottom: Side = None,
    top: Side = None,
    any_residual: Annotated[
        bool,
        typer.Option("--any-residual", help="Darcy flow: accept velocities that lose mass or contradict the sides."),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Any simulator: seed of the random split.")] = 0,
    test_share: TestShare = 0.2,
    workers: Workers = None,
) -> None:
    """Make a data set from your own arrays, either of Darcy flow (FILE) or of any simulator (--inputs and --outputs).

    For Darcy flow, velocities that are missing are computed. For any simulator, see the page about your own data.
    """
    if (file is None) == (inputs is None) or (inputs is None) != (outputs is None):
        raise ValueError("give either FILE with arrays of Darcy flow, or --inputs and --outputs of any simulator")
    sides = given_sides(left, right, bottom, top)
    flow = {**sides, "domain": domain != "1x1", "source": source != 1.0, "any-residual": any_residual}
    other = {"low": low, "input-layout": input_layout, "output-layout": output_layout}
    for name, given in (flow if file is None else other).items():
        if given not in (None, False):
            whose = "arrays of Darcy flow" if file is None else "--inputs and --outputs of any simulator"
            raise ValueError(f"--{name} is for {whose}: leave it out")
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
        sides=sides,
    )
    _make(recipe, out, workers)


def given_sides(left: str | None, right: str | None, bottom: str | None, top: str | None) -> dict[str, str]:
    """The conditions that were given, by side."""
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
    verify: Annotated[bool, typer.Option("--verify", help="Check the SHA-256 of every file.")] = False,
) -> None:
    """Print what a data set holds and how it was made."""
    samples = open_data(data)
    if verify:
        samples.verify()
    facts = samples.summary()
    if code is not None:
        best = linear_code_error(darcy.DarcyData(data), code)
        facts["linear code"] = f"of {code} numbers: e1 {100 * best:.2f} % on the test set at best"
    if verify:
        facts["files"] = "all match their SHA-256"
    print_facts(facts)


def show(
    data: DataSet,
    sample: Annotated[int, typer.Option(min=0, help="Number of the sample, from 0.")] = 0,
    out: Annotated[Path, typer.Option(help="Picture to write, a .png, .pdf or .svg file.")] = Path("sample.png"),
    force: Force = False,
) -> None:
    """Draw the permeability, the pressure and both velocity components of a sample."""
    require_new(out, overwrite=force)
    kappa, solution = darcy.DarcyData(data).sample(sample)
    figure = darcy.sample_figure(kappa, solution, f"{data.name}, sample {sample}")
    write_new(out, _rendered(figure, out), overwrite=force)
    print(out)


def convert(
    data: DataSet,
    out: Annotated[Path, typer.Option(help="File to write: .npz for all arrays, .vti for one sample in ParaView.")],
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
    """Generate a data set. After SIGTERM or Ctrl-C, the files that are being made are finished first."""
    with stoppable(recipe.samples, "sample", out) as report:
        data = darcy.generate(recipe, out, workers=workers, progress=report)
    print(f"{len(data)} samples in {out}")


def _rendered(figure: Any, out: Path) -> bytes:
    """The bytes of a figure in the format that the name of its file asks for."""
    if out.suffix not in (".png", ".pdf", ".svg"):
        raise ValueError(f"--out must end in .png, .pdf or .svg, got {out}")
    buffer = io.BytesIO()
    figure.savefig(buffer, format=out.suffix[1:], dpi=150)
    return buffer.getvalue()
