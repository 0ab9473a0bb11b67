"""The command ``sparse-langevin``. Its parts are thin: the work is done by functions of the library."""

import logging
import sys
import warnings
from importlib.metadata import version
from typing import Annotated, NoReturn

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
for _command in (
    data.info,
    data.show,
    data.convert,
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
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    State.debug = debug
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    warnings.showwarning = lambda message, *where: print(f"warning: {message}", file=sys.stderr)


class State:
    """What is set for one call of the command."""

    debug = False


def main() -> None:
    """Run the command. Bad input ends it with one line on standard error and exit code 2, without a traceback."""
    try:
        app()
    except Interrupted as stop:
        if not stop.told:
            print(stop, file=sys.stderr)
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _end(error, f"{where}{error.strerror or error}")
    except (ValueError, StorageError, FloatingPointError, MissingExtraError) as error:
        _end(error, str(error))


def _end(error: Exception, message: str) -> NoReturn:
    """Print one line and exit; with --debug raise the error, as what looks like bad input may be a bug of ours."""
    if State.debug:
        raise error
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)
