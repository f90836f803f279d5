"""What a page knows and says about a circuit and about each recorded rollout, as JSON values for its script.

Arrays are whole numbers in base64, which are much smaller than numbers as text. What is said in words follows them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.body import flat_body, heights
from ncp_control.activity.continued import PARTED, WARM_UP, Continued, continued_of
from ncp_control.activity.recording.activity import Activity, Array
from ncp_control.base.liveliness import saturated, still
from ncp_control.base.pages import base64_of
from ncp_control.wiring import Wiring
from ncp_control.wiring.edges import Edges

# Only a current in fifty is drawn with the full width; by the greatest of all, one spike would leave the others thin.
STRONG_CURRENT = 0.98
MOST_RETURNS = 20  # episodes whose returns are listed


def wiring_data(wiring: Wiring, input_names: Sequence[str]) -> dict[str, Any]:
    """Returns the circuit's layers, names and synapses."""
    return {
        "inputs": wiring.inputs,
        "layers": [{"name": name, "start": s.start, "stop": s.stop} for name, s in wiring.layers.items()],
        "inputNames": list(input_names),
        "neuronNames": list(wiring.neuron_names),
        "sensory": _edges(wiring.sensory),
        "synapses": _edges(wiring.synapses),
        "gaps": wiring.gap_junctions.tolist(),
    }


def curve_data(curve: Sequence[tuple[float, float, float]]) -> dict[str, Any] | None:
    """Returns the evaluations of a training, as lists; None if there is none whose mean is finite."""
    if not any(np.isfinite(mean) for _, mean, _ in curve):
        return None
    steps, mean, std = (numbers(np.array(column)) for column in zip(*curve, strict=True))
    return {"steps": steps, "mean": mean, "std": std}


def activity_data(activity: Activity) -> dict[str, Any]:
    """Returns the arrays of one recorded rollout and what is to be said about it."""
    about = activity.about
    note = about.get("note")
    trained = note.get("steps") if isinstance(note, Mapping) else None
    low, high = activity.state_bounds
    constants_low, constants_high = activity.time_constant_bounds
    strengths = np.abs(np.concatenate([activity.sensory_currents, activity.currents], axis=1, dtype=np.float64))
    strengths = strengths[np.isfinite(strengths)]  # a current that is not known is NaN
    return {
        "steps": activity.steps,
        "dt": activity.seconds_per_step,
        "trained": trained if isinstance(trained, int) else None,
        "label": None if trained is None else f"{trained:,} steps" if isinstance(trained, int) else str(trained),
        "facts": facts_of(activity),
        "silenced": listed(about.get("silenced")),
        "still": still_neurons(activity),
        "saturated": saturated_neurons(activity),
        "bounds": {"low": numbers(low), "high": numbers(high)},
        "constantBounds": {"low": numbers(constants_low), "high": numbers(constants_high)},
        "currentsKnown": activity.currents_are_known,
        "constantsKnown": activity.known_time_constants.tolist(),
        "strong": float(np.quantile(strengths, STRONG_CURRENT)) if strengths.size else 0.0,
        "starts": np.flatnonzero(activity.episode_starts).tolist(),
        "random": [] if (chance := activity.get("is_random")) is None else np.flatnonzero(chance).tolist(),
        "observationNames": _names(about.get("observation_names"), activity.observations, "observation"),
        "actionNames": _names(about.get("action_names"), activity.get("actions"), "action"),
        "arrays": _arrays(activity),
        "body": _body(activity),
        "continued": _continued(activity),
    }


def _arrays(activity: Activity) -> dict[str, Any]:
    arrays = {
        "inputs": quantise(activity.inputs),
        "neurons": quantise(activity.neurons, 16),
        "constants": quantise(activity.time_constants, 16, log=True),
        "sensory": quantise(activity.sensory_currents),
        "synapses": quantise(activity.currents),
        "gaps": quantise(activity.gap_currents),
        "observations": quantise(activity.real_observations, 16),
    }
    for name in ("actions", "executed_actions", "rewards", "values"):
        if (values := activity.get(name)) is not None:
            arrays[name] = quantise(values, 16)
    if "actions" not in arrays:
        arrays["outputs"] = quantise(activity.outputs, 16)
    predictions = activity.get("predictions")
    if predictions is not None and predictions.shape == activity.observations.shape:
        arrays["predictions"] = quantise(predictions, 16)
    return arrays


def _float(values: Array) -> NDArray[np.float64]:
    return np.asarray(values, dtype=np.float64)


