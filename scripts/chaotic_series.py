"""Two chaotic series: the first coordinate of the Lorenz system, and the Mackey-Glass series."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np


def lorenz(count: int, rng: np.random.Generator) -> np.ndarray:
    """Returns the first coordinate of the Lorenz system (10, 28, 8/3) every 0.1, by the Runge-Kutta method."""

    def slope(at: np.ndarray) -> np.ndarray:
        x, y, z = at.tolist()
        return np.array([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    substeps = 5
    h = 0.1 / substeps
    at, path = np.array([0.0, 0.0, 25.0]) + rng.uniform(-10, 10, 3), []
    for _ in range(count * substeps):
        k1 = slope(at)
        k2 = slope(at + h / 2 * k1)
        k3 = slope(at + h / 2 * k2)
        at = at + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(at + h * k3))
        path.append(at[0])
    return np.array(path[::substeps])


def mackey_glass(count: int, rng: np.random.Generator) -> np.ndarray:
    """Returns the solution of `dx/dt = 0.2 y / (1 + y^10) - 0.1 x` with `y(t) = x(t - 17)`, every 6.

    The decay is exact, and the growth is integrated by the trapezium rule.
    """
    substeps = 60
    h = 6 / substeps
    delay, kept = round(17 / h), math.exp(-0.1 * h)
    path = [1.2 + rng.uniform(-0.2, 0.2)] * (delay + 1)
    growth = [0.2 * path[0] / (1 + path[0] ** 10)] * (delay + 1)
    for step in range(count * substeps):
        path.append(kept * path[-1] + (1 - kept) / 0.1 * (growth[step] + growth[step + 1]) / 2)
        growth.append(0.2 * path[-1] / (1 + path[-1] ** 10))
    return np.array(path[delay + 1 :: substeps])


SERIES = {"lorenz": lorenz, "mackey-glass": mackey_glass}


@lru_cache(maxsize=8)
def clean_series(name: str, count: int, train: int, seed: int) -> np.ndarray:
    """Returns a series without its first 300 samples, in which it settles, scaled by its training part.

    :param count: number of samples
    :param train: how many of them are the training part
    """
    values = SERIES[name](count + 300, np.random.default_rng([seed, 0]))[300:]
    return np.asarray((values - values[:train].mean()) / values[:train].std())
