"""Where inputs and neurons are in a picture of a circuit: in columns, from the inputs to the motor neurons.

All lengths are in inches, because text, whose size is in points, must not touch its neighbours; y points upwards. The
same circuit has the same layout in every picture.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.names import neuron_labels, shortened
from ncp_control.wiring import Wiring

Array = NDArray[np.float64]
# At scale 1: the distance between two nodes of a column, the diameter of a node, and the size of labels and titles in
# points.
PITCH, DIAMETER, FONT, TITLE_FONT = 0.30, 0.22, 7.0, 9.0
GAP, INNER_GAP, PAD, TITLE_HEIGHT = 0.75, 0.14, 0.05, 0.34
MOST_ROWS, MOST_SCALE, LEAST_FONT = 28, 1.6, 4.5


@dataclass(frozen=True)
class Label:
    """A node's name: centred in the node if `align` is "center"; otherwise its left or its right end is at x."""

    text: str
    x: float
    y: float
    align: str


@dataclass(frozen=True)
class Layout:
    """Positions of I inputs and N neurons in a box.

    :param inputs: (I, 2), x and y of each input's middle
    :param neurons: (N, 2), x and y of each neuron's middle
    :param radius: a node's radius
    :param scale: a factor for the size of all text
    :param width: the box's width
    :param height: the box's height
    :param titles: (name, x, y) of each column
    :param labels: names of the inputs and then of the neurons; empty if they would be too small to read
    """

    inputs: Array
    neurons: Array
    radius: float
    scale: float
    width: float
    height: float
    titles: tuple[tuple[str, float, float], ...]
    labels: tuple[Label, ...]


@dataclass(frozen=True)
class _Block:
    """The inputs or the neurons of one layer, with their labels, in one or more columns."""

    title: str
    labels: tuple[str, ...]
    side: str  # where the labels are: "left", "right" or "center"
    label_width: float
    title_width: float

    def columns(self, rows: int) -> int:
        return math.ceil(len(self.labels) / rows)

    def column_width(self) -> float:
        return DIAMETER + (0.0 if self.side == "center" else self.label_width + PAD)

    def width(self, rows: int) -> float:
        columns = self.columns(rows)
        return max(columns * self.column_width() + (columns - 1) * INNER_GAP, self.title_width)


