"""Rollouts of one policy in one environment: read from a source, selected, and split for training and testing.

The rules of splitting stand at the end of this file.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np

from ncp_control.base.files import temporary_folder
from ncp_control.base.ranks import Ranks
from ncp_control.base.text import shown
from ncp_control.data.rollout import PARTS, Array, Rollout, need_one_hot, one_hot, range_of_one_hot
from ncp_control.data.sources import read_source
from ncp_control.data.streaming import keep_on_disk

# The LTC paper's traces of the half-cheetah: their names, their number, and the shape of each.
PAPER_NAME, PAPER_COUNT, PAPER_SHAPE = re.compile(r"trace_\d{4}\.npy"), 25, (1000, 17)


class Split(NamedTuple):
    """Three disjoint sets of rollouts."""

    train: Rollouts
    valid: Rollouts
    test: Rollouts

    @classmethod
    def joined(cls, splits: Sequence[Split]) -> Split:
        """Joins the splits of several sources part by part, so that what is for testing in one stays for testing."""
        if len({part.about.get("series", False) for split in splits for part in split}) > 1:
            raise ValueError("pieces of a series and episodes of an environment are not fitted together")
        return cls(*(Rollouts.joined(parts) for parts in zip(*splits, strict=True)))


@dataclass(frozen=True)
class Rollouts(Sequence[Rollout]):
    """A sequence of rollouts with the same observations and actions. A slice, such as `rollouts[:3]`, is one too.

    Example::

        rollouts = Rollouts((Rollout(observations, actions), ...))  # your own arrays, (T + 1, n) and (T, m)

    :param rollouts: at least one
    :param observation_names: a name for each feature, for tables and figures
    :param about: how the rollouts were made: policy, environment, seeds, versions
    :param parts: "train", "valid" or "test" for each rollout, where the source names its part
    :param action_range: (2, m), the least and the greatest value of each action that the environment accepts; None
        where the source does not say
    :param choices: what actions from a `Discrete` space are chosen from, such as range(5, 8) for
        `Discrete(3, start=5)`; None for other actions, or where the source does not say
    :param action_names: a name for each entry of an action, such as a table's columns to read; empty where the source
        does not say
    """

    rollouts: tuple[Rollout, ...]
    observation_names: tuple[str, ...] = ()
    about: dict[str, Any] = field(default_factory=dict)
    parts: tuple[str, ...] | None = None
    action_range: Array | None = None
    choices: range | None = None
    action_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        rollouts = (self.rollouts,) if isinstance(self.rollouts, Rollout) else tuple(self.rollouts)
        object.__setattr__(self, "rollouts", rollouts)
        if not rollouts:
            raise ValueError("Rollouts needs at least one rollout, and was given none")
        for episode in rollouts:
            if not isinstance(episode, Rollout):
                raise TypeError(
                    f"Rollouts holds episodes, each a Rollout, and was given a {type(episode).__name__}: wrap your "
                    "arrays, Rollouts((Rollout(observations, actions), ...)), (T + 1, n) and (T, m)"
                )
        for rollout in rollouts:
            check_same_form(rollouts[0], rollout)
        if not self.observation_names:
            object.__setattr__(self, "observation_names", usual_names(self.features))
        for what, entries, count in (
            ("observation_names", self.observation_names, self.features),
            ("parts", self.parts, len(rollouts)),
            ("action_names", self.action_names or None, self.action_size),
        ):
            if entries is not None and len(entries) != count:
                raise ValueError(f"there are {len(entries)} {what}, and there must be {count}")

    @classmethod
    def load(cls, source: str | Path | Any) -> Rollouts:
        """Reads rollouts.

        :param source: one of

            - a Minari id, such as "ncp/halfcheetah/teacher-r05-v0", of a dataset on this machine;
            - a dataset that `minari.load_dataset` or `filter_episodes` returned;
            - the folder of a Minari dataset (the one that contains `data/`, or `data` itself);
            - a folder of `.npy` or `.npz` traces, which are read in the order of their names;
            - a folder that contains `train/`, `valid/` and `test/`, each a folder of traces;
            - one `.npy` or `.npz` file;
            - a table, `.csv`, `.tsv` or `.parquet`, with what its columns are for, all of it optional:
              "FILE.csv:time=COLUMN,group=COLUMN,predict=A+B,read=C+D"
        """
        stored = read_source(source)
        return cls(tuple(stored.rollouts), *stored[1:])

    @classmethod
    def stream(
        cls, source: str | Path | Any, folder: str | Path | None = None, *, one_hot: bool = False,
        ranks: Ranks | None = None,
    ) -> Rollouts:  # fmt: skip
        """Reads rollouts that are larger than the memory: their arrays stay on disk, and what is needed of them is read
        when it is needed.

        Every rollout is read and checked once, one after the other, and copied into a temporary file that ends with
        the process. It takes as much room on the disk as the arrays would take in memory. `Scaler.fit`, `Windows` and
        `fit` read from it a piece at a time; the numbers, and the order of windows, are those of rollouts in memory.

        :param source: as in `load`
        :param folder: a folder on a disk with enough room; by default the system's folder for temporary files
        :param one_hot: keep choices as `Rollouts.one_hot` makes them, which would read all rollouts into memory
        :param ranks: processes that read the same rollouts; the first of each machine makes the copy for all of them
        """
        place = Path(tempfile.gettempdir() if folder is None else folder)
        with temporary_folder(place / "rollouts") as scratch:

            def copied() -> Rollouts:
                stored = keep_on_disk(source, scratch, one_hot)
                return cls(tuple(stored.rollouts), *stored[1:])

            return (ranks or Ranks()).once_a_machine(copied)

    @classmethod
    def joined(cls, several: Sequence[Rollouts]) -> Rollouts:
        """Joins rollouts of several sources, which must have the same observations and actions, in their order.

        Names, choices and the range of actions are taken from the sources that have them; `about` keeps
        the entries on which all sources agree.
        """
        first, *rest = several
        if not rest:
            return first
        names = {
            part.observation_names: part for part in several if part.observation_names != usual_names(part.features)
        }
        acts = {part.action_names: part for part in several if part.action_names}
        choices = {part.choices: part for part in several if part.choices is not None}
        for what, versions in (("observations", names), ("actions", acts), ("choices of actions", choices)):
            if len(versions) > 1:
                one, other = list(versions)[:2]
                raise ValueError(f"{what} differ, {one} and {other}: these rollouts do not belong together")
        ranges = [part.action_range for part in several if part.action_range is not None]
        return cls(
            tuple(rollout for part in several for rollout in part),
            next(iter(names), ()),
            {key: value for key, value in first.about.items() if all(part.about.get(key) == value for part in rest)},
            action_range=np.stack([np.min(ranges, axis=0)[0], np.max(ranges, axis=0)[1]]) if ranges else None,
            choices=next(iter(choices), None),
            action_names=next(iter(acts), ()),
        )

    @property
    def features(self) -> int:
        """The number of observations at each step, n."""
        return int(self.rollouts[0].observations.shape[1])

    @property
    def action_size(self) -> int:
        """The number of numbers in an action, m; 0 without actions."""
        actions = self.rollouts[0].actions
        return 0 if actions is None else int(np.prod(actions.shape[1:]))

    @property
    def steps(self) -> int:
        """The number of transitions in all rollouts together."""
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
        level = f", level {shown(str(self.about['level']))}" if "level" in self.about else ""
        gained = ""
        if self[0].rewards is not None:
            returns = np.array([rollout.total_reward for rollout in self])
            gained = f", return {returns.mean():.1f} +- {returns.std():.1f}, lowest {returns.min():.1f}"
        return f"Rollouts({len(self)} rollouts, {self.steps} steps, {self[0].shapes}{level}{gained})"

    def select(self, indexes: Sequence[int]) -> Rollouts:
        """Returns the rollouts at these places, in this order."""
        parts = None if self.parts is None else tuple(self.parts[k] for k in indexes)
        some = tuple(self.rollouts[k] for k in indexes)
        return replace(self, rollouts=some, parts=parts)

    def one_hot(self) -> Rollouts:
        """Returns the same rollouts with each choice from a `Discrete` space as a vector, 1 at the choice's place and 0
        elsewhere, because the order of choices means nothing to a model. Two choices, which one number tells apart, and
        other actions stay as they are.
        """
        if self.choices is None or not need_one_hot(self.choices):
            return self
        rollouts = tuple(one_hot(rollout, self.choices) for rollout in self)
        return replace(
            self, rollouts=rollouts, action_range=range_of_one_hot(self.choices), choices=None, action_names=()
        )

    def split(self, seed: int | None = None, series: bool | None = None) -> Split:
        """Splits rollouts into train, valid and test, 2 : 1 : 2.

        - Where the source names the parts, they are used as they are.
        - Rollouts without rewards and seeds may be pieces of one series, in the order of time. The first ones are for
          training, the next ones for validation, and the last ones for testing. A single rollout is cut likewise.
        - Of the episodes of an environment, which have rewards or seeds, the first fifth is for validation, the next
          two fifths are for testing, and the rest is for training. The LTC paper's 25 half-cheetah traces are split
          like this too, as its files were.

        The entry "series" in the parts' `about` says whether they were split in time.

        :param seed: shuffle whole rollouts first, by this seed
        :param series: whether the rollouts are pieces of one series; None decides as described
        """
        if self.parts is not None:
            places = {part: [k for k, own in enumerate(self.parts) if own == part] for part in PARTS}
            missing = [part for part, indexes in places.items() if not indexes]
            if missing:
                raise ValueError(f"the source names the parts of a split, but nothing is in {' and '.join(missing)}")
            return Split(**{part: self.select(indexes) for part, indexes in places.items()})
        count = len(self)
        if series is None:
            # whoever gives a seed wants whole rollouts to be shuffled
            series = seed is None and (count == 1 or is_series(self))
        if series and seed is not None:
            raise ValueError("pieces of a series stay in the order of time: split them without a seed")
        if count == 1 and series and self[0].steps >= len(PARTS):
            pieces = (piece(self[0], steps) for steps in cut_in_time(self[0].steps))
            return Split(*(self._part((cut,), series) for cut in pieces))
        if count < len(PARTS):
            raise ValueError(
                f"rollouts are split into training, validation and test, so there must be at least 3, not {count}; a "
                "single one of at least 3 steps is cut in the order of time, without a seed"
            )
        parts = cut_in_time(count) if series else cut_episodes(count, seed)
        return Split(*(self._part(tuple(self[k] for k in part), series) for part in parts))

    def _part(self, rollouts: tuple[Rollout, ...], series: bool) -> Rollouts:
        return replace(self, rollouts=rollouts, about={**self.about, "series": series})


def usual_names(count: int, kind: str = "observation") -> tuple[str, ...]:
    """Returns the names of observations, or of another kind of numbers, that nobody has named."""
    return tuple(f"{kind} {k}" for k in range(count))


def check_same_form(first: Rollout, second: Rollout) -> None:
    """Refuses two rollouts whose observations or actions differ in shape."""
    if second.observations.shape[1] != first.observations.shape[1]:
        raise ValueError(
            f"{second.name} has {second.observations.shape[1]} observations a step, "
            f"{first.name} has {first.observations.shape[1]}: they do not belong together"
        )
    if (second.actions is None) != (first.actions is None):
        raise ValueError(f"of {first.name} and {second.name} only one has actions: they do not belong together")
    if second.actions is not None and first.actions is not None:
        own, shape = second.actions.shape[1:], first.actions.shape[1:]
        if own != shape:
            raise ValueError(
                f"{second.name} has actions of shape {own}, {first.name} of {shape}: they do not belong together"
            )


def is_paper_data(rollouts: Sequence[Rollout]) -> bool:
    """Whether these are the LTC paper's 25 traces, in their order."""
    names = [f"trace_{k:04d}.npy" for k in range(PAPER_COUNT)]
    return [rollout.name for rollout in rollouts] == names and all(map(is_of_paper, rollouts))


