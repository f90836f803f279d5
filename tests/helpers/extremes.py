"""Observations and elapsed times at the edge of float32, one table for Python, C and the page."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NAN, INFINITY = float("nan"), float("inf")
LARGEST, SMALLEST = 3.4028234e38, 1e-45
# What the first sensor sees, what all others see, and the elapsed time.
EXTREMES = (
    (1e18, 0.5, 1.0),
    (1e38, 0.5, 1.0),
    (-1e38, 0.5, 1.0),
    (1e38, -1e38, 1.0),
    (LARGEST, 0.5, 1.0),
    (LARGEST, LARGEST, 1.0),
    (-LARGEST, LARGEST, 1.0),
    (LARGEST, LARGEST, 0.0),
    (LARGEST, -LARGEST, LARGEST),
    (SMALLEST, -SMALLEST, 1.0),
    (1e-38, 1e-38, 1e-38),
    (0.5, -0.5, LARGEST),
    (0.5, -0.5, SMALLEST),
    (NAN, 0.5, 1.0),
    (INFINITY, 0.5, 1.0),
    (-INFINITY, INFINITY, 1.0),
    (0.5, 0.5, NAN),
    (0.5, 0.5, INFINITY),
    (0.5, 0.5, -SMALLEST),
)
IMPOSSIBLE = EXTREMES[-6:]


def seen(first: float, others: float, sensors: int) -> NDArray[np.float32]:
    """An observation of `sensors` numbers."""
    return np.array([first, *[others] * (sensors - 1)], dtype=np.float32)
