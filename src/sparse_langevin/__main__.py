"""The command ``sparse-langevin``, also ``python -m sparse_langevin``; it comes with the extra ``surrogates``."""

import sys

from sparse_langevin.runtime.extras import MissingExtraError, expect_surrogates


def main() -> None:
    """Run the command, or say in one line which extra it lacks."""
    try:
        expect_surrogates("the command sparse-langevin")
    except MissingExtraError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    from sparse_langevin.cli import main as command

    command()


if __name__ == "__main__":
    main()
