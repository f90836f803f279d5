"""Rollouts: what one controller did in one environment, episode by episode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Rollout:
    """One episode of T steps, or a bare trace of observations.

    :param observations: (T + 1, n), the first one from the reset; the last one follows the last action
    :param actions: (T, m) or (T,) of a discrete space, as they were executed; None for a bare trace
    :param rewards: (T,)
    :param is_random: (T,) bool; true where a random action took the controller's place
    :param elapsed: (T + 1,), the time since the previous observation; None where it is always the same
    :param terminated: whether the environment ended it; false at a time limit
    :param seed: what the environment was reset with
    :param name: what to call it in a message
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
        steps = len(self.observations) - 1
        if steps < 1:
            raise ValueError(f"{self.name}: a rollout needs two observations or more, and this has {steps + 1}")
        for key, length in (("actions", steps), ("rewards", steps), ("is_random", steps), ("elapsed", steps + 1)):
            values = getattr(self, key)
            if values is not None and (not values.ndim or len(values) != length):
                raise ValueError(
                    f"{self.name}: {steps + 1} observations go with {length} {key}, but there are "
                    f"{len(values) if values.ndim else 'none'}"
                )
            if values is not None:
                refuse_bad_numbers(self.name, key, values)
        refuse_bad_numbers(self.name, "observations", self.observations)

    def __repr__(self) -> str:
        gained = "" if self.rewards is None else f", return {self.total_reward:.1f}"
        return f"Rollout({self.name}: {self.steps} steps, {self.shapes}{gained})"

    @property
    def shapes(self) -> str:
        """Of what belongs to a step, in words."""
        acted = "no actions" if self.actions is None else f"actions {self.actions.shape[1:]}"
        return f"observations {self.observations.shape[1:]}, {acted}"

    @property
    def steps(self) -> int:
        """How many transitions it has."""
        return len(self.observations) - 1

    @property
    def total_reward(self) -> float:
        """The sum of its rewards; NaN for a bare trace."""
        return float("nan") if self.rewards is None else float(np.sum(self.rewards))


def as_array(name: str, key: str, values: Any) -> Array:
    """What was given as an array: a list of rows or a tensor too."""
    values = values.detach().cpu() if hasattr(values, "detach") else values
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name}: {key} must be one array of numbers, and its rows differ in length") from error


def refuse_bad_numbers(name: str, key: str, values: Array) -> None:
    """Refuses what is no number, and NaN and infinity, naming the first position."""
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{name}: {key} must be numbers, got {values.dtype}")
    if not np.issubdtype(values.dtype, np.floating):
        return
    bad = ~np.isfinite(values)
    if bad.any():
        first = np.argwhere(bad)[0].tolist()
        more = f" ({int(bad.sum()) - 1} more like it)" if bad.sum() > 1 else ""
        raise ValueError(f"{name}: {key}{first} is {values[tuple(first)]}{more}: clean the data before it is used")


class Split(NamedTuple):
    """Whole rollouts in three parts."""

    train: Rollouts
    valid: Rollouts
    test: Rollouts


