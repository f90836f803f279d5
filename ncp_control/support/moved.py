"""Modules that have moved can be imported by their old names for one version, with a warning that gives the new name.

Files that Stable-Baselines3 or `torch.save` wrote name classes by their modules, so these files need the old names too.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

# Old names and new names within ncp_control, as of version 0.2: of documented modules, and of those that define what
# users import or files name.
MOVED = {
    "activity.ablate": "activity.recording.ablate",
    "activity.episode": "activity.recording.activity",
    "cells.baselines": "cells",
    "data.controllers": "data.batch_policies",
    "dynamics.lagged": "cells.lagged",
    "ops.cpu_op": "ops.operator",
    "rl.circuit": "rl.policies.circuit",
    "rl.elapsed": "rl.policies.elapsed",
    "rl.extractor": "rl.policies.extractor",
    "rl.off_policy_policies": "rl.policies.sequence",
    "rl.policy_file": "rl.files.policy_file",
    "rl.recipe": "rl.recipes.recipe",
    "rl.recurrent": "rl.on_policy",
    "rl.replay": "rl.buffers.replay",
    "rl.sequences": "rl.buffers.rollout",
    "rl.watch": "rl.circuit_log",
    "safe_file": "storage.safe_tensors",
    "wiring.plans": "wiring",
}


class MovedModules(MetaPathFinder, Loader):
    """Finds and loads modules by their old names; the last finder, it is asked only for modules that do not exist."""

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
