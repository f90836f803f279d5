"""Recorded rollouts of made-up numbers, and wirings for them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ncp_control.activity.recording.activity import FIXED, NEEDED, OPTIONAL, Activity
from ncp_control.activity.recording.writer import Writer
from ncp_control.wiring import Wiring

WORM = Wiring.from_edges(
    ["touch at the nose", "touch at the $tail$"],
    inter=[["AVD on the left side", "AVD"], ["PVC"]],
    command=["AVA", "AVB"],
    motor=["move backward", "move forward"],
    sensory=[("touch at the nose", "AVD"), ("touch at the $tail$", "PVC"), (0, 0)],
    synapses=[("AVD", "PVC"), ("PVC", "AVA", -1), ("AVA", "move backward"), (2, 4), (4, 6), (6, 0, -1), (3, 3)],
    gap_junctions=[("AVD", "PVC"), (0, 6)],
)


ONE = Wiring.from_edges(1, motor=1, sensory=[(0, 0)])


def make_recording(
    wiring: Wiring,
    steps: int = 40,
    *,
    starts: tuple[int, ...] = (0,),
    body: bool = False,
    about: Mapping[str, Any] | None = None,
    **arrays: Any,
) -> Activity:
    """Makes a rollout with smooth states and time constants over four decades.

    :param wiring: the circuit's
    :param steps: how many
    :param starts: the steps at which episodes begin
    :param body: whether it has a body, of four capsules
    :param about: entries of `about` that differ from the usual ones
    :param arrays: arrays that replace the made-up ones, by their names in a recording
    """
    rng, time = np.random.default_rng(0), np.arange(steps)[:, None]

    def waves(count: int) -> np.ndarray:
        return np.sin(time / rng.uniform(3, 30, count) + rng.uniform(0, 6, count))

    neurons, inputs = 0.9 * waves(wiring.units), waves(wiring.inputs)
    found: dict[str, Any] = {
        "observations": 10 * inputs, "inputs": inputs, "neurons": neurons, "time_constants": 10 ** (2 * neurons),
        "sensory_currents": inputs[:, wiring.sensory.source] * rng.normal(size=len(wiring.sensory)),
        "currents": neurons[:, wiring.synapses.source] * rng.normal(size=len(wiring.synapses)),
        "gap_currents": rng.normal(size=(steps, len(wiring.gap_junctions))), "outputs": neurons[:, wiring.motor],
        "episode_starts": np.isin(np.arange(steps), starts),
        "state_bounds": np.tile([[-1.0], [1.0]], wiring.units),
        "time_constant_bounds": np.tile([[0.0], [np.inf]], wiring.units),
        "actions": waves(3), "rewards": waves(1)[:, 0], "values": waves(1)[:, 0],
    }  # fmt: skip
    if body:
        ends = 0.5 * waves(4 * 4).reshape(steps, 4, 2, 2) + 0.6
        ends[..., 0] += 0.3 * time[:, :, None]
        found |= {"body_ends": ends, "body_radii": np.full(4, 0.05)}
    found = {
        name: np.array(values, bool if name in ("episode_starts", "is_random", "new_trial") else np.float32)
        for name, values in (found | arrays).items()
    }
    facts = {
        "kind": "policy", "cell": {"cell": "LTC"}, "env": "Some-v0", "controller": "agent", "seeds": [0], "dt": 0.1,
        "observation_names": None, "action_names": ["hip", "knee", "foot"], "silenced": [], "note": {},
    }  # fmt: skip
    extras = {name: found.pop(name) for name in OPTIONAL if name in found}
    return Activity({**facts, **(about or {})}, wiring, **found, extras=extras)


def with_unknown_currents(activity: Activity) -> Activity:
    """Makes a recording one of a cell that does not know its currents, and returns it."""
    for currents in (activity.sensory_currents, activity.currents, activity.gap_currents):
        currents[:] = np.nan
    return activity


def write_recording(activity: Activity, path: Path) -> Path:
    """Writes a made-up recording into the file that `Activity.load` reads, and returns the file's path."""
    about = {key: [] if value is None and key.endswith("_names") else value for key, value in activity.about.items()}
    arrays = {name: getattr(activity, name) for name in NEEDED} | activity.extras
    with Writer(path, about, activity.wiring) as writer:
        writer.fix(**{name: values for name, values in arrays.items() if name in FIXED})
        writer.append(**{name: values for name, values in arrays.items() if name not in FIXED})
    return path


def with_continuations(activity: Activity, starts: tuple[int, ...] = (10, 40, 60), ahead: int = 30) -> Activity:
    """Gives a made-up recording continuations whose errors grow by 0.05 a step, and returns it.

    :param activity: of at least as many steps as the last start
    :param starts: the first step of each
    :param ahead: the length of each
    """
    step = np.array(starts)[:, None] + np.arange(ahead)
    known, inside = step < activity.steps, step.clip(max=activity.steps - 1)
    error = np.where(known, 0.05 * (np.arange(ahead) + 1), np.nan)

    def shifted(name: str) -> np.ndarray:
        values = activity.observations if name == "observations" else activity.extras[name]
        return np.asarray(values[inside] + error.reshape(*error.shape, *[1] * (values.ndim - 1)), np.float32)

    found = {"continuations": shifted("observations"), "continuation_errors": error, "continuation_starts": starts}
    if "body_ends" in activity.extras:
        found["continuation_ends"] = shifted("body_ends")
    activity.extras.update({name: np.asarray(values, np.float32) for name, values in found.items()})
    return activity
