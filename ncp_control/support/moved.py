"""Modules that have moved can be imported by their old names for one version, with a warning that gives the new name.

Files that Stable-Baselines3 saved name the classes in them by their modules, so these files need the old names too.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

# Old name, new name, both within ncp_control: moved in version 0.2.
MOVED = {
    "activity.ablate": "activity.recording.ablate",
    "activity.currents": "activity.recording.currents",
    "activity.episode": "activity.recording.activity",
    "activity.taps": "activity.recording.tap",
    "data.plan": "data.collection",
    "descriptions": "storage.descriptions",
    "devices": "support.devices",
    "files": "storage.atomic_writes",
    "lazy": "support.lazy",
    "liveliness": "support.liveliness",
    "ops.cpu_gated": "ops.cpu.gated",
    "ops.cpu_kernels": "ops.cpu.launch",
    "ops.cpu_library": "ops.cpu.library",
    "ops.cpu_op": "ops.operator",
    "ops.gpu_affine": "ops.gpu.affine",
    "ops.gpu_cfc": "ops.gpu.cfc",
    "ops.gpu_ltc": "ops.gpu.ltc",
    "ops.programs": "ops.program",
    "packing": "storage.packing",
    "pictures": "support.pictures",
    "processes": "support.processes",
    "progress": "support.progress",
    "rl.argument_names": "rl.policies.argument_names",
    "rl.building": "rl.recipes.building",
    "rl.card": "rl.files.card",
    "rl.circuit": "rl.policies.circuit",
    "rl.elapsed": "rl.policies.elapsed",
    "rl.extractor": "rl.policies.extractor",
    "rl.handed_over": "rl.policies.predict_checks",
    "rl.learning_rates": "rl.policies.learning_rates",
    "rl.off_policy_policies": "rl.policies.sequence",
    "rl.plain_yaml": "rl.recipes.plain_yaml",
    "rl.policy_file": "rl.files.policy_file",
    "rl.recipe": "rl.recipes.recipe",
    "rl.recurrent": "rl.on_policy",
    "rl.replay": "rl.buffers.replay",
    "rl.run_state": "rl.files.run_state",
    "rl.sequences": "rl.buffers.rollout",
    "rl.space_json": "rl.files.space_json",
    "rl.watch": "rl.circuit_log",
    "run_folder": "storage.run_folder",
    "safe_arrays": "storage.safe_arrays",
    "safe_file": "storage.safe_tensors",
    "timing": "support.timing",
}


class MovedModules(MetaPathFinder):
    """Finds a module by its old name. It stands last in `sys.meta_path`, so it is asked only for what is not there."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The specification of a module that has moved, or None."""
        package, _, old = fullname.partition(".")
        if package != "ncp_control" or old not in MOVED:
            return None
        return ModuleSpec(fullname, _LoadedElsewhere(f"ncp_control.{MOVED[old]}"))


class _LoadedElsewhere(Loader):
    """Puts the module of the new name in the place of the old one."""

    def __init__(self, new_name: str) -> None:
        self.new_name = new_name

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        warnings.warn(f"{name} is now {self.new_name}; the old name goes with 0.3", DeprecationWarning, stacklevel=2)
        sys.modules[name] = importlib.import_module(self.new_name)
