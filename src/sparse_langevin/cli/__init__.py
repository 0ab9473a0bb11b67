"""The command ``sparse-langevin``. Its parts are thin: the work is done by functions of the library."""

import io
import logging
import re
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import version
from signal import SIGINT
from typing import Annotated, Any, NoReturn

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


# The errors of click, of which some versions of typer have a copy of their own.
ClickError: Any = typer.BadParameter.__mro__[2]


class State:
    """What is set for one call of the command."""

    debug = False


def main(interrupted: Callable[[], Interrupted | None] = lambda: None) -> None:
    """Run the command. Bad input ends it with one line on standard error and exit code 2, without a traceback.

    ``interrupted`` says whether a signal has asked the program to stop, see `answer_signals`.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name that is no text in this locale is no reason to fail
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        sys.exit(app(standalone_mode=False))
    except Interrupted as stop:
        _tell(stop)
        raise
    except KeyboardInterrupt:  # a second Ctrl-C, while the first is being answered
        _tell(again := Interrupted(SIGINT))
        raise again from None
    except Exception as error:
        if (stopped := interrupted()) is not None:  # a library has made another error of it
            _tell(stopped)
            raise stopped from None
        _explain(error)


def _tell(stop: Interrupted) -> None:
    if not stop.told:
        print(stop, file=sys.stderr)


def _explain(error: Exception) -> NoReturn:
    """End with one line about an error that a user can mend; others keep their traceback."""
    if isinstance(error, ClickError):
        _correct(error)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        _end(error, f"{where}{error.strerror or error}")
    if isinstance(error, ValueError | StorageError | FloatingPointError | MissingExtraError):
        _end(error, str(error))
    if isinstance(error, MemoryError):
        _end(error, f"there is not enough memory: {error or 'use smaller arrays'}")
    raise error


def _correct(error: Any) -> NoReturn:
    """End with one line about arguments that the command does not have or take; without any, with its help."""
    message = error.format_message().replace("Value error, ", "").strip().rstrip(".")
    if type(error).__name__ == "NoArgsIsHelpError":  # with rich, the help was printed while the error was made
        print(message)
        sys.exit(error.exit_code)
    seen = [repr(it["input"]) for it in getattr(error.__cause__, "errors", list)()]  # by pydantic
    value = f", got {seen[0]}" if seen and seen[0] not in message else ""
    path = error.ctx.command_path if getattr(error, "ctx", None) is not None else "sparse-langevin"
    _end(error, f"{message[:1].lower()}{message[1:]}{value}: see {path} --help")


def _end(error: Exception, message: str) -> NoReturn:
    """Print one line, and one for each note of the error, and exit.

    With --debug raise the error, as what looks like bad input may be a bug of ours.
    """
    if State.debug:
        raise error
    print("error: " + _one_line(message), file=sys.stderr)
    for note in getattr(error, "__notes__", ()):
        print("  " + _one_line(note), file=sys.stderr)
    sys.exit(2)


def _one_line(text: str) -> str:
    """Return text in one line; what is not to be seen, as in the name of a file, is escaped."""
    line = re.sub(r"\s*\n\s*", " ", text.strip())
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
