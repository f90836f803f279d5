"""The recorded body in the plane it moves in: where the camera looks, and the outlines of its capsules."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.recording.activity import Activity

Array = NDArray[Any]
CAMERA_STEPS = 10  # to each side of a step, over which the camera's position is a mean


class View(NamedTuple):
    """The part of the body's plane that the camera sees.

    :param x: (T,), its middle for every recorded step, in metres
    :param low: its lowest height
    :param width: in metres
    :param height: in metres
    """

    x: Array
    low: float
    width: float
    height: float


def has_body(activity: Activity) -> bool:
    """Says whether the recording has capsules."""
    return activity.get("body_ends") is not None and activity.get("body_radii") is not None


def camera_path(activity: Activity, x: Array) -> Array:
    """Returns where the camera looks, (T,): a moving mean of positions (T,), so that strides stay visible."""
    found = np.empty(len(x))
    size = 2 * CAMERA_STEPS + 1
    for where in activity.episodes:
        padded = np.pad(np.nan_to_num(x[where]), CAMERA_STEPS, mode="edge")
        found[where] = np.convolve(padded, np.full(size, 1 / size), mode="valid")
    return found


def body_view(activity: Activity, aspect: float) -> View:
    """Returns a view of the recorded body that fits every step.

    :param activity: a recorded rollout with a body
    :param aspect: the view's width over its height
    """
    ends, radius = activity.extras["body_ends"], float(activity.extras["body_radii"].max(initial=0.0))
    ends = np.nan_to_num(np.asarray(ends, np.float64))
    x = camera_path(activity, ends[..., 0].mean((1, 2)))
    reach = float(np.abs(ends[..., 0] - x[:, None, None]).max()) + radius
    # Percentiles, because a single jump should not shrink everything else, and little happens below the ground.
    top = float(np.percentile(ends[..., 1].max((1, 2)), 99)) + radius
    low = min(0.0, float(np.percentile(ends[..., 1].min((1, 2)), 1)) - radius)
    tall = max(1.3 * (top - low), 2.2 * reach / aspect)
    return View(x, low - 0.13 * tall, tall * aspect, tall)


def capsule_outlines(ends: Array, radii: Array, points: int = 9) -> Array:
    """Returns the outlines of capsules, each with a half circle at either end, (K, 2 P, 2).

    :param ends: (K, 2, 2)
    :param radii: (K,)
    :param points: P, how many points a half circle has
    """
    along = ends[:, 1] - ends[:, 0]
    angle = np.arctan2(along[:, 1], along[:, 0])
    turn = np.linspace(-np.pi / 2, np.pi / 2, points)
    arcs = []
    for end, towards in ((1, angle), (0, angle + np.pi)):
        at = towards[:, None] + turn
        arcs.append(ends[:, end, None] + radii[:, None, None] * np.stack([np.cos(at), np.sin(at)], -1))
    return np.concatenate(arcs, axis=1)


def tick_distance(about: float) -> float:
    """Returns the greatest of 1, 2 and 5 times a power of ten that is not above `about`."""
    power = 10.0 ** math.floor(math.log10(max(about, 1e-6)))
    return max(step * power for step in (1, 2, 5) if step * power <= about * (1 + 1e-9))