def numbers(values: Array) -> list[float | None]:
    """Returns numbers for JSON, which has no infinity: None stands for numbers that are not finite."""
    return [float(value) if np.isfinite(value) else None for value in _float(values)]


def _edges(edges: Edges) -> dict[str, list[int]]:
    return {key: getattr(edges, key).tolist() for key in ("source", "target")}


def _names(given: object, values: Array | None, otherwise: str) -> list[str]:
    """Returns a name for each column of values: the given names, or numbered ones if those do not fit."""
    count = 0 if values is None else values.reshape(len(values), -1).shape[1]
    if isinstance(given, list) and len(given) == count:
        return [str(name) for name in given]
    return [f"{otherwise} {k}" for k in range(count)]


def _body(activity: Activity) -> dict[str, Any] | None:
    """Returns the capsules relative to their middle, the middle itself, and how much room they need around it.

    The quantum of positions relative to the start would become coarse as the body runs far away.
    """
    body = flat_body(activity)
    if body is None:
        return None
    # From above, the camera moves along in both directions.
    follows = slice(None) if body.above else slice(1)
    middle, around = body.middle[:, follows], body.ends.copy()
    around[..., follows] -= middle[:, None, None]
    low, high = heights(body, rare=0)
    low = low if body.above or body.ground is None else min(low, body.ground)
    side = np.nan_to_num(np.abs(around[..., 0][:, body.moving])).max() + body.radii.max()
    return {
        "ends": quantise(around.reshape(len(around), -1), 16),
        "along": exact(middle),
        "depth": None if body.depth is None else quantise(body.depth, 16),
        "radii": body.radii.tolist(),
        "other": body.other.tolist(),
        "above": body.above,
        "ground": None if body.above else body.ground,
        "side": float(side),
        "down": low,
        "up": high,
    }


def overall(continued: Continued) -> str:
    """Says how long model and world stay together over all continuations, because the page begins with the longest."""
    together = continued.together[continued.starts >= WARM_UP]
    if len(together) < 2:
        return ""
    start, median = int(continued.starts[continued.first_shown()]), int(np.median(together))
    return (
        f"This page begins with step {start}, from which on they stay together longest; over all {len(together)} "
        f"starts, up to the recording's end, the median is {median} step{'' if median == 1 else 's'}."
    )


def _continued(activity: Activity) -> dict[str, Any] | None:
    """Returns what the model predicted open loop. A row of its arrays is a step of one of the continuations."""
    continued = continued_of(activity)
    if continued is None:
        return None
    rows = continued.errors.size
    # A row of a trace is a few pixels high, and as wide as the real values: 8 bits are enough, and so are its limits.
    real = activity.real_observations
    low, high = np.nanmin(real, axis=0, initial=np.inf), np.nanmax(real, axis=0, initial=-np.inf)
    body = None
    if continued.ends is not None:
        ends = _float(continued.ends).reshape(rows, -1, 2)
        middle = ends.mean(axis=1)
        around = (ends - middle[:, None]).reshape(rows, -1)
        body = {"ends": quantise(around), "middle": exact(middle)}
    return {
        "starts": continued.starts.tolist(),
        "ahead": continued.errors.shape[1],
        "parted": continued.parted,
        "level": PARTED,
        "first": continued.first_shown(),
        "overall": overall(continued),
        "ofCircuit": activity.get("real_observations") is not None,
        "errors": exact(continued.errors.reshape(rows, 1)),
        "values": quantise(np.clip(continued.values, low, high).reshape(rows, -1)),
        "body": body,
    }


def quantise(values: Array, bits: int = 8, log: bool = False) -> dict[str, Any]:
    """Turns each column into whole numbers between its least and greatest value.

    The greatest whole number stands for values that are not finite.

    :param values: (T, C)
    :param bits: 8 or 16
    :param log: quantise the logarithm (base 10), for values over many orders of magnitude; values of 0 or less count as
        not finite
    """
    values = np.asarray(values, np.float64).reshape(len(values), -1)
    if log:
        values = np.log10(np.where(values > 0, values, np.nan))
    finite = np.isfinite(values)
    # A column without a finite value needs bounds too, and 0 does.
    some = finite.any(axis=0)
    low = np.where(some, np.min(values, axis=0, initial=np.inf, where=finite), 0.0)
    high = np.where(some, np.max(values, axis=0, initial=-np.inf, where=finite), 0.0)
    missing = 2**bits - 1
    span = np.where(high > low, high - low, 1.0)
    codes = np.rint(np.where(finite, values - low, 0.0) / span * (missing - 1))
    codes = np.where(finite, codes, missing).astype(f"<u{bits // 8}")
    return {
        "kind": f"u{bits // 8}",
        "columns": values.shape[1],
        "low": low.tolist(),
        "high": high.tolist(),
        "log": log,
        "data": base64_of(codes),
    }