@functools.cache
def text_width(text: str, points: float) -> float:
    """Returns the width of a text in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    if not text.strip():
        return 0.0
    # TextPath would take the text between two dollar signs for a formula.
    vertices = np.reshape(text_to_path.get_text_path(FontProperties(), text)[0], (-1, 2))
    # The control points of the outline extend hardly further than the outline and are found much faster.
    return float(vertices[:, 0].max(initial=0.0)) * points / text_to_path.FONT_SCALE / 72


def natural_size(wiring: Wiring, inputs: Sequence[str] | None = None) -> tuple[float, float]:
    """Returns the width and the height, in inches, at which a picture of the circuit is easy to read."""
    blocks = _blocks(wiring, inputs)
    most = max(len(block.labels) for block in blocks)
    rows = min(most, MOST_ROWS)
    roomy = _width(blocks, rows) + (len(blocks) - 1) * 0.8
    return max(roomy, 7.2), max(rows * PITCH * 1.15 + TITLE_HEIGHT, 2.2)


def place(wiring: Wiring, width: float, height: float, inputs: Sequence[str] | None = None) -> Layout:
    """Fits the circuit into a box, as large as possible.

    :param wiring: the circuit's
    :param width: the box's width in inches
    :param height: the box's height in inches
    :param inputs: labels of the inputs; the wiring's names by default
    """
    blocks = _blocks(wiring, inputs)
    rows, scale = _fit(blocks, width, height)
    if scale * FONT < LEAST_FONT:
        # Names that are too small to read would only take room from the nodes.
        blocks = [replace(block, labels=("",) * len(block.labels), side="center", label_width=0.0) for block in blocks]
        rows, scale = _fit(blocks, width, height)
    spare = width / scale - _width(blocks, rows)
    gap = GAP + (spare / (len(blocks) - 1) if len(blocks) > 1 else 0.0)
    room = height / scale - TITLE_HEIGHT
    positions, titles, labels = [], [], []
    left = 0.0
    for block in blocks:
        points, block_labels = _place_block(block, rows, left, room)
        shown = block.width(rows)
        centre = (points[:, 0].min() + points[:, 0].max()) / 2
        centre = min(max(centre, left + block.title_width / 2), left + max(shown, block.title_width) - 1e-9)
        titles.append((block.title, centre * scale, (room + TITLE_HEIGHT * 0.55) * scale))
        positions.append(points * scale)
        labels += [
            Label(label.text, label.x * scale, label.y * scale, label.align) for label in block_labels if label.text
        ]
        left += shown + gap
    return Layout(
        positions[0], np.concatenate(positions[1:]), DIAMETER / 2 * scale, scale, width, height, tuple(titles),
        tuple(labels),
    )  # fmt: skip


def curves(start: Array, end: Array, radius: float, points: int = 20) -> Array:
    """Returns a line for each synapse.

    A line to the right has the shape of an S. A line within a column or to the left is an arc. A line from a neuron to
    itself is a loop.

    :param start: (E, 2), each source's middle
    :param end: (E, 2), each target's middle
    :param radius: a node's radius
    :param points: P, how many points a line has
    :return: (E, P, 2)
    """
    across, up = (end - start).T
    length = np.hypot(across, up)
    bulge = np.minimum(0.10 + 0.28 * np.abs(up), 0.55)
    forward, itself = across > 3 * radius, length < 1e-9
    column = np.abs(across) <= 3 * radius
    # A line to the left bends away from the straight line, so that both directions between two neurons are visible.
    aside = np.minimum(0.18, 0.4 / np.maximum(length, 1e-9))[:, None] * np.stack([-up, across], 1)
    leaving = np.where(forward[:, None], start + np.stack([across / 2, 0 * across], 1), start + aside)
    arriving = np.where(forward[:, None], end - np.stack([across / 2, 0 * across], 1), end + aside)
    right = np.maximum(start[:, 0], end[:, 0]) + bulge
    leaving[column, 0] = arriving[column, 0] = right[column]
    leaving[column, 1], arriving[column, 1] = (start[:, 1] + 0.15 * up)[column], (end[:, 1] - 0.15 * up)[column]
    # Cubic Bezier curves, which leave and arrive in the direction of these two control points.
    t = np.linspace(0, 1, points)[None, :, None]
    lines = (
        (1 - t) ** 3 * start[:, None] + 3 * (1 - t) ** 2 * t * leaving[:, None] + 3 * (1 - t) * t**2 * arriving[:, None]
        + t**3 * end[:, None]
    )  # fmt: skip
    turn = np.linspace(0, 2 * np.pi, points)
    loop = 0.75 * radius * np.stack([np.cos(turn), np.sin(turn)], 1)
    lines[itself] = start[itself][:, None] + radius * np.array([0.95, 0.75]) + loop
    return np.asarray(lines)


def _blocks(wiring: Wiring, inputs: Sequence[str] | None) -> list[_Block]:
    """Returns the inputs and the layers from left to right."""
    names = wiring.input_names if inputs is None else tuple(inputs)
    blocks = [_block("inputs", names, "left")]
    labels = neuron_labels(wiring)
    for layer, where in wiring.layers.items():
        here = labels[where]
        fits = all(text_width(label, FONT) <= 0.85 * DIAMETER for label in here)
        blocks.append(_block(layer, here, "center" if fits else "right"))
    return blocks


def _block(title: str, labels: Sequence[str], side: str) -> _Block:
    short = tuple(shortened(label) for label in labels)
    widest = max(text_width(label, FONT) for label in short)
    return _Block(title, short, side, widest, text_width(title, TITLE_FONT) + 0.1)


def _fit(blocks: list[_Block], width: float, height: float) -> tuple[int, float]:
    """Returns the greatest number of rows in a column, and the scale at which everything fits into a box."""
    most = max(len(block.labels) for block in blocks)

    def scale_of(rows: int) -> float:
        return min(width / _width(blocks, rows), height / (rows * PITCH + TITLE_HEIGHT), MOST_SCALE)

    # The greatest number of rows that can be read well, because a layer in one column is easiest to follow. Scales are
    # rounded, so that those which differ only by rounding count as equal.
    rows = max(range(1, most + 1), key=lambda rows: (min(round(scale_of(rows), 6), 1.0), rows))
    return rows, scale_of(rows)


def _width(blocks: list[_Block], rows: int) -> float:
    """Returns the least width of all blocks with the gaps between them."""
    return sum(block.width(rows) for block in blocks) + (len(blocks) - 1) * GAP


def _place_block(block: _Block, rows: int, left: float, room: float) -> tuple[Array, list[Label]]:
    """Returns the nodes of one block, (n, 2), and their labels, in a height of `room`; the first node is at the top."""
    count, columns = len(block.labels), block.columns(rows)
    here = math.ceil(count / columns)
    pitch = min(room / here, 3 * PITCH)
    order = np.arange(count)
    column, row = order // here, order % here
    y = room / 2 + ((here - 1) / 2 - row) * pitch
    used = columns * block.column_width() + (columns - 1) * INNER_GAP
    first = left + (block.width(rows) - used) / 2
    start = first + column * (block.column_width() + INNER_GAP)
    if block.side == "left":
        x = start + block.column_width() - DIAMETER / 2
        tip = x - DIAMETER / 2 - PAD
    else:
        x = start + DIAMETER / 2
        tip = x if block.side == "center" else x + DIAMETER / 2 + PAD
    align = {"left": "right", "right": "left", "center": "center"}[block.side]
    labels = [Label(text, float(tip[k]), float(y[k]), align) for k, text in enumerate(block.labels)]
    return np.stack([x, y], axis=1), labels
