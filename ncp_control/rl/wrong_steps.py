"""Finds what an environment gave that is NaN or infinite, among the steps that an algorithm keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import BaseBuffer

# The parts of a step in the order of time, and what an environment calls its own; the others are the policy's.
PARTS = {
    "observations": "observation", "actions": "", "values": "", "log_probs": "", "rewards": "reward",
    "next_observations": "observation",
}  # fmt: skip


def wrong_step(model: BaseAlgorithm) -> str | None:
    """Returns in words the first number of an environment that is not finite.

    :param model: the algorithm
    :return: None if all its numbers are finite, or if a number of the policy was wrong before them
    """
    buffer: Any = getattr(model, "rollout_buffer", None) or getattr(model, "replay_buffer", None)
    wrong = [] if buffer is None else [first for part in PARTS for first in first_wrong(buffer, part)]
    if not wrong:  # the newest observation is in no rollout yet
        newest: Any = model._last_obs
        for values in newest.values() if isinstance(newest, dict) else [newest]:
            wrong += [(0, 0, number, value) for _, number, value in wrong_places(np.asarray(values)[None])]
    if not wrong:
        return None
    _, part, number, value = min(wrong)  # the first in time, because each begins with its step and its part of it
    what = list(PARTS.values())[part]
    who = "the environment" if model.n_envs == 1 else f"environment {number}"
    return f"{who} gave the {what} {value}" if what else None


def first_wrong(buffer: BaseBuffer, part: str) -> Iterator[tuple[int, int, int, float]]:
    """Yields for each array of a part of the steps its first number that is not finite.

    :param buffer: the buffer
    :param part: one of `PARTS`
    :return: the step, counted from the oldest; the part's place in a step; the environment's number; and the number
    """
    kept = getattr(buffer, part, None)
    for array in kept.values() if isinstance(kept, dict) else [kept]:
        if array is None:
            continue
        values = array
        if len(array) != buffer.buffer_size:  # Stable-Baselines3 has joined the steps of each environment
            values = array.reshape(buffer.n_envs, buffer.buffer_size, *array.shape[1:]).swapaxes(0, 1)
        # the oldest step first: a full buffer writes over its oldest row next
        values = np.roll(values, -buffer.pos, axis=0) if buffer.full else values[: buffer.pos]
        for step, number, value in wrong_places(values):
            yield step, list(PARTS).index(part), number, value


def wrong_places(values: Any) -> list[tuple[int, int, float]]:
    """Returns where the first number that is not finite is: at most one step, environment and number.

    :param values: (steps, environments, ...)
    """
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return []
    place = tuple(np.argwhere(~np.isfinite(values))[0].tolist())
    return [(place[0], place[1], float(values[place]))]
