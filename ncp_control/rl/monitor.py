"""The ranges in which an agent was certified, checked while it acts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FORMAT = "ncp_control monitor 1"
NOT_FINITE, OBSERVATION, STATE, ELAPSED = 1, 2, 4, 8  # bits, because one step can raise several
NO_MONITOR = "this is not a monitor: `ncp-control audit CHECKPOINT --monitor FILE` writes one, and so does `prove`"
FLAGS = {
    NOT_FINITE: "the observation, the elapsed time or what follows from them is not finite, or the time is negative",
    OBSERVATION: "an observation lies outside the certified range",
    STATE: "a state lies outside the certified range",
    ELAPSED: "the elapsed time lies outside the certified range",
}
CLAIMED = "What was proved, for code in float whose flags are all 0, and 1 as the elapsed time"
ARRAYS = ("observation_low", "observation_high", "state_low", "state_high")
TIMES = ("elapsed_low", "elapsed_high")


@dataclass(frozen=True, eq=False)
class Monitor:
    """The ranges outside which nothing was certified. `Controller` and the C code raise a flag there.

    Flags are bits that add up, see `FLAGS`. A step that cannot be computed raises `NOT_FINITE` alone and leaves the
    state as it was: its observation, its elapsed time or what follows from them is not finite, or the time is
    negative.

    :param observation_low: the least certified value of every observation, before normalisation, (n,)
    :param observation_high: the greatest, (n,)
    :param state_low: the least certified value of every number of the state, (N,)
    :param state_high: the greatest, (N,)
    :param elapsed_low: the shortest certified time between two observations
    :param elapsed_high: the longest
    :param sha256: the checksum of the agent's file; empty for ranges of one's own
    :param claim: what holds as long as no flag is raised, line by line; empty if only the ranges were certified
    """

    observation_low: NDArray[np.float32]
    observation_high: NDArray[np.float32]
    state_low: NDArray[np.float32]
    state_high: NDArray[np.float32]
    elapsed_low: float = 0.0
    elapsed_high: float = float("inf")
    sha256: str = ""
    claim: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ARRAYS:
            values = np.array(getattr(self, name), dtype=np.float32)
            if values.ndim != 1 or np.isnan(values).any():
                raise ValueError(f"{name} of a monitor must be a list of numbers, got {getattr(self, name)!r}")
            object.__setattr__(self, name, values)
        for what in ("observation", "state"):
            low, high = getattr(self, f"{what}_low"), getattr(self, f"{what}_high")
            if low.shape != high.shape or (low > high).any():
                raise ValueError(f"{what}_low of a monitor must be as long as {what}_high, and nowhere above it")
        if not 0 <= self.elapsed_low <= self.elapsed_high:
            raise ValueError(
                f"the elapsed times of a monitor must be 0 <= low <= high, got {self.elapsed_low}, {self.elapsed_high}"
            )

    @classmethod
    def around(
        cls,
        observations: ArrayLike,
        states: ArrayLike,
        elapsed: tuple[float, float],
        sha256: str,
        claim: tuple[str, ...] = (),
    ) -> Monitor:
        """Returns a monitor of ranges in float64. They are rounded outward, so that what is certified raises no flag.

        :param observations: the least and the greatest value of every observation, (n, 2)
        :param states: the same of every number of the state, (N, 2)
        :param elapsed: the shortest and the longest time between two observations
        :param sha256: the checksum of the agent's file
        :param claim: what holds as long as no flag is raised, line by line
        """
        ends = []
        for ranges in (observations, states):
            low, high = np.asarray(ranges, dtype=np.float32).reshape(-1, 2).T
            ends += [np.nextafter(low, np.float32(-np.inf)), np.nextafter(high, np.float32(np.inf))]
        return cls(ends[0], ends[1], ends[2], ends[3], *elapsed, sha256, claim)

    def check_fits(self, observations: int, states: int, sha256: str) -> None:
        """Refuses an agent of other sizes, and another agent than the certified one."""
        sizes = len(self.observation_low), len(self.state_low)
        if sizes != (observations, states):
            raise ValueError(
                f"this monitor is for {sizes[0]} observations and a state of {sizes[1]}, and the agent has "
                f"{observations} and {states}: make one with `ncp-control audit CHECKPOINT --monitor FILE`"
            )
        if self.sha256 not in ("", sha256):
            raise ValueError(
                "this monitor was made for another agent, whose neurons have other ranges: make one with `ncp-control "
                "audit CHECKPOINT --monitor FILE`"
            )

    def to_json(self) -> str:
        """Returns the ranges as JSON, in which an infinite end is null."""
        values: dict[str, Any] = {"format": FORMAT, "sha256": self.sha256}
        for name in (*ARRAYS, *TIMES):
            values[name] = _finite_or_none(getattr(self, name))
        return json.dumps(values | ({"claim": self.claim} if self.claim else {}))

    @classmethod
    def from_json(cls, text: str) -> Monitor:
        """Reads what `to_json` wrote."""
        try:
            values = json.loads(text)
            if values["format"] != FORMAT:
                raise ValueError
            sha256 = str(values["sha256"])
            ends = {"low": -np.inf, "high": np.inf}
            arrays = {
                name: [ends[name.rpartition("_")[2]] if value is None else float(value) for value in values[name]]
                for name in ARRAYS
            }
            claim = values.get("claim", [])
            if not (isinstance(claim, list) and all(isinstance(line, str) for line in claim)):
                raise ValueError
            times = [float("inf") if values[name] is None else float(values[name]) for name in TIMES]
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(NO_MONITOR) from error
        low, high, state_low, state_high = (np.array(arrays[name], dtype=np.float32) for name in ARRAYS)
        return cls(low, high, state_low, state_high, times[0], times[1], sha256, tuple(claim))


def _finite_or_none(value: ArrayLike) -> Any:
    numbers = np.asarray(value, dtype=np.float64)
    if numbers.ndim:
        return [_finite_or_none(number) for number in numbers]
    return float(numbers) if np.isfinite(numbers) else None