@dataclass(frozen=True)
class Rollouts(Sequence[Rollout]):
    """A list of rollouts with the same observations.

    Example::

        rollouts = Rollouts((Rollout(observations, actions), ...))  # (T + 1, n) and (T, m), arrays of yours

    :param rollouts: at least one; a part of them, `rollouts[:3]`, is another `Rollouts`
    :param observation_names: of the features, for tables and pictures
    :param about: how they were made: controller, environment, seeds, versions
    :param parts: for each rollout "train", "valid" or "test", where the source says so
    :param action_range: (2, m), the least and the greatest of each action that the environment takes; None where the
        source does not say
    """

    rollouts: tuple[Rollout, ...]
    observation_names: tuple[str, ...] = ()
    about: dict[str, Any] = field(default_factory=dict)
    parts: tuple[str, ...] | None = None
    action_range: Array | None = None

    def __post_init__(self) -> None:
        found = (self.rollouts,) if isinstance(self.rollouts, Rollout) else tuple(self.rollouts)
        object.__setattr__(self, "rollouts", found)
        if not found:
            raise ValueError("there is no rollout")
        for one in found:
            if not isinstance(one, Rollout):
                raise TypeError(
                    f"Rollouts holds episodes, each a Rollout, and was given a {type(one).__name__}: wrap your arrays, "
                    "Rollouts((Rollout(observations, actions), ...)), (T + 1, n) and (T, m)"
                )
        first = self.rollouts[0]
        for rollout in self.rollouts:
            if rollout.observations.shape[1] != first.observations.shape[1]:
                raise ValueError(
                    f"{rollout.name} has {rollout.observations.shape[1]} observations a step, "
                    f"{first.name} has {first.observations.shape[1]}: they do not belong together"
                )
            if (rollout.actions is None) != (first.actions is None):
                raise ValueError(
                    f"of {first.name} and {rollout.name} only one has actions: they do not belong together"
                )
            if rollout.actions is not None and first.actions is not None:
                own, shape = rollout.actions.shape[1:], first.actions.shape[1:]
                if own != shape:
                    raise ValueError(
                        f"{rollout.name} has actions of shape {own}, {first.name} of {shape}: "
                        "they do not belong together"
                    )
        if not self.observation_names:
            names = tuple(f"observation {k}" for k in range(self.features))
            object.__setattr__(self, "observation_names", names)

    @classmethod
    def load(cls, source: str | Path) -> Rollouts:
        """Reads rollouts from a Minari id, a Minari folder, or a folder of traces (see `read_rollouts`)."""
        from ncp_control.data.sources import read_rollouts

        return read_rollouts(source)

    @property
    def features(self) -> int:
        """Observations a step, n."""
        return int(self.rollouts[0].observations.shape[1])

    @property
    def steps(self) -> int:
        """Transitions of all rollouts."""
        return sum(rollout.steps for rollout in self.rollouts)

    def __len__(self) -> int:
        return len(self.rollouts)

    def __iter__(self) -> Iterator[Rollout]:
        return iter(self.rollouts)

    @overload
    def __getitem__(self, index: int) -> Rollout: ...

    @overload
    def __getitem__(self, index: slice) -> Rollouts: ...

    def __getitem__(self, index: int | slice) -> Rollout | Rollouts:
        if isinstance(index, slice):
            return self.select(range(len(self))[index])
        return self.rollouts[index]

    def __repr__(self) -> str:
        return f"Rollouts({len(self)} rollouts, {self.steps} steps, {self[0].shapes})"

    def select(self, indexes: Sequence[int]) -> Rollouts:
        """Some of them, in that order."""
        parts = None if self.parts is None else tuple(self.parts[k] for k in indexes)
        some = tuple(self.rollouts[k] for k in indexes)
        return replace(self, rollouts=some, parts=parts)

    def split(self, seed: int | None = None) -> Split:
        """Cuts them by whole rollouts into train, valid and test, 2 : 1 : 2.

        Where the source names the parts, those. Otherwise the first fifth is for validation, the next two fifths for
        testing and the rest for training, which for 25 traces is the split of the LTC paper's half-cheetah files.

        :param seed: shuffle the rollouts first
        """
        if self.parts is not None:
            found = {part: [k for k, own in enumerate(self.parts) if own == part] for part in Split._fields}
            missing = [part for part, indexes in found.items() if not indexes]
            if missing:
                raise ValueError(f"the source names the parts of a split, but nothing is in {' and '.join(missing)}")
            return Split(**{part: self.select(indexes) for part, indexes in found.items()})
        count = len(self)
        if count < 3:
            raise ValueError(f"{count} rollouts cannot be split into training, validation and test: at least 3 can")
        order = np.arange(count) if seed is None else np.random.default_rng(seed).permutation(count)
        valid = max(1, round(count / 5))
        test = min(max(1, round(2 * count / 5)), count - valid - 1)
        cut = order[:valid], order[valid : valid + test], order[valid + test :]
        valid_part, test_part, train_part = (self.select(indexes.tolist()) for indexes in cut)
        return Split(train=train_part, valid=valid_part, test=test_part)
