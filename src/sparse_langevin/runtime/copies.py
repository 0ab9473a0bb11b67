"""Functions for other processes: also lambdas, closures, and what a script or a notebook has defined.

Python's own pickle sends a function as a name, which only works for those that can be imported. Those that cannot are
sent as their code, with the values that they refer to. The bytes go from one process to another, never into a file.
"""

from typing import Any

import cloudpickle


def pack(things: object, names: str) -> bytes:
    """Return bytes from which another process can make a copy; ``names`` says in an error what could not be copied."""
    try:
        data: bytes = cloudpickle.dumps(things)
    except Exception as error:  # of the objects' own making
        raise ValueError(
            f"{names} are copied into other processes, but something that they refer to cannot be "
            f"({type(error).__name__}: {error}): make it inside the functions, or use workers=0, which does all of the "
            "work in this process"
        ) from error
    return data


def unpack(data: bytes) -> Any:
    """Return the copy."""
    return cloudpickle.loads(data)
