"""One web page of recorded rollouts, in one file: body, wiring, raster, time constants and traces in step.

The page holds all it shows and asks no network for anything, so it can be mailed, archived, or opened from a disk.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.recording.activity import Activity, Array
from ncp_control.storage.atomic_writes import write_atomically
from ncp_control.support.liveliness import saturated, still
from ncp_control.wiring import Wiring
from ncp_control.wiring.edges import Edges

# In this order: each uses only names of those before it, and what runs at load comes last.
SCRIPTS = ("data.js", "drawing.js", "wiring.js", "raster.js", "traces.js", "constants.js", "body.js", "chosen.js",
           "page.js")  # fmt: skip


def write_page(activity: Activity | Sequence[Activity], path: str | Path, title: str | None = None) -> None:
    """Writes the page.

    :param activity: a recorded rollout; or several of one circuit, which a slider chooses among, in the order given:
        moments of its training, say, which `about["note"]["steps"]` of each names
    :param path: the `.html`; replaced whole if it exists
    :param title: the heading; by default who was recorded and where
    """
    activities = [activity] if isinstance(activity, Activity) else list(activity)
    if not activities:
        raise ValueError("a page needs at least one recorded rollout")
    first = activities[0]
    for number, other in enumerate(activities):
        if other.steps == 0:
            raise ValueError(f"recorded rollout {number} has no steps: there is nothing to show")
        if other.wiring != first.wiring:
            raise ValueError(
                f"recorded rollouts 0 and {number} are of different circuits: a page shows one, so write a page each"
            )
    title = _title(first) if title is None else title
    data = {
        "title": title,
        "wiring": _wiring(first.wiring, _input_names(first)),
        "activities": [_activity(each) for each in activities],
    }
    folder = resources.files("ncp_control.activity.page") / "static"
    parts = {
        "title": html.escape(title),
        "style": (folder / "page.css").read_text(encoding="utf-8"),
        "data": _json(data),
        "script": "\n".join((folder / name).read_text(encoding="utf-8") for name in SCRIPTS),
    }
    # one pass, so that what is put in is never itself searched for places to fill
    template = (folder / "page.html").read_text(encoding="utf-8")
    page = re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)
    write_atomically(path, page.encode("utf-8"))


def still_neurons(activity: Activity) -> list[str]:
    """Names of the neurons that never change."""
    return _named(activity.wiring, still(activity.neurons, *activity.state_bounds))


def saturated_neurons(activity: Activity) -> list[str]:
    """Names of the neurons that spend nearly all steps at a bound."""
    return _named(activity.wiring, saturated(activity.neurons, *activity.state_bounds))


def _named(wiring: Wiring, chosen: NDArray[np.bool_]) -> list[str]:
    return [wiring.neuron_names[n] for n in np.flatnonzero(chosen)]


def _float(values: Array) -> NDArray[np.float64]:
    return np.asarray(values, dtype=np.float64)


def quantise(values: Array, bits: int = 8, log: bool = False) -> dict[str, Any]:
    """Whole numbers between each column's least and greatest value; the greatest code stands for what is not finite.

    :param values: (T, C)
    :param bits: 8 or 16
    :param log: quantise the logarithm (base 10): for values over many orders of magnitude; none of them 0 or less
    """
    values = _float(values).reshape(len(values), -1)
    if log:
        values = np.log10(np.where(values > 0, values, np.nan))
    finite = np.isfinite(values)
    # a column without a finite value has codes all the same; any bounds do
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
        "data": _base64(codes),
    }


def _exact(values: Array) -> dict[str, Any]:
    values = np.asarray(values, dtype="<f4").reshape(len(values), -1)
    return {"kind": "f4", "columns": values.shape[1], "log": False, "data": _base64(values)}


def _base64(values: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")


def _json(data: object) -> str:
    """JSON that no HTML parser can take for the end of its `<script>`, nor a JavaScript one for the end of a line."""
    text = json.dumps(data, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _numbers(values: Array) -> list[float | None]:
    """For JSON, which knows no infinity."""
    return [float(value) if np.isfinite(value) else None for value in _float(values)]


def _title(activity: Activity) -> str:
    who = activity.about.get("controller") or activity.about.get("kind") or "circuit"
    where = activity.about.get("env")
    return f"{who} in {where}" if where else str(who)


def _wiring(wiring: Wiring, input_names: list[str]) -> dict[str, Any]:
    return {
        "inputs": wiring.inputs,
        "layers": [{"name": name, "start": s.start, "stop": s.stop} for name, s in wiring.layers.items()],
        "inputNames": input_names,
        "neuronNames": list(wiring.neuron_names),
        "sensory": _edges(wiring.sensory),
        "synapses": _edges(wiring.synapses),
        "gaps": wiring.gap_junctions.tolist(),
    }


def _edges(edges: Edges) -> dict[str, list[int]]:
    return {key: getattr(edges, key).tolist() for key in ("source", "target", "polarity")}


def _input_names(activity: Activity) -> list[str]:
    """The inputs' names; those of the observations where the wiring has none and each input follows its observation."""
    wiring, names = activity.wiring, activity.about.get("observation_names")
    unnamed = wiring.input_names == tuple(f"input{k}" for k in range(wiring.inputs))
    if unnamed and isinstance(names, list) and len(names) == wiring.inputs == activity.observations.shape[1]:
        inputs, seen = _float(activity.inputs), _float(activity.observations)
        inputs, seen = inputs - inputs.mean(axis=0), seen - seen.mean(axis=0)
        # scaled and clipped, an input still follows; anything else that happens to have as many inputs does not
        along = np.abs((inputs * seen).sum(axis=0))
        if (along >= 0.8 * np.sqrt((inputs**2).sum(axis=0) * (seen**2).sum(axis=0))).all():
            return [str(name) for name in names]
    return list(wiring.input_names)


