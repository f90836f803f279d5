"""What a recorded model predicted open loop, as the page and the video show it beside what really happened."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.recording.activity import Activity

Array = NDArray[Any]
# Model and world part at the first step with a greater error over variance; always predicting the mean has about 1.
PARTED = 0.5
WARM_UP = 32  # steps that a model sees before the continuation that is shown first


class BodyAhead(NamedTuple):
    """One continuation with a body.

    :param start: the first step that the model did not see
    :param ends: (H, K, 2, 2), the capsules of the predicted body
    :param parted: the step at which it parts from the real one, or None if they stay together
    """

    start: int
    ends: Array
    parted: int | None


class Continued(NamedTuple):
    """The continuations of a recording, S of H steps each.

    :param starts: (S,), the first step of each that the model did not see
    :param values: (S, H, n), the predicted observations; NaN after the recording's end
    :param errors: (S, H), squared errors over the variances of the observations, averaged over the observations
    :param ends: (S, H, K, 2, 2), the capsules of the predicted body, or None if there is none
    """

    starts: NDArray[np.int64]
    values: Array
    errors: Array
    ends: Array | None

    @property
    def parted(self) -> list[int | None]:
        """The step at which model and world part in each continuation, or None if they stay together."""
        above = self.errors > PARTED
        return [int(start + row.argmax()) if row.any() else None for start, row in zip(self.starts, above, strict=True)]

    @property
    def together(self) -> NDArray[np.int64]:
        """For how many steps model and world stay together in each, at most until the recording's end, (S,)."""
        above = self.errors > PARTED
        steps: NDArray[np.int64] = np.where(
            above.any(axis=1), above.argmax(axis=1), np.isfinite(self.errors).sum(axis=1)
        )
        return steps

    def first_shown(self, first: int = 0, last: int | None = None) -> int:
        """Returns the number of the continuation that is shown unless another one is chosen.

        It is the one that stays together with the world longest while it is shown; of equal ones, the earliest. The
        model sees at least 32 steps before it, if the recording is long enough.

        :param first: the first step that is shown
        :param last: the step after the last one that is shown; by default the recording's end
        """
        late = np.flatnonzero(self.starts >= max(first, WARM_UP))
        if not len(late):
            return len(self.starts) - 1
        seen = self.together if last is None else np.minimum(self.together, last - self.starts)
        return int(late[seen[late].argmax()])

    def run(self, look: int | None, first: int = 0, last: int | None = None) -> BodyAhead | None:
        """Returns a continuation, or None if it has no body.

        :param look: its first step, which the model does not see; by default as in `first_shown`
        :param first: the first step that is shown
        :param last: the step after the last one that is shown; by default the recording's end
        """
        if look is not None and look not in self.starts:
            nearest = int(self.starts[np.abs(self.starts - look).argmin()])
            raise ValueError(f"no prediction was recorded from step {look} on: the nearest begins at step {nearest}")
        number = self.first_shown(first, last) if look is None else int((self.starts == look).argmax())
        return (
            None if self.ends is None else BodyAhead(int(self.starts[number]), self.ends[number], self.parted[number])
        )


def continued_of(activity: Activity) -> Continued | None:
    """Returns the continuations of a recording, or None if it has none."""
    starts, values, errors = (
        activity.get(name) for name in ("continuation_starts", "continuations", "continuation_errors")
    )
    if starts is None or values is None or errors is None or not errors.size:
        return None
    ends = activity.get("continuation_ends")
    return Continued(starts.astype(np.int64), values, errors, ends if activity.get("body_ends") is not None else None)
