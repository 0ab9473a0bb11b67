"""The command ``sparse-langevin``, also ``python -m sparse_langevin``; it comes with the extra ``surrogates``."""

import sys
from signal import SIG_DFL, SIG_IGN, SIGINT, SIGTERM, signal

# This module is imported to be run. Signals are answered before anything else is loaded, and until then they end the
# program without a word.
signal(SIGINT, SIG_DFL)

from sparse_langevin.runtime.interrupts import answer_signals

answer_signals(at_once=True)

from sparse_langevin.runtime.extras import MissingExtraError, expect_surrogates


def main() -> None:
    """Run the command, or say in one line which extra it lacks."""
    try:
        expect_surrogates("the command sparse-langevin")
    except MissingExtraError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    from sparse_langevin.cli import main as command

    try:
        command(answer_signals())
    finally:
        for number in (SIGINT, SIGTERM):  # all is said: a signal would only change the exit code
            signal(number, SIG_IGN)


if __name__ == "__main__":
    main()
