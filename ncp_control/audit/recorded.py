"""A recording along which the effect of an error is computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncp_control.audit.box import check_recording
from ncp_control.base.intervals import Array
from ncp_control.neurons.ranges import Elapsed
from ncp_control.rl.controller import Controller


@dataclass(frozen=True, eq=False)
class RecordedPath:
    """What an agent saw, step by step, in one episode or in several.

    :param observations: (T, n)
    :param elapsed: the time since the observation before, (T,); None if nothing is known of it
    :param starts: whether an episode, and so a new state, begins at the step, (T,); None for a single episode
    """

    observations: Array
    elapsed: Array | None = None
    starts: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, given: Any) -> RecordedPath:
        """Returns a recording as it is, and observations (T, n) as one of a single episode."""
        return given if isinstance(given, RecordedPath) else cls(np.asarray(given, dtype=np.float64))

    def check(self, controller: Controller) -> None:
        """Refuses a recording that an agent cannot read."""
        check_recording(self.observations, len(controller.sensors))
        steps = len(self.observations)
        for what, values in (("elapsed times", self.elapsed), ("starts of episodes", self.starts)):
            if values is not None and values.shape != (steps,):
                raise ValueError(f"the recording has {what} of shape {values.shape}, and must have ({steps},)")

    def times(self, controller: Controller, certified: Elapsed) -> Array:
        """Returns the time between the observations, (T,), in steps of the training, all within the certified times."""
        steps, (low, high) = len(self.observations), certified
        uses_times = controller.reads_elapsed or (controller.rnn is not None and controller.rnn.cell.uses_elapsed)
        if not uses_times or (low == high and self.elapsed is None):
            return np.full(steps, low)
        if self.elapsed is None:
            raise ValueError(
                f"the recording does not say when it was made, and the audit is of times from {low:g} to {high:g}: "
                "give its elapsed times, or one time for both ends"
            )
        # In float32, as an agent reads them: a recorded 0.1 then lies within times that end at 0.1.
        own = self.elapsed.astype(np.float32)
        inside = (own >= np.float32(low)) & (own <= np.float32(high))
        if not inside.all():
            raise ValueError(
                f"the times between the recording's observations are from {own.min():g} to {own.max():g}, and the "
                f"audit is of times from {low:g} to {high:g}: give elapsed times that contain those of the recording"
            )
        return np.clip(self.elapsed.astype(np.float64), low, high)

    def begins(self) -> NDArray[np.bool_]:
        """Returns whether an episode begins at each step, (T,)."""
        begins = np.zeros(len(self.observations), dtype=np.bool_)
        if self.starts is not None:
            begins[:] = self.starts
        begins[:1] = True  # whatever the recording says of its first step
        return begins
