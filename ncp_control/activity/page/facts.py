"""What a page says in words about a recorded rollout."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.recording.activity import Activity
from ncp_control.base.liveliness import saturated, still
from ncp_control.wiring import Wiring

MOST_RETURNS = 20


def heading_of(activity: Activity) -> str:
    """Returns who was recorded and where."""
    who = activity.about.get("controller") or activity.about.get("kind") or "circuit"
    where = activity.about.get("env")
    return f"{who} in {where}" if where else str(who)


def facts_of(activity: Activity) -> list[tuple[str, str]]:
    """Returns terms and their values."""
    about, wiring = activity.about, activity.wiring
    found = [
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
    return [(term, str(text)) for term, text in found if text not in (None, "")]


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
