"""The recorded body at a few steps as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ncp_control.activity.body import flat_body, heights
from ncp_control.activity.figures.gait import find_gait
from ncp_control.activity.figures.labels import sentence_figure
from ncp_control.activity.recording.activity import Activity
from ncp_control.base.pages import GREY, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POSES, COLUMNS = 8, 4


def body_figure(activity: Activity, steps: Sequence[int] | None = None) -> Figure:
    """Draws the body at a few steps, all of them at the same scale.

    :param activity: a recorded rollout
    :param steps: the steps; by default eight over one cycle of a clear gait, or else over the longest episode
    """
    from matplotlib.collections import PolyCollection

    body = flat_body(activity)
    if body is None:
        return sentence_figure("No body was recorded.")
    shown = [*(chosen_steps(activity) if steps is None else steps)]
    for step in shown:
        if not 0 <= step < activity.steps:
            raise ValueError(f"step {step} was not recorded: name steps from 0 to {activity.steps - 1}")
    if not shown:
        raise ValueError("name at least one step to draw")
    middle = np.nan_to_num(body.middle)
    across = np.nan_to_num(body.ends[..., 0][:, body.moving])[shown] - middle[shown, 0, None, None]
    reach = 1.1 * float((np.abs(across) + body.radii[body.moving][:, None]).max())
    low, high = heights(body, rare=0)
    if body.ground is not None and not body.above:
        low = min(low, body.ground)
    # A narrow body has room to both sides, because very tall panels do not fit on a page.
    reach, room = max(reach, 0.4 * (high - low)), 0.06 * (high - low)
    columns = min(COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    wide = 10 / columns
    figure = new_figure(10, rows * (wide * (high - low) / (2 * reach) + 0.35))
    grid = figure.subplots(rows, columns, squeeze=False)
    seconds = activity.seconds_per_step
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, step in zip(grid.flat, shown, strict=False):
        at = middle[step] if body.above else np.array([middle[step, 0], 0.0])
        outlines, colours = body.drawn(step, at)
        axes.add_collection(PolyCollection(list(outlines), facecolors=colours, edgecolors="white", linewidths=0.6))
        if body.ground is not None and not body.above:
            axes.axhline(body.ground, color=GREY, linewidth=0.8, zorder=0)
        axes.set(xlim=(-reach, reach), ylim=(low - room, high + room), aspect="equal")
        time = f", {step * seconds:.2f} s" if seconds else ""
        axes.set_title(f"step {step}{time}", fontsize=8)
    return figure


def chosen_steps(activity: Activity) -> list[int]:
    """Returns a few steps over one cycle of a clear gait, or else over the longest episode."""
    where = max(activity.episodes, key=lambda one: one.stop - one.start)
    gait = find_gait(activity)
    first, length = where.start, where.stop - where.start
    if gait is not None and gait.share >= gait.needed:
        first, length = first + length // 2, min(max(round(1 / gait.frequency), POSES), length - length // 2)
    return [int(step) for step in np.unique(np.linspace(first, first + length, POSES, endpoint=False).astype(int))]