def exact(values: Array) -> dict[str, Any]:
    """Keeps values (T, C) as 32-bit floating-point numbers."""
    values = np.asarray(values, dtype="<f4").reshape(len(values), -1)
    return {"kind": "f4", "columns": values.shape[1], "log": False, "data": base64_of(values)}


def heading_of(activity: Activity) -> str:
    """Returns who was recorded and where."""
    who = activity.about.get("controller") or activity.about.get("kind") or "circuit"
    where = activity.about.get("env")
    return f"{who} in {where}" if where else str(who)


def facts_of(activity: Activity) -> list[tuple[str, str]]:
    """Returns terms and their values."""
    about, wiring = activity.about, activity.wiring
    terms = [
        ("Environment", about.get("env")),
        ("Controller", about.get("controller")),
        ("Kind", about.get("kind")),
        ("Cell", cell_in_words(about.get("cell"))),
        ("Circuit", circuit_in_words(wiring)),
        ("Currents", None if activity.currents_are_known else "not known"),
        ("Time constants", _unknown_time_constants(activity)),
        ("Seeds", listed(about.get("seeds"))),
        ("Silenced", listed(about.get("silenced")) or "nothing"),
        ("Steps", str(activity.steps)),
        ("Episodes", str(max(1, int(activity.episode_starts.sum())))),
        ("Returns", _returns(activity)),
        ("Seconds a step", about.get("dt")),
        ("Note", _note(about.get("note"))),
        ("Recorded by", f"ncp-control {about.get('package')}"),
    ]  # fmt: skip
    return [(term, str(text)) for term, text in terms if text not in (None, "")]


def still_neurons(activity: Activity) -> list[str]:
    """Returns the names of the neurons that never change."""
    return _named(activity.wiring, still(activity.neurons, *activity.state_bounds))


def saturated_neurons(activity: Activity) -> list[str]:
    """Returns the names of the neurons that spend nearly all steps at a bound."""
    return _named(activity.wiring, saturated(activity.neurons, *activity.state_bounds))


def listed(values: object) -> str | None:
    """Returns values with commas between them, or None if there are none."""
    if isinstance(values, list | tuple):
        return ", ".join(str(value) for value in values if value is not None)
    return None if values is None else str(values)


def _named(wiring: Wiring, chosen: NDArray[np.bool_]) -> list[str]:
    return [wiring.neuron_names[n] for n in np.flatnonzero(chosen)]


def circuit_in_words(wiring: Wiring) -> str:
    """Returns how many inputs, neurons, synapses and gap junctions a circuit has."""
    return (
        f"{wiring.inputs} inputs, {wiring.units} neurons, {len(wiring.sensory)} sensory and {len(wiring.synapses)} "
        f"other synapses, {len(wiring.gap_junctions)} gap junctions"
    )


def cell_in_words(cell: object) -> str | None:
    """Returns the class of a cell and its settings in words."""
    if not isinstance(cell, Mapping):
        return None if cell is None else str(cell)
    settings = [f"{key} {value}" for key, value in cell.items() if key != "cell" and value not in (None, [], {})]
    return ", ".join([str(cell.get("cell", "")), *settings]).strip(", ")


def _unknown_time_constants(activity: Activity) -> str | None:
    if not activity.time_constants_are_known:
        return "not known"
    unknown = _named(activity.wiring, ~activity.known_time_constants)
    return f"not known for {', '.join(unknown)}" if unknown else None


def _note(note: object) -> str | None:
    if isinstance(note, Mapping):
        return ", ".join(f"{key} {value}" for key, value in note.items())
    return None if note is None else str(note)


def _returns(activity: Activity) -> str | None:
    """Returns the sum of the rewards of each episode; the first and the last episode may be incomplete."""
    rewards = activity.get("rewards")
    if rewards is None:
        return None
    rewards = np.asarray(rewards, np.float64).reshape(-1)
    sums = [rewards[where].sum() for where in activity.episodes]
    return ", ".join(f"{value:.4g}" for value in sums[:MOST_RETURNS]) + (", ..." if len(sums) > MOST_RETURNS else "")
