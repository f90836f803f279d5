"""Names of inputs, observations and neurons in pictures; a correlation tells which observation an input follows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.recording.activity import Activity
from ncp_control.base.text import shown
from ncp_control.wiring import Wiring
from ncp_control.wiring.edges import default_names

Array = NDArray[np.float64]
LONGEST_LABEL = 30
FEWEST_STEPS = 10  # in fewer, two series of numbers may be correlated by chance


def shortened(name: str, longest: int = LONGEST_LABEL) -> str:
    """Returns the name as one line, cut if it is too long for a picture."""
    name = shown(name)
    return name if len(name) <= longest else name[: longest - 1] + "…"


def input_labels(activity: Activity) -> tuple[str, ...]:
    """Returns a name for each input: its own name in the wiring, or else what the recording says that it is, or the
    name of the observation that it follows.

    Inputs are often scaled observations, and then the name of the observation says more than "input3".
    """
    wiring = activity.wiring
    own, names = default_names("input", wiring.inputs), activity.about.get("input_names") or ()
    known = np.full(wiring.inputs, len(names) == wiring.inputs)
    if not known.all():
        if activity.observations.shape[1:] != (wiring.inputs,) or activity.steps < FEWEST_STEPS:
            return wiring.input_names
        # An input that is scaled and clipped still follows its observation; an input with another meaning does not.
        known = np.diag(correlations(activity.inputs, activity.observations)) > 0.8
        # A goal may never change, nor may its input: if all that changes follows, they stand for each other.
        still = (np.ptp(activity.inputs, axis=0) == 0) & (np.ptp(activity.observations, axis=0) == 0)
        if known.any() and (known | still).all():
            known |= still
        names = observation_labels(activity)
    return tuple(
        str(names[k]) if known[k] and name == own[k] else name for k, name in enumerate(wiring.input_names)
    )  # fmt: skip


def observation_labels(activity: Activity) -> tuple[str, ...]:
    """Returns a name for each observation."""
    size = int(np.prod(activity.observations.shape[1:]))
    names = activity.about.get("observation_names") or ()
    return tuple(map(str, names)) if len(names) == size else tuple(f"observation {k}" for k in range(size))


def neuron_labels(wiring: Wiring) -> tuple[str, ...]:
    """Returns a short name for each neuron: its own name, or its number in the layer if it has none."""
    labels: list[str] = []
    for layer, where in wiring.layers.items():
        names = wiring.neuron_names[where]
        own = default_names(layer, len(names))
        labels += [str(k) if name == own[k] else name for k, name in enumerate(names)]
    return tuple(labels)


def correlations(first: Array, second: Array) -> Array:
    """Returns Pearson's correlation of each column of `first` with each column of `second`.

    It is NaN where a column is constant or has a value that is not finite.

    :param first: (T, A)
    :param second: (T, B)
    :return: (A, B)
    """

    def standard(values: Array) -> Array:
        values = np.asarray(values, np.float64)
        values = np.where(np.isfinite(values).all(0), values, 0.0)
        values = values / np.maximum(np.abs(values).max(0, initial=0.0), 1e-30)  # so that no square overflows
        spread = values.std(0)
        # Because of rounding, the standard deviation of a constant column is not exactly zero.
        spread[~(spread > 1e-7)] = np.nan
        return np.asarray((values - values.mean(0)) / spread)

    return np.asarray(standard(first).T @ standard(second) / max(len(first), 1))
