"""The frame of a video in inches and in pixels."""

from __future__ import annotations

from typing import NamedTuple

# The frame's height in inches, whatever its pixels are: text and lines grow with the frame.
INCHES = 7.2


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
