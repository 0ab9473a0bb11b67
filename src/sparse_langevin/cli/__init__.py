"""The command ``sparse-langevin``: thin, each command calls one function of the library."""

import logging
import sys
import warnings
from importlib.metadata import version
from typing import Annotated

import typer

from sparse_langevin.cli import data, surrogate
from sparse_langevin.cli.demo import demo
from sparse_langevin.cli.reproduce import reproduce
from sparse_langevin.cli.select import select
from sparse_langevin.runtime.extras import MissingExtraError
from sparse_langevin.runtime.interrupts import Interrupted
from sparse_langevin.storage.errors import StorageError

app = typer.Typer(
    help="Bayesian sparse learning with preconditioned stochastic gradient MCMC.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data.generate, name="generate")
app.command("import")(data.import_arrays)
app.command("info")(data.info)
app.command("show")(data.show)
app.command("convert")(data.convert)
for _command in (
    demo,
    surrogate.train,
    surrogate.evaluate,
    surrogate.predict,
    surrogate.report,
    surrogate.export,
    select,
):
    app.command(_command.__name__)(_command)
app.add_typer(reproduce, name="reproduce")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(version("sparse-langevin"))
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    warnings.showwarning = lambda message, *where: print(f"warning: {message}", file=sys.stderr)


def main() -> None:
    """Run the command; bad input ends with one line on standard error and exit code 2, not with a traceback."""
    try:
        app()
    except Interrupted as stop:
        if not stop.told:
            print(stop, file=sys.stderr)
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"error: {where}{error.strerror or error}", file=sys.stderr)
        sys.exit(2)
    except (ValueError, StorageError, FloatingPointError, MissingExtraError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
