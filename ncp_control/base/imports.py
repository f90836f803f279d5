"""Imports: modules of a user, names that a package imports on first use, and modules that have moved.

A module that has moved can be imported by its old name for one version, with a warning that gives the new name. Files
that Stable-Baselines3 or `torch.save` wrote name classes by their modules, so these files need the old names too.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any


def search_working_folder() -> None:
    """Lets Python find modules in the working folder too, after all other places."""
    here = str(Path.cwd())
    if not {"", here} & set(sys.path):
        sys.path.append(here)


def import_module_of(module: str, role: str, lost: str) -> ModuleType:
    """Imports a module; the working folder is searched too, after all other places.

    :param module: the module
    :param role: what it does, for messages, such as "registers 'my/Env-v0'"
    :param lost: what the user cannot have without the module, such as "environment 'my:my/Env-v0'"
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


def import_named(module: str, name: str, what: str) -> Any:
    """Imports what has a name in a module; the working folder is searched too, after all other places.

    :param module: the module
    :param name: the name, also of a member of a member, such as "Teachers.best"
    :param what: what it should be, for messages, such as "teacher"
    """
    member: Any = import_module_of(module, f"has the {what} {name!r}", f"{what} {module}:{name}")
    for part in name.split("."):
        if not hasattr(member, part):
            raise ValueError(f"there is no {what} {module}:{name}, because {module} has no {name!r}: correct the name")
        member = getattr(member, part)
    return member


def names_of(package: str, homes: Mapping[str, Iterable[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns the functions `__getattr__` and `__dir__` of a package (PEP 562).

    :param package: the package's `__name__`
    :param homes: the package's modules, with the public names that each defines
    """
    module_of = {name: module for module, names in homes.items() for name in names}

    def getattribute(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(module_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted(sys.modules[package].__all__)

    return getattribute, names


# Old names and new names within ncp_control, as of version 0.2.0: of modules that define what files name.
MOVED = {
    "cells": "neurons",
    "cells.affine": "neurons.affine.neuron",
    "cells.base": "neurons.base",
    "cells.cfc": "neurons.cfc.neuron",
    "cells.ct_gru": "neurons.ct_gru.neuron",
    "cells.ctrnn": "neurons.affine.ctrnn",
    "cells.dual_ltc": "neurons.dual.neuron",
    "cells.gated": "neurons.gated.neuron",
    "cells.gru": "neurons.gated.neuron",
    "cells.held": "neurons.held",
    "cells.lagged": "neurons.lagged.neuron",
    "cells.layered": "neurons.layered.neuron",
    "cells.lstm": "neurons.gated.neuron",
    "cells.ltc": "neurons.ltc.neuron",
    "cells.mixed_memory": "neurons.mixed.neuron",
    "cells.named": "neurons.named",
    "cells.neural_ltc": "neurons.affine.neural_ltc",
    "cells.neural_ode": "neurons.affine.neural_ode",
    "cells.ode": "neurons.ode",
    "cells.program_form": "neurons.program_form",
    "rl.recipes.rules": "base.values",
    "wiring.fully_connected": "wiring.plan",
    "wiring.gap_junctions": "wiring.plan",
    "wiring.random_synapses": "wiring.plan",
}


# The packages of the neurons that compiled backends run, by the kinds of their programs. The package's root fills it
# from the catalogue of neurons, which stands above the scan.
KERNELS: dict[str, str] = {}


class MovedModules(MetaPathFinder, Loader):
    """Finds and loads modules by their old names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the specification of a module that has moved, or None for any other name."""
        package, _, old = fullname.partition(".")
        return ModuleSpec(fullname, self) if package == "ncp_control" and old in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        """Warns at the line that imports the old name, and puts the module of the new name in its place."""
        old = module.__name__
        new = f"ncp_control.{MOVED[old.removeprefix('ncp_control.')]}"
        warnings.warn(f"{old} is now {new}; the old name will go with 0.3", DeprecationWarning, stacklevel=2)
        sys.modules[old] = importlib.import_module(new)
