"""The steps that a student learns from: what it saw, and what its teacher would have done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncp_control.data.episodes import stack

Array = NDArray[Any]
ALONE = ""  # the key of observations that are no dictionaries


@dataclass
class Demonstrations:
    """Episodes one after another, as one stream of M steps.

    :ivar observations: what the student saw, (M, ...); by the keys of a dictionary, or under `ALONE`
    :ivar labels: the teacher's action in each step, (M, ...)
    :ivar starts: (M,) bool, true where an episode begins
    :ivar own: (M,) bool, true in the episodes in which the teacher acted alone
    :ivar counts: (M,) bool, false where the label is not the teacher's choice, so that nobody learns it; by default all
        count
    """

    observations: dict[str, Array] = field(default_factory=dict)
    labels: Array = field(default_factory=lambda: np.zeros(0))
    starts: Array = field(default_factory=lambda: np.zeros(0, dtype=bool))
    own: Array = field(default_factory=lambda: np.zeros(0, dtype=bool))
    counts: Array = field(default_factory=lambda: np.zeros(0, dtype=bool))

    def __post_init__(self) -> None:
        if not len(self.counts):
            self.counts = np.ones(len(self), dtype=bool)

    def __len__(self) -> int:
        return len(self.starts)

    def arrays(self) -> dict[str, Array]:
        """Returns everything as named arrays, from which `of_arrays` makes it again."""
        seen = {f"observations.{key}": values for key, values in self.observations.items()}
        return {**seen, "labels": self.labels, "starts": self.starts, "own": self.own, "counts": self.counts}

    @classmethod
    def of_arrays(cls, arrays: dict[str, Array]) -> Demonstrations:
        """Makes demonstrations of the arrays that `arrays` returned."""
        prefix = "observations."
        seen = {key.removeprefix(prefix): values for key, values in arrays.items() if key.startswith(prefix)}
        lengths = {len(values) for values in arrays.values()}
        if not seen or len(lengths) != 1 or not {"labels", "starts", "own"} <= arrays.keys():
            raise ValueError("its arrays are not of the same steps")
        flags = {key: arrays[key].astype(bool) for key in ("starts", "own", "counts") if key in arrays}
        return cls(seen, arrays["labels"], **flags)

    def first(self, steps: int) -> Demonstrations:
        """Returns the first steps alone."""
        return Demonstrations.of_arrays({key: values[:steps] for key, values in self.arrays().items()})

    @classmethod
    def joined(cls, parts: list[Demonstrations]) -> Demonstrations:
        """Puts demonstrations one after another."""
        parts = [part for part in parts if len(part)]
        if not parts:
            return cls()
        named = [part.arrays() for part in parts]
        return cls.of_arrays({key: np.concatenate([one[key] for one in named]) for key in named[0]})


def demonstrations_of(seen: list[Any], labels: list[Any], own: bool) -> Demonstrations:
    """Makes demonstrations of an episode's steps.

    :param seen: the student's observation in each step
    :param labels: the teacher's action in each step
    :param own: whether the teacher acted alone
    """
    if not seen:
        return Demonstrations()
    starts = np.arange(len(seen)) == 0
    stacked = stack(seen)
    arrays = stacked if isinstance(stacked, dict) else {ALONE: stacked}
    return Demonstrations(arrays, np.array(labels), starts, np.full(len(seen), own))
