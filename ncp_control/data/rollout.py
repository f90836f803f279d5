"""One rollout: the observations, actions and rewards of an episode, checked; and what a source of rollouts holds.

Actions from a `Discrete` space are choices, whose order means nothing: a model reads each as a vector.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ncp_control.data.columns import StoredArray

Array = NDArray[Any]
PARTS = ("train", "valid", "test")  # of a split
MOST_CHOICES = 10_000  # each is an input of a model


@dataclass(frozen=True)
class Rollout:
    """One episode of T steps, or a bare trace of observations.

    Arrays may be a `StoredArray` each, which stays on disk; its numbers were checked before it was stored.

    :param observations: (T + 1, n); the first one comes from the reset, the last one follows the last action
    :param actions: the actions that were executed, (T, m), or (T,) in a discrete space; None for a bare trace
    :param rewards: (T,)
    :param is_random: (T,) bool, true where a random action replaced the policy's
    :param elapsed: (T + 1,), the time since the previous observation, not negative; None where it is always the same
    :param terminated: whether the environment ended the episode; false where a time limit did
    :param seed: the seed that the environment was reset with
    :param name: the name of this rollout in messages
    """

    observations: Array
    actions: Array | None = None
    rewards: Array | None = None
    is_random: Array | None = None
    elapsed: Array | None = None
    terminated: bool = False
    seed: int | None = None
    name: str = "rollout"

    def __post_init__(self) -> None:
        for key in ("observations", "actions", "rewards", "is_random", "elapsed"):
            values = getattr(self, key)
            if values is not None:
                object.__setattr__(self, key, as_array(self.name, key, values))
        if self.observations.ndim != 2:
            raise ValueError(
                f"{self.name}: observations must have shape (steps, features), got {self.observations.shape}"
            )
        if not self.observations.shape[1]:
            raise ValueError(f"{self.name}: its observations have no columns, so there is nothing to predict")
        steps = len(self.observations) - 1
        if steps < 1:
            raise ValueError(f"{self.name}: a rollout needs at least two observations, and this one has {steps + 1}")
        for key, length in (("actions", steps), ("rewards", steps), ("is_random", steps), ("elapsed", steps + 1)):
            values = getattr(self, key)
            if values is not None and (not values.ndim or len(values) != length):
                raise ValueError(
                    f"{self.name}: {steps + 1} observations go with {length} {key}, but there are "
                    f"{len(values) if values.ndim else 'none'}"
                )
            if values is not None and key != "actions" and values.ndim != 1:
                raise ValueError(f"{self.name}: {key} must be one number a step, ({length},), got {values.shape}")
            if values is not None:
                check_finite(self.name, key, values)
        check_finite(self.name, "observations", self.observations)
        if self.elapsed is not None and not is_stored(self.elapsed) and (self.elapsed < 0).any():
            row = int(np.argmax(self.elapsed < 0))
            raise ValueError(
                f"{self.name}: elapsed[{row}] is {self.elapsed[row]}, and time does not run backwards: sort the rows "
                "by their time first"
            )

    def __repr__(self) -> str:
        gained = "" if self.rewards is None else f", return {self.total_reward:.1f}"
        return f"Rollout({self.name}: {self.steps} steps, {self.shapes}{gained})"

    @property
    def shapes(self) -> str:
        """The shapes of one step's observations and actions, in words."""
        acted = "no actions" if self.actions is None else f"actions {self.actions.shape[1:]}"
        return f"observations {self.observations.shape[1:]}, {acted}"

    @property
    def steps(self) -> int:
        """The number of transitions, T."""
        return len(self.observations) - 1

    @property
    def total_reward(self) -> float:
        """The sum of the rewards; NaN for a bare trace."""
        return float("nan") if self.rewards is None else float(np.sum(self.rewards))


class StoredRollouts(NamedTuple):
    """What a reader found in a source, field by field as in `Rollouts`; a rollout may be read when its turn comes."""

    rollouts: Iterable[Rollout]
    observation_names: tuple[str, ...]
    about: dict[str, Any]
    parts: tuple[str, ...] | None = None
    action_range: Array | None = None
    choices: range | None = None
    action_names: tuple[str, ...] = ()


def as_array(name: str, key: str, values: Any) -> Array:
    """Converts a list of rows or a tensor to an array. Arrays that torch cannot share as they are, because they are
    read-only, run backwards, or are in another byte order, are copied.
    """
    if is_stored(values):
        return cast(Array, values)
    if isinstance(values, Mapping | Set | str | bytes):
        raise ValueError(f"{name}: {key} must be one array of numbers, got a {type(values).__name__}")
    values = values.detach().cpu() if hasattr(values, "detach") else values
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name}: {key} must be one array of numbers, and its rows differ in length") from error
    except TypeError as error:
        raise ValueError(f"{name}: {key} must be one array of numbers ({error})") from error
    # torch has no long double, and no other byte order than the machine's
    kind = np.dtype(np.float64) if array.dtype == np.longdouble else array.dtype.newbyteorder("=")
    shared = array.flags.writeable and min(array.strides, default=0) >= 0 and kind == array.dtype
    return array if shared else np.array(array, kind)


def is_stored(values: Any) -> bool:
    """Whether an array stays on disk."""
    return isinstance(values, StoredArray)


def check_finite(name: str, key: str, values: Array) -> None:
    """Refuses an array that is not of numbers or holds NaN or infinity; the message names the first bad position."""
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{name}: {key} must be numbers, got {values.dtype}")
    if not np.issubdtype(values.dtype, np.floating) or is_stored(values):
        return
    bad = ~np.isfinite(values)
    if bad.any():
        first = np.argwhere(bad)[0].tolist()
        more = f" ({int(bad.sum()) - 1} more like it)" if bad.sum() > 1 else ""
        raise ValueError(f"{name}: {key}{first} is {values[tuple(first)]}{more}: clean the data before you use it")


def in_words(choices: range) -> str:
    """Says which choices there are."""
    return f"the choices {choices.start} to {choices.stop - 1}"


def need_one_hot(choices: range | None) -> bool:
    """Whether actions are more than two choices, so that one number for each would put them in an order."""
    return choices is not None and len(choices) > 2


def one_hot(rollout: Rollout, choices: range) -> Rollout:
    """Returns a rollout with each choice as a vector that is 1 at the choice's place and 0 elsewhere.

    :param rollout: its actions are whole numbers, (T,)
    :param choices: what there is to choose from, such as range(5, 8) for `Discrete(3, start=5)`
    """
    if len(choices) > MOST_CHOICES:
        raise ValueError(f"{rollout.name}: {len(choices)} choices are too many for a model that reads each as a number")
    acts = rollout.actions
    if acts is None or acts.ndim != 1 or acts.dtype.kind not in "iu":
        shown = "none" if acts is None else f"an array of {acts.dtype} and shape {acts.shape}"
        raise ValueError(f"{rollout.name}: choices must be one whole number a step, and its actions are {shown}")
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
