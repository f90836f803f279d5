"""Which steps and which neurons of a recording a picture shows."""

from __future__ import annotations

import numpy as np

from ncp_control.activity.recording.activity import Activity


def last_step(activity: Activity, start: int, steps: int | None) -> int:
    """Returns the step after the last one shown, and refuses a range without a step.

    :param activity: a recorded rollout
    :param start: the first step shown
    :param steps: how many steps are shown; all that follow if None
    """
    if steps is not None and steps < 1:
        raise ValueError(f"show at least 1 step, not {steps}")
    if not 0 <= start < activity.steps:
        raise ValueError(f"step {start} was not recorded: start at a step from 0 to {activity.steps - 1}")
    return activity.steps if steps is None else min(start + steps, activity.steps)


def liveliest(activity: Activity, count: int) -> list[int]:
    """Returns the neurons whose states vary most, taking the next of each layer in turn; they are sorted by number."""
    spread = np.nan_to_num(np.asarray(activity.neurons, np.float64)).std(0)
    ranked = [
        list(where.start + np.argsort(-spread[where], kind="stable")) for where in activity.wiring.layers.values()
    ]
    taken = [layer[k] for k in range(max(map(len, ranked))) for layer in ranked if k < len(layer)]
    return sorted(int(neuron) for neuron in taken[:count])
