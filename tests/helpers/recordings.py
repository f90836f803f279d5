"""Recorded rollouts of made-up numbers."""

from pathlib import Path
from typing import Any

import numpy as np

from ncp_control.activity.recording.activity import Activity, Writer
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


def make_activity(
    tmp_path: Path, wiring: Wiring, steps: int = 40, seen=None, starts: tuple[int, ...] = (0,), **changed
) -> Activity:
    """A recording of random numbers, written and read."""
    rng = np.random.default_rng(0)
    units = wiring.units
    rows = {
        "observations": rng.normal(size=(steps, 4)) if seen is None else seen,
        "inputs": rng.normal(size=(steps, wiring.inputs)),
        "neurons": np.tanh(rng.normal(size=(steps, units))), "time_constants": np.exp(rng.normal(size=(steps, units))),
        "sensory_currents": rng.normal(size=(steps, len(wiring.sensory))),
        "currents": rng.normal(size=(steps, len(wiring.synapses))),
        "gap_currents": rng.normal(size=(steps, len(wiring.gap_junctions))),
        "outputs": rng.normal(size=(steps, wiring.outputs)), "episode_starts": np.isin(np.arange(steps), starts),
    }  # fmt: skip
    fixed = {
        "state_bounds": np.tile([[-1.0], [1.0]], units), "time_constant_bounds": np.tile([[0.0], [np.inf]], units)
    }  # fmt: skip
    about = {"kind": "network", "env": "Some-v0", "dt": 0.1} | changed.pop("about", {})
    for name, values in changed.items():
        (fixed if name in fixed or name == "body_radii" else rows)[name] = values
    path = tmp_path / "activity.npz"
    with Writer(path, about, wiring) as writer:
        writer.fix(**fixed)
        writer.append(**rows)
    return Activity.load(path)


def recording(wiring: Wiring, steps: int = 60, body: bool = True, **about: Any) -> Activity:
    """A rollout with numbers of the right shapes: smooth states, time constants over four decades, two episodes."""
    rng, time = np.random.default_rng(0), np.arange(steps)[:, None]

    def waves(count: int) -> np.ndarray:
        return np.sin(time / rng.uniform(3, 30, count) + rng.uniform(0, 6, count)).astype(np.float32)

    neurons, inputs = 0.9 * waves(wiring.units), waves(wiring.inputs)
    extras: dict[str, Any] = {"actions": waves(3), "rewards": waves(1)[:, 0], "values": waves(1)[:, 0]}
    if body:
        ends = waves(4 * 4).reshape(steps, 4, 2, 2) * 0.5 + 0.6
        ends[..., 0] += 0.3 * time[:, :, None]
        extras |= {"body_ends": ends.astype(np.float32), "body_radii": np.full(4, 0.05, np.float32)}
    facts = {
        "kind": "policy", "cell": {"cell": "LTC"}, "env": "Somewhere-v0", "controller": "agent", "seeds": [0],
        "dt": 0.05, "observation_names": None, "action_names": ["hip", "knee", "foot"], "silenced": [], "note": {},
    }  # fmt: skip
    return Activity(
        facts | about,
        wiring,
        observations=10 * inputs,
        inputs=inputs,
        neurons=neurons,
        time_constants=(10 ** (2 * neurons)).astype(np.float32),
        sensory_currents=inputs[:, wiring.sensory.source] * rng.normal(size=len(wiring.sensory)),
        currents=neurons[:, wiring.synapses.source] * rng.normal(size=len(wiring.synapses)),
        gap_currents=rng.normal(size=(steps, len(wiring.gap_junctions))),
        outputs=neurons[:, wiring.motor],
        episode_starts=np.isin(np.arange(steps), [0, steps // 2]),
        state_bounds=np.stack([-np.ones(wiring.units), np.ones(wiring.units)]),
        time_constant_bounds=np.stack([np.zeros(wiring.units), np.full(wiring.units, np.inf)]),
        extras=extras,
    )
