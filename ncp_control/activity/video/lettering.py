"""Short texts that change with every frame, drawn as outlines, which is much faster than matplotlib's own text."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.figures.shades import INK

Array = NDArray[Any]
HALF_HEIGHT = 0.365  # of digits and capitals, for a font of size 1


@functools.cache
def letter(character: str) -> tuple[Array, Array, float]:
    """Returns a character of size 1: its outline's vertices (n, 2) and codes (n,), and its width."""
    from matplotlib.textpath import TextPath

    # A space has no outline, so the width is measured with a bar behind the character.
    bar, both = (TextPath((0, 0), text, size=100) for text in ("|", f"{character}|"))
    own = len(both.vertices) - len(bar.vertices)
    width = float(both.vertices[:, 0].max() - bar.vertices[:, 0].max()) / 100
    return np.asarray(both.vertices)[:own] / 100, np.asarray(both.codes, np.uint8)[:own], width


def outline(texts: list[tuple[str, float, float, float]], size: float) -> Any:
    """Returns many short texts as one path.

    :param texts: (text, x, y, align) each: the point at the share `align` of the text's width is at x, its middle at y
    :param size: size of the font
    """
    from matplotlib.path import Path as Outline

    vertices, codes = [np.empty((0, 2))], [np.empty(0, np.uint8)]
    for text, x, y, align in texts:
        letters = [letter(character) for character in text]
        at = x - align * size * sum(width for _, _, width in letters)
        for points, kinds, width in letters:
            vertices.append(points * size + (at, y - HALF_HEIGHT * size))
            codes.append(kinds)
            at += width * size
    return Outline(np.concatenate(vertices), np.concatenate(codes))


def lettering() -> Any:
    """Returns an artist that shows an `outline`, empty at first."""
    from matplotlib.patches import PathPatch

    return PathPatch(outline([], 1.0), facecolor=INK, linewidth=0, zorder=3)
