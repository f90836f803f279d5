"""One recorded rollout in one `.npz` file that describes itself: views read this file and nothing else.

Every array has a row for each step t. In step t the agent read the observation o_t, the circuit's state changed, an
action was chosen and a reward was received. The body's pose is the one at the time of o_t. The entry `about` is JSON
text::

    format, version, package   "ncp_control.activity", 1, the version that wrote it
    kind                       "policy", "model" (of dynamics) or "network"
    cell                       the cell's class and settings
    env, controller, seeds     where, who, and the seeds of the episodes' resets; null where there are none
    dt                         seconds between two steps, or null
    observation_names, action_names
    input_names                what each input of the circuit is, where that is known
    choice_names               what each choice of a discrete action is, where the environment names them
    silenced                   neurons that were held and synapses that were cut, in words
    after                      how many steps were recorded before, where this recording continues another one
    body                       null without a body, or whether it is seen from the "side" (so at first) or from
                               "above" (seen_from), whether it stays in the plane that is seen from there (flat), and
                               the height of the ground in metres, or null (ground)
    pictures                   height and width of the environment's own pictures (size), or why there are none (reason)
    note                       anything else

and `wiring` is the wiring as JSON text. Loading unpickles nothing.

A recording of a model of dynamics also holds what the model predicts open loop, from many steps: row i of
`continuations` begins at step `continuation_starts[i]`, the first one that the model has not seen, after it has read
all observations before. Rows end with NaN where the recording ends.

NaN in the currents or in the time constants means that the cell does not know them.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncp_control.base.safe_arrays import ArraysError, read_arrays
from ncp_control.wiring import Wiring

Array = NDArray[Any]
FORMAT, VERSION = "ncp_control.activity", 1
# Arrays without a row for each step.
CONTINUED = ("continuation_starts", "continuations", "continuation_errors", "continuation_ends")
ENDS = ("end_body", "end_observation", "end_memory")  # from where a recording can be continued
FIXED = ("state_bounds", "time_constant_bounds", "body_radii", "body_shapes", "saliency", "pictures", *CONTINUED,
         *ENDS)  # fmt: skip
NEEDED = ("observations", "inputs", "neurons", "time_constants", "sensory_currents", "currents", "gap_currents",
          "outputs", "episode_starts", "state_bounds", "time_constant_bounds")  # fmt: skip
OPTIONAL = ("states", "actions", "rewards", "values", "is_random", "executed_actions", "elapsed", "predictions",
            "body_ends", "body_radii", "body_places", "body_shapes", "saliency", "real_observations", "pictures",
            "picture_sizes", "new_trial", "gt", "performance", *CONTINUED, *ENDS)  # fmt: skip
# Each column of a page has a name and limits, which take more memory than a row of compressed numbers.
FEW_COLUMNS = 10_000
LISTS = ("seeds", "observation_names", "action_names", "input_names", "choice_names", "silenced")


class ActivityError(ValueError):
    """A file that is not a recorded rollout, or that was changed after it was written."""


@dataclass(frozen=True)
class Activity:
    """A recorded rollout of T steps of a circuit with I inputs, N neurons, S sensory synapses and E other synapses.

    :param about: what was recorded (see the module)
    :param wiring: the circuit's layers, names and synapses
    :param observations: (T, n), as the environment returned them
    :param inputs: (T, I), as the circuit read them
    :param neurons: (T, N), every neuron's state after the step
    :param time_constants: (T, N), in units of elapsed time
    :param sensory_currents: (T, S), what each sensory synapse contributes to its target, in the wiring's order
    :param currents: (T, E), what each other synapse contributes to its target
    :param gap_currents: (T, G), the current into the first neuron of each gap junction
    :param outputs: (T, O), the motor neurons' outputs
    :param episode_starts: (T,) bool, whether an episode begins at the step
    :param state_bounds: (2, N), the least and the greatest state that each neuron can have
    :param time_constant_bounds: (2, N)
    :param extras: arrays that only some recordings have: `states` (T, M), of cells with more state than one number a
        neuron; `actions` (T, m), and `executed_actions` (T, m) where a wrapper changed them; `rewards` and `values`
        (T,); `is_random` (T,) bool; `elapsed` (T,); of environments
        with trials `new_trial` (T,) bool, whether a trial ended with the step, `gt` (T, ...), the right action, and
        `performance` (T,), how right the trial was, NaN before its end;
        `predictions` (T, n) of a model; `body_ends` (T, K, 2, 2), x and z
        of both ends of K capsules, or x and y of a body that is seen from above, with their radii `body_radii` (K,);
        `body_places` (T, K, 7), the positions in space and the orientations (quaternions) of K pieces of geometry, with
        their MuJoCo types, sizes and colours `body_shapes` (K, 8); `saliency` (N, I), how much a neuron's next state
        changes with an input; `pictures` (B,) uint8, what the environment drew before each step, one after the other,
        each compressed by zlib to `picture_sizes` (T,) bytes; `real_observations` (T, n), where a model read its own
        predictions instead; and from S steps `continuation_starts` (S,) on, H steps each, `continuations` (S, H, n),
        their `continuation_errors` (S, H) and the bodies in them, `continuation_ends` (S, H, K, 2, 2). In float64,
        where the recording ended within an episode: `end_body`, the body's state and the number of the episode's steps,
        `end_observation` (n,), what the agent read next, and `end_memory` (k, M), what its `predict` gave last
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
        synapses = self.wiring.existing_synapses
        size = f"{self.steps} steps, {self.wiring.units} neurons, {synapses} synapses"
        return f"Activity({kind}{where}: {size}; also {', '.join(self.extras) or 'nothing'})"

    @property
    def steps(self) -> int:
        """How many steps were recorded."""
        return len(self.neurons)

    @property
    def real_observations(self) -> Array:
        """What was observed, (T, n), also where a model did not look."""
        return self.extras.get("real_observations", self.observations)

    @property
    def episodes(self) -> list[slice]:
        """The steps of each episode; the first may lack its beginning and the last its end."""
        edges = np.unique([0, *np.flatnonzero(self.episode_starts), self.steps])
        return [slice(int(start), int(stop)) for start, stop in itertools.pairwise(edges)]

    @property
    def seconds_per_step(self) -> float | None:
        """How long a step takes, or None if the recording does not say."""
        dt = self.about.get("dt")
        known = isinstance(dt, int | float) and not isinstance(dt, bool) and np.isfinite(dt) and dt > 0
        return float(dt) if known and dt is not None else None

    @property
    def currents_are_known(self) -> bool:
        """Whether the cell knew its currents. Where it did not, they are all NaN."""
        return not any(map(_all_nan, (self.sensory_currents, self.currents, self.gap_currents)))

    @property
    def time_constants_are_known(self) -> bool:
        """Whether the cell knew any neuron's time constants."""
        return not _all_nan(self.time_constants)

    @property
    def known_time_constants(self) -> NDArray[np.bool_]:
        """Whether the cell knew each neuron's time constants, (N,). Where it did not, they are all NaN."""
        return np.asarray(~np.isnan(self.time_constants).all(axis=0))

    def get(self, name: str) -> Array | None:
        """The array of this name from `extras`, or None."""
        return self.extras.get(name)

    @classmethod
    def load(cls, path: str | Path) -> Activity:
        """Reads a file that `record` or `ncp-control record` wrote."""
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
            raise ActivityError(f"{path} is not a recorded rollout: it lacks a readable description") from error
        if not isinstance(about, dict) or about.get("format") != FORMAT:
            raise ActivityError(f"{path} was not written by ncp-control record")
        if about.get("version") != VERSION:
            raise ActivityError(
                f"{path} has format version {about.get('version')}, but this package reads version {VERSION}: use the "
                "version of ncp-control that wrote the file, or a newer one"
            )
        for key in LISTS:
            if not isinstance(about.get(key, []), list):
                raise ActivityError(f"{path}: {key} is {about[key]!r}, not a list: the file was altered")
        missing = [name for name in NEEDED if name not in arrays]
        if missing:
            raise ActivityError(f"{path} lacks {', '.join(missing)}: the file was altered")
        # Other programs may have written whole numbers, in which nothing can be computed.
        arrays = {
            name: own.astype(np.float32) if own.dtype.kind in "iu" and name != "pictures" else own
            for name, own in arrays.items()
        }
        needed = {name: arrays[name] for name in NEEDED}
        extras = {name: arrays[name] for name in OPTIONAL if name in arrays}
        activity = cls(about, wiring, **needed, extras=extras)
        activity.check(path)
        return activity

    def check(self, path: Path) -> None:
        """Refuses arrays whose shapes do not fit together."""
        arrays = {**{name: getattr(self, name) for name in NEEDED}, **self.extras}
        for name, values in arrays.items():
            if values.ndim == 0 or values.dtype.kind not in "biuf":
                raise ActivityError(f"{path}: {name} does not hold rows of numbers: the file was altered")
        # A row of these is a piece of the body, which is drawn like a column of the others.
        pieces = ("body_radii", "body_shapes")
        columns = sum(prod(values.shape[name not in pieces :]) for name, values in arrays.items())
        most = max(FEW_COLUMNS, path.stat().st_size)
        if columns > most:
            raise ActivityError(
                f"{path}: its arrays have {columns:,} columns, and those of a file of this size may have {most:,}: "
                "the file was altered"
            )
        wiring, steps = self.wiring, self.steps
        shapes = {
            "inputs": (steps, wiring.inputs), "neurons": (steps, wiring.units), "time_constants": (steps, wiring.units),
            "sensory_currents": (steps, len(wiring.sensory)), "currents": (steps, len(wiring.synapses)),
            "gap_currents": (steps, len(wiring.gap_junctions)), "outputs": (steps, wiring.outputs),
            "state_bounds": (2, wiring.units), "time_constant_bounds": (2, wiring.units),
            **dict.fromkeys(("episode_starts", "rewards", "values", "is_random", "elapsed", "picture_sizes"), (steps,)),
            **dict.fromkeys(("new_trial", "performance"), (steps,)),
            "pictures": (int(np.nan_to_num(self.extras.get("picture_sizes", np.zeros(1))).sum(dtype=np.float64)),),
            "saliency": (wiring.units, wiring.inputs),
            "body_ends": (steps, len(self.extras.get("body_radii", ())), 2, 2),
            "body_places": (steps, len(self.extras.get("body_shapes", ())), 7),
            "body_shapes": (len(self.extras.get("body_shapes", ())), 8),
            "real_observations": self.observations.shape,
            **self._continued_shapes(), **self._end_shapes(),
        }  # fmt: skip
        for name, shape in shapes.items():
            if name in arrays and arrays[name].shape != shape:
                actual = arrays[name].shape
                raise ActivityError(f"{path}: {name} should have shape {shape}, not {actual}: the file was altered")
        for name, values in arrays.items():
            if name not in FIXED and len(values) != steps:
                raise ActivityError(f"{path}: {name} should have {steps} rows, not {len(values)}: the file was altered")
        starts = self.extras.get("continuation_starts")
        if starts is not None and not np.isin(starts, np.arange(steps)).all():
            raise ActivityError(f"{path}: continuation_starts holds what is no step: the file was altered")

    def _end_shapes(self) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of the arrays of the end, of which the file itself says how long two are."""
        found = {name: values for name in ENDS if (values := self.extras.get(name)) is not None}
        shapes: dict[str, tuple[int, ...]] = {"end_observation": self.observations.shape[1:]}
        if (body := found.get("end_body")) is not None:
            shapes["end_body"] = (max(body.size, 1),)
        if (memory := found.get("end_memory")) is not None:
            shapes["end_memory"] = memory.shape if memory.ndim == 2 else (0, 0)
        return shapes

    def _continued_shapes(self) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of the arrays of continuations."""
        errors = self.extras.get("continuation_errors")
        shape = (0, 0) if errors is None or errors.ndim != 2 else errors.shape
        return {
            "continuation_starts": shape[:1], "continuation_errors": shape,
            "continuations": (*shape, *self.observations.shape[1:]),
            "continuation_ends": (*shape, len(self.extras.get("body_radii", ())), 2, 2),
        }  # fmt: skip


def _all_nan(values: Array) -> bool:
    return values.size > 0 and bool(np.isnan(values).all())
