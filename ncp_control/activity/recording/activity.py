"""One recorded rollout in one `.npz` that explains itself: views read this file and nothing else.

Every array has a row for each step t: the observation o_t was read, the circuit's state moved, an action was chosen and
a reward came of it; the body is drawn as it was when o_t was seen. The entry `about` is JSON text::

    format, version, package   "ncp_control.activity", 1, the version that wrote it
    kind                       "policy", "model" (of dynamics) or "network"
    cell                       the cell's class and settings
    env, controller, seeds     where, who, and the seeds of the episodes' resets; null where there are none
    dt                         seconds between two steps, or null
    observation_names, action_names
    silenced                   neurons and synapses that were held, in words
    note                       anything else

and `wiring` the wiring as JSON text. Loading unpickles nothing.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ncp_control._version import __version__
from ncp_control.storage.safe_arrays import ArraysError, read_arrays
from ncp_control.wiring import Wiring

Array = NDArray[Any]
FORMAT, VERSION = "ncp_control.activity", 1
# Without a row for each step.
FIXED = ("state_bounds", "time_constant_bounds", "body_radii", "saliency")
NEEDED = ("observations", "inputs", "neurons", "time_constants", "sensory_currents", "currents", "gap_currents",
          "outputs", "episode_starts", "state_bounds", "time_constant_bounds")  # fmt: skip
OPTIONAL = ("states", "actions", "rewards", "values", "is_random", "executed_actions", "elapsed", "predictions",
            "body_ends", "body_radii", "saliency")  # fmt: skip
LISTS = ("seeds", "observation_names", "action_names", "silenced")


class ActivityError(ValueError):
    """A file that is not a recorded rollout, or no longer the one that was written."""


@dataclass(frozen=True)
class Activity:
    """A recorded rollout of T steps, of a circuit with I inputs, N neurons, S sensory and E other synapses.

    :param about: see the module
    :param wiring: its layers, names and synapses
    :param observations: (T, n), as the environment has them
    :param inputs: (T, I), as the circuit reads them
    :param neurons: (T, N), every neuron's state after the step
    :param time_constants: (T, N), in units of elapsed time
    :param sensory_currents: (T, S), what each sensory synapse contributes to its target, in the wiring's order
    :param currents: (T, E), the same of the other synapses
    :param gap_currents: (T, G), into the first of each gap junction's neurons
    :param outputs: (T, O), the motor neurons' outputs
    :param episode_starts: (T,) bool, an episode begins here
    :param state_bounds: (2, N), what no neuron can pass
    :param time_constant_bounds: (2, N)
    :param extras: what only some have: `states` (T, M), of cells with more state than one number a neuron; `actions`
        (T, m) and `executed_actions`, where a wrapper changed them; `rewards`, `values` (T,), `is_random` (T,) bool,
        `elapsed` (T,), `predictions` (T, n) of a model, `body_ends` (T, K, 2, 2), x and z of both ends of K capsules,
        with `body_radii` (K,), and `saliency` (N, I), how much a neuron's next state changes with an input
    """

    about: dict[str, Any]
    wiring: Wiring
    observations: Array
    inputs: Array
    neurons: Array
    time_constants: Array
    sensory_currents: Array
    currents: Array
    gap_currents: Array
    outputs: Array
    episode_starts: Array
    state_bounds: Array
    time_constant_bounds: Array
    extras: dict[str, Array] = field(default_factory=dict)

    def __repr__(self) -> str:
        kind, env = self.about.get("kind", "network"), self.about.get("env")
        where = f" in {env}" if env else ""
        synapses = len(self.wiring.synapses) + len(self.wiring.sensory)
        size = f"{self.steps} steps, {self.wiring.units} neurons, {synapses} synapses"
        return f"Activity({kind}{where}: {size}; also {', '.join(self.extras) or 'nothing'})"

    @property
    def steps(self) -> int:
        """How many steps were recorded."""
        return len(self.neurons)

    def get(self, name: str) -> Array | None:
        """One of the extras, or None."""
        return self.extras.get(name)

    @classmethod
    def load(cls, path: str | Path) -> Activity:
        """Reads what a `Writer` wrote."""
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"there is no recorded rollout at {path}")
        try:
            arrays = read_arrays(path, ("about", "wiring", *NEEDED, *OPTIONAL))
        except ArraysError as error:
            raise ActivityError(str(error)) from error
        try:
            about, wiring = json.loads(str(arrays.pop("about"))), Wiring.from_json(str(arrays.pop("wiring")))
        except (KeyError, ValueError, RecursionError) as error:
            raise ActivityError(f"{path} is no recorded rollout: it does not say what it is of") from error
        if not isinstance(about, dict) or about.get("format") != FORMAT:
            raise ActivityError(f"{path} was not written by ncp-control record")
        if about.get("version") != VERSION:
            raise ActivityError(
                f"{path} has version {about.get('version')}, this package reads {VERSION}: use the version of "
                "ncp-control that wrote it, or a newer one"
            )
        for key in LISTS:
            if not isinstance(about.get(key, []), list):
                raise ActivityError(f"{path}: {key} is {about[key]!r}, not a list: it was altered")
        missing = [name for name in NEEDED if name not in arrays]
        if missing:
            raise ActivityError(f"{path} lacks {', '.join(missing)}: it was altered")
        needed = {name: arrays[name] for name in NEEDED}
        extras = {name: arrays[name] for name in OPTIONAL if name in arrays}
        found = cls(about, wiring, **needed, extras=extras)
        found.check(path)
        return found

    def check(self, path: Path) -> None:
        """Refuses arrays that do not go together."""
        arrays = {**{name: getattr(self, name) for name in NEEDED}, **self.extras}
        for name, values in arrays.items():
            if values.ndim == 0 or values.dtype.kind not in "biuf":
                raise ActivityError(f"{path}: {name} holds no rows of numbers: it was altered")
        wiring, steps = self.wiring, self.steps
        shapes = {
            "inputs": (steps, wiring.inputs), "neurons": (steps, wiring.units), "time_constants": (steps, wiring.units),
            "sensory_currents": (steps, len(wiring.sensory)), "currents": (steps, len(wiring.synapses)),
            "gap_currents": (steps, len(wiring.gap_junctions)), "outputs": (steps, wiring.outputs),
            "state_bounds": (2, wiring.units), "time_constant_bounds": (2, wiring.units),
            **dict.fromkeys(("episode_starts", "rewards", "values", "is_random", "elapsed"), (steps,)),
            "saliency": (wiring.units, wiring.inputs),
        }  # fmt: skip
        for name, shape in shapes.items():
            if name in arrays and arrays[name].shape != shape:
                found = arrays[name].shape
                raise ActivityError(f"{path}: {name} should have shape {shape}, not {found}: it was altered")
        for name, values in arrays.items():
            if name not in FIXED and len(values) != steps:
                raise ActivityError(f"{path}: {name} should have {steps} rows, not {len(values)}: it was altered")


class Writer:
    """Writes a recorded rollout chunk by chunk, so that a long one is never in memory as a whole.

    Nothing is at `path` until the end of the `with` block; an error within leaves nothing behind. A KeyboardInterrupt
    does: what was recorded until then is a rollout too.

    :param path: the `.npz`; replaced whole if it exists
    :param about: see the module; format, version and package are filled in
    """

    def __init__(self, path: str | Path, about: Mapping[str, Any], wiring: Wiring) -> None:
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"the folder {self.path.parent} does not exist: create it first")
        if self.path.is_dir():
            raise IsADirectoryError(f"{self.path} is a folder: name a file")
        self.about = {"format": FORMAT, "version": VERSION, "package": __version__, **about}
        self.wiring = wiring
        self.steps = 0
        self._shapes: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
        self._fixed: dict[str, Array] = {}
        self._folder = Path(tempfile.mkdtemp(prefix=f".{self.path.name}.", dir=self.path.parent))

    def __enter__(self) -> Writer:
        return self

    def append(self, **arrays: Array) -> None:
        """Rows for the next steps, of every array the same number; the first call settles which there are."""
        steps = {len(values) for values in arrays.values()}
        if len(steps) != 1 or (self._shapes and set(arrays) != set(self._shapes)):
            raise ValueError("every chunk of a recording has the same arrays, and as many rows of each")
        for name, values in arrays.items():
            kind = np.dtype(bool) if values.dtype == bool else np.dtype(np.float32)
            self._shapes.setdefault(name, (values.shape[1:], kind))
            with (self._folder / name).open("ab") as file:
                file.write(np.ascontiguousarray(values, dtype=kind).tobytes())
        self.steps += steps.pop()

    def fix(self, **arrays: Array) -> None:
        """Arrays without a row for each step."""
        self._fixed |= {name: np.asarray(values, np.float32) for name, values in arrays.items()}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.steps and (kind is None or issubclass(kind, KeyboardInterrupt)):
                self._finish()
                if kind is not None:
                    print(f"\ninterrupted: {self.steps:,} steps are kept in {self.path}", file=sys.stderr)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _finish(self) -> None:
        """The file, under a temporary name and then its own."""
        temporary = self._folder / "whole.npz"
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as file:
            for name, text in (("about", json.dumps(self.about)), ("wiring", self.wiring.to_json())):
                self._write(file, name, np.array(text))
            for name, values in self._fixed.items():
                self._write(file, name, values)
            for name, (shape, kind) in self._shapes.items():
                header = {"descr": npy.dtype_to_descr(kind), "fortran_order": False, "shape": (self.steps, *shape)}
                with (
                    file.open(f"{name}.npy", "w", force_zip64=True) as member,
                    (self._folder / name).open("rb") as rows,
                ):
                    npy.write_array_header_1_0(member, header)
                    shutil.copyfileobj(rows, member)
        with temporary.open("rb+") as whole:
            os.fsync(whole.fileno())
        temporary.replace(self.path)

    @staticmethod
    def _write(file: zipfile.ZipFile, name: str, values: Array) -> None:
        buffer = io.BytesIO()
        npy.write_array(buffer, values, allow_pickle=False)
        file.writestr(f"{name}.npy", buffer.getvalue())
