"""Importing a user's own module, which may be in the working folder."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType


def search_working_folder() -> None:
    """Lets Python find modules in the working folder too, after all other places."""
    here = str(Path.cwd())
    if not {"", here} & set(sys.path):
        sys.path.append(here)


def import_module_of(module: str, role: str, lost: str) -> ModuleType:
    """Imports a module; the working folder is searched too, after all other places.

    :param module: the module
    :param role: what it does, for messages, such as "registers 'my/Env-v0'"
    :param lost: what there is not if there is no such module, such as "environment 'my:my/Env-v0'"
    """
    search_working_folder()
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise ValueError(f"{module}, which {role}, cannot be imported: {error}") from error
        raise ValueError(
            f"there is no {lost}, because there is no module {error.name!r}: run this in the folder of "
            f"{error.name}.py, or set PYTHONPATH to that folder"
        ) from error
    except (ImportError, SyntaxError, ValueError, TypeError) as error:
        raise ValueError(f"{module}, which {role}, cannot be imported: {error}") from error
