"""The digits that data far from zero loses in float32, in which models read and predict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ncp_control.data.rollouts import Rollouts
from ncp_control.data.scaler import STILL, Array, blocks, moments

MOST = 0.01  # of a standard deviation that float32 may round away
OF_CHANGE = 0.1  # of a change from one row to the next, likewise
UNMOVED = 1e-6  # smaller changes than this share of the standard deviation are noise in what stays the same


def check_digits(train: Rollouts, names: Sequence[str], what: str = "observations") -> None:
    """Refuses rollouts in which float32 would round away what there is to learn or to measure.

    Numbers that a file holds as float32 are taken as they are.

    :param train: the training part
    :param names: a name for each feature
    :param what: "observations" or "actions"
    """
    if all(np.can_cast(getattr(rollout, what).dtype, np.float32) for rollout in train):
        return
    mean, std, largest = moments(train, what)
    moved = std if what == "actions" else np.hypot(*moments(train, "changes")[:2])
    refuse_lost(mean, std, largest, moved, rounded(blocks(train, what)), names)


def check_columns(rows: Array, names: Sequence[str]) -> None:
    """Refuses columns of a table, (rows, n) with NaN where a value is missing, of which float32 would lose too much."""
    if not np.can_cast(rows.dtype, np.float32):
        mean, std, largest = np.nanmean(rows, axis=0), np.nanstd(rows, axis=0), np.nanmax(np.abs(rows), axis=0)
        refuse_lost(mean, std, largest, std, rounded([rows]), names)


def refuse_lost(mean: Array, std: Array, largest: Array, moved: Array, lost: Array, names: Sequence[str]) -> None:
    """Refuses features of which float32 rounds away too much.

    :param mean: of each feature, (n,), as all that follow
    :param std: its standard deviation
    :param largest: its largest absolute value
    :param moved: the root mean square of its change from one row to the next
    :param lost: the root mean square of what float32 rounds away
    :param names: a name for each
    """
    # what never changes has nothing to lose
    known = np.isfinite(std) & (std > STILL * np.maximum(1.0, largest))
    moves = np.where(moved > UNMOVED * std, moved, np.inf)
    lost_too_much = known & ((lost > MOST * std) | (lost > OF_CHANGE * moves))
    if lost_too_much.any():
        k = int(np.argmax(lost_too_much))
        raise ValueError(
            f"{names[k]} lies too far from zero: models compute in float32, which rounds it by {lost[k]:.2g}, and its "
            f"standard deviation is {std[k]:.2g}; subtract a constant such as {mean[k]:.10g} from it before the fit"
        )


def rounded(rows: Iterable[Array]) -> Array:
    """Returns the root mean square of what float32 rounds away of each column of several blocks of rows, (n,).

    Numbers that are too large for it, which are refused elsewhere, and NaN lose nothing here.
    """
    count, square = 0, np.float64(0)
    for block in rows:
        with np.errstate(over="ignore", invalid="ignore"):
            lost = block - block.astype(np.float32)
        square = square + np.square(np.where(np.isfinite(lost), lost, 0.0)).sum(axis=0)
        count += len(block)
    return np.asarray(np.sqrt(square / count))