def _activity(activity: Activity) -> dict[str, Any]:
    """What the page knows of one recorded rollout."""
    about = activity.about
    note = about.get("note")
    trained = note.get("steps") if isinstance(note, Mapping) else None
    dt = about.get("dt")
    low, high = activity.state_bounds
    constants_low, constants_high = activity.time_constant_bounds
    strengths = np.abs(np.concatenate([activity.sensory_currents, activity.currents], axis=1, dtype=np.float64))
    strengths = strengths[np.isfinite(strengths)]
    arrays = {
        "inputs": quantise(activity.inputs),
        "neurons": quantise(activity.neurons, 16),
        "constants": quantise(activity.time_constants, 16, log=True),
        "sensory": quantise(activity.sensory_currents),
        "synapses": quantise(activity.currents),
        "gaps": quantise(activity.gap_currents),
        "observations": quantise(activity.observations, 16),
    }
    for name in ("actions", "executed_actions", "rewards", "values"):
        if (values := activity.get(name)) is not None:
            arrays[name] = quantise(values, 16)
    if "actions" not in arrays:
        arrays["outputs"] = quantise(activity.outputs, 16)
    predictions = activity.get("predictions")
    if predictions is not None and predictions.shape == activity.observations.shape:
        arrays["predictions"] = quantise(predictions, 16)
    return {
        "steps": activity.steps,
        "dt": float(dt) if isinstance(dt, int | float) and dt > 0 else None,
        "label": None if trained is None else f"{trained:,} steps" if isinstance(trained, int) else str(trained),
        "facts": _facts(activity),
        "silenced": _list(about.get("silenced")),
        "still": still_neurons(activity),
        "saturated": saturated_neurons(activity),
        "bounds": {"low": _numbers(low), "high": _numbers(high)},
        "constantBounds": {"low": _numbers(constants_low), "high": _numbers(constants_high)},
        # not the maximum: a single spike would leave all other synapses thin
        "strong": float(np.quantile(strengths, 0.98)) if strengths.size else 0.0,
        "starts": np.flatnonzero(activity.episode_starts).tolist(),
        "random": [] if (chance := activity.get("is_random")) is None else np.flatnonzero(chance).tolist(),
        "observationNames": _names(about.get("observation_names"), activity.observations, "observation"),
        "actionNames": _names(about.get("action_names"), activity.get("actions"), "action"),
        "arrays": arrays,
        "body": _body(activity),
    }


def _names(given: object, values: Array | None, otherwise: str) -> list[str]:
    count = 0 if values is None else values.reshape(len(values), -1).shape[1]
    if isinstance(given, list) and len(given) == count:
        return [str(name) for name in given]
    return [f"{otherwise} {k}" for k in range(count)]


def _body(activity: Activity) -> dict[str, Any] | None:
    """The capsules about their own middle, which is kept apart: else, far from the start, they would be coarse."""
    ends, radii = activity.get("body_ends"), activity.get("body_radii")
    if ends is None or radii is None or len(radii) == 0:
        return None
    ends = _float(ends)
    middle = ends[..., 0].mean(axis=(1, 2))
    around = ends.copy()
    around[..., 0] -= middle[:, None, None]
    return {
        "ends": quantise(around.reshape(len(ends), -1), 16),
        "along": _exact(middle),
        "radii": _float(radii).tolist(),
    }


def _facts(activity: Activity) -> list[tuple[str, str]]:
    """What was recorded, in words."""
    about, wiring = activity.about, activity.wiring
    found = [
        ("Environment", about.get("env")),
        ("Controller", about.get("controller")),
        ("Kind", about.get("kind")),
        ("Cell", _cell(about.get("cell"))),
        ("Circuit", f"{wiring.inputs} inputs, {wiring.units} neurons, {len(wiring.sensory)} sensory and "
         f"{len(wiring.synapses)} other synapses, {len(wiring.gap_junctions)} gap junctions"),
        ("Seeds", _list(about.get("seeds"))),
        ("Silenced", _list(about.get("silenced")) or "nothing"),
        ("Steps", str(activity.steps)),
        ("Episodes", str(max(1, int(activity.episode_starts.sum())))),
        ("Returns", _returns(activity)),
        ("Seconds a step", about.get("dt")),
        ("Note", _note(about.get("note"))),
        ("Recorded by", f"ncp-control {about.get('package')}"),
    ]  # fmt: skip
    return [(term, str(text)) for term, text in found if text not in (None, "")]


def _cell(cell: object) -> str | None:
    if not isinstance(cell, Mapping):
        return None if cell is None else str(cell)
    settings = [f"{key} {value}" for key, value in cell.items() if key != "cell" and value not in (None, [], {})]
    return ", ".join([str(cell.get("cell", "")), *settings]).strip(", ")


def _list(values: object) -> str | None:
    if isinstance(values, list | tuple):
        return ", ".join(str(value) for value in values if value is not None)
    return None if values is None else str(values)


def _note(note: object) -> str | None:
    if isinstance(note, Mapping):
        return ", ".join(f"{key} {value}" for key, value in note.items())
    return None if note is None else str(note)


def _returns(activity: Activity) -> str | None:
    """The rewards' sum of each episode; the first may be cut at its start, the last at its end."""
    rewards = activity.get("rewards")
    if rewards is None:
        return None
    starts = [0, *(int(step) for step in np.flatnonzero(activity.episode_starts) if step > 0)]
    sums = np.add.reduceat(_float(rewards).reshape(-1), starts)
    return ", ".join(f"{value:.4g}" for value in sums[:20]) + (", ..." if len(sums) > 20 else "")
