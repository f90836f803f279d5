"""The frame of a video in inches and in pixels, and where its camera looks."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.body import FlatBody, heights
from ncp_control.activity.recording.activity import Activity

Array = NDArray[Any]
# The frame's height in inches, whatever its pixels are: text and lines grow with the frame.
INCHES = 7.2
CAMERA_STEPS = 10  # the camera's position is a mean over so many steps to each side


class Box(NamedTuple):
    """A rectangle of the frame, in inches from its lower left corner."""

    left: float
    bottom: float
    width: float
    height: float


def body_box(width: int, height: int) -> Box:
    """Returns where the body is drawn in a frame of that many pixels."""
    wide = INCHES * width / height
    return Box(0.25, 4.25, 0.46 * wide - 0.1, 2.4)


def pixels(box: Box, height: int) -> tuple[int, int]:
    """Returns a box's width and height in pixels, in a frame that is `height` pixels high."""
    dpi = height / INCHES
    return round(box.width * dpi), round(box.height * dpi)


class View(NamedTuple):
    """The part of the body's plane that the camera sees.

    :param middle: (T, 2), where it looks at every recorded step, in metres; at a body from the side always at height 0
    :param low: its lowest height, relative to that
    :param width: in metres
    :param height: in metres
    """

    middle: Array
    low: float
    width: float
    height: float


def camera_path(activity: Activity, x: Array) -> Array:
    """Returns where the camera looks, (T,): a moving mean of positions (T,), so that strides stay visible."""
    path = np.empty(len(x))
    size = 2 * CAMERA_STEPS + 1
    for where in activity.episodes:
        padded = np.pad(np.nan_to_num(x[where]), CAMERA_STEPS, mode="edge")
        path[where] = np.convolve(padded, np.full(size, 1 / size), mode="valid")
    return path


def body_view(activity: Activity, body: FlatBody, aspect: float) -> View:
    """Returns a view of the recorded body that fits every step.

    :param activity: a recorded rollout
    :param body: its body
    :param aspect: the view's width over its height
    """
    middle = np.stack([camera_path(activity, x) for x in body.middle.T], axis=1)
    across = np.nan_to_num(body.ends[..., 0][:, body.moving]) - middle[:, 0, None, None]
    reach = float((np.abs(across) + body.radii[body.moving][:, None]).max())
    # Percentiles, because a single jump should not shrink everything else, and little happens below the ground.
    low, top = heights(body)
    if body.above:
        tall = max(2.4 * max(top, -low), 2.2 * reach / aspect)
        return View(middle, -tall / 2, tall * aspect, tall)
    middle[:, 1] = 0.0
    if body.ground is not None:
        low = min(body.ground, low)
    tall = max(1.3 * (top - low), 2.2 * reach / aspect)
    return View(middle, low - 0.13 * tall, tall * aspect, tall)


def tick_distance(about: float) -> float:
    """Returns the greatest of 1, 2 and 5 times a power of ten that is not above `about`."""
    power = 10.0 ** math.floor(math.log10(max(about, 1e-6)))
    return max(step * power for step in (1, 2, 5) if step * power <= about * (1 + 1e-9))
