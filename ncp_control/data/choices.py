"""Actions from a `Discrete` space: choices, whose order means nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ncp_control.data.rollout import Array, Rollout

MOST = 10_000


def in_words(choices: range) -> str:
    """Says which choices there are."""
    return f"the choices {choices.start} to {choices.stop - 1}"


def need_one_hot(choices: range | None) -> bool:
    """Whether actions are choices that one number does not tell apart without an order; two choices have none."""
    return choices is not None and len(choices) > 2


def one_hot(rollout: Rollout, choices: range) -> Rollout:
    """Returns a rollout with each choice as a vector that is 1 at the choice's place and 0 elsewhere.

    :param rollout: its actions are whole numbers, (T,)
    :param choices: what there is to choose from, such as range(5, 8) for `Discrete(3, start=5)`
    """
    if len(choices) > MOST:
        raise ValueError(f"{rollout.name}: {len(choices)} choices are too many for a model that reads each as a number")
    acts = rollout.actions
    if acts is None or acts.ndim != 1 or acts.dtype.kind not in "iu":
        found = "none" if acts is None else f"an array of {acts.dtype} and shape {acts.shape}"
        raise ValueError(f"{rollout.name}: choices must be one whole number a step, and its actions are {found}")
    acts = np.asarray(acts)
    rows = acts.astype(np.int64) - choices.start
    wrong = (rows < 0) | (rows >= len(choices))
    if wrong.any():
        step = int(np.argmax(wrong))
        raise ValueError(f"{rollout.name}: actions[{step}] is {acts[step]}, which is none of {in_words(choices)}")
    return replace(rollout, actions=np.eye(len(choices), dtype=np.float32)[rows])


def range_of_one_hot(choices: range) -> Array:
    """Returns the least and the greatest value of each entry of such a vector, (2, m)."""
    return np.stack([np.zeros(len(choices)), np.ones(len(choices))])
