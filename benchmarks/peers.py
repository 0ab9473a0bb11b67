"""Other people's libraries: found if they are installed, left out with a line of print if not."""

import importlib
import warnings
from types import ModuleType


def find(name: str) -> ModuleType | None:
    """Import the module ``name``, or say that it is left out."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about their own dependencies
            return importlib.import_module(name)
    except ImportError as error:
        print(f"{name} is left out: {error}")
        return None