def is_of_paper(rollout: Rollout) -> bool:
    """Whether this is one of the LTC paper's traces, by its name and its form."""
    is_bare = rollout.actions is None and rollout.elapsed is None
    return is_bare and bool(PAPER_NAME.fullmatch(rollout.name)) and rollout.observations.shape == PAPER_SHAPE


def is_series(rollouts: Sequence[Rollout]) -> bool:
    """Whether rollouts may be pieces of one series, in the order of time: nothing says that each began anew, as the
    episodes of an environment do, which have rewards or a seed.
    """
    return not any(
        rollout.rewards is not None or rollout.seed is not None or is_of_paper(rollout) for rollout in rollouts
    )


def sizes_of(count: int) -> tuple[int, int, int]:
    """Divides a count of at least 3 into training, validation and test, 2 : 1 : 2."""
    valid = max(1, round(count / 5))
    # something must be left for training
    test = min(max(1, round(2 * count / 5)), count - valid - 1)
    return count - valid - test, valid, test


def cut_in_time(count: int) -> tuple[range, range, range]:
    """Returns what comes first for training, what follows for validation, and what comes last for testing."""
    train, valid, _ = sizes_of(count)
    return range(train), range(train, train + valid), range(train + valid, count)


def cut_episodes(count: int, seed: int | None) -> tuple[list[int], list[int], list[int]]:
    """Returns the numbers of episodes for training, validation and testing, shuffled first if there is a seed.

    The first fifth is for validation and the next two fifths are for testing, as in the LTC paper.
    """
    order = np.arange(count) if seed is None else np.random.default_rng(seed).permutation(count)
    _, valid, test = sizes_of(count)
    parts = order[valid + test :], order[:valid], order[valid : valid + test]
    train_part, valid_part, test_part = (part.tolist() for part in parts)
    return train_part, valid_part, test_part


def piece(rollout: Rollout, steps: range) -> Rollout:
    """Returns some steps of a rollout. The observation between two adjacent pieces belongs to both."""
    acts, seen = slice(steps.start, steps.stop), slice(steps.start, steps.stop + 1)
    return Rollout(
        rollout.observations[seen],
        actions=None if rollout.actions is None else rollout.actions[acts],
        rewards=None if rollout.rewards is None else rollout.rewards[acts],
        is_random=None if rollout.is_random is None else rollout.is_random[acts],
        elapsed=None if rollout.elapsed is None else rollout.elapsed[seen],
        terminated=rollout.terminated and steps.stop == rollout.steps,
        seed=None if steps.start else rollout.seed,  # a seed replays an episode from its reset on
        name=f"{rollout.name}, steps {steps.start} to {steps.stop}",
    )
