"""How long a network's path is in the plane of its first two principal components."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scripts.paper.common.random_networks import Array, RandomNetwork
from scripts.paper.common.simulate import simulate

SAMPLES = 1000


@dataclass(frozen=True)
class Latent:
    """The path of a layer in the plane of its first two principal components.

    :param path: (T, 2), scores
    :param length: of that path
    :param share: of the variance of the states that the plane shows, from 0 to 1
    """

    path: Array
    length: float
    share: float


def arc_length(path: Array) -> float:
    """`sum |p(t + dt) - p(t)|` of a path (T, m): the integral of |dp/dt|."""
    return float(np.linalg.norm(np.diff(path, axis=0), axis=1).sum())


def latent(states: Array) -> Latent:
    """The latent path of states (T, k), k at least 2; NaN where a state is not finite."""
    if not np.isfinite(states).all():
        return Latent(np.full((len(states), 2), np.nan), np.nan, np.nan)
    centred = states - states.mean(axis=0)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    path = left[:, :2] * singular[:2]
    total = float((singular**2).sum())
    return Latent(path, arc_length(path), float((singular[:2] ** 2).sum()) / total if total else 1.0)


def measure(network: RandomNetwork, solver: str = "RK45", laps: int = 1, samples: int = SAMPLES) -> list[Latent]:
    """The latent path of every layer over the last lap of the circular input.

    :param laps: how often the input goes round; what comes before the last lap is left out
    :param samples: of a lap
    """
    times = np.linspace(0, 2 * np.pi * laps, samples * laps + 1)
    states = simulate(network, times, solver).states[-samples - 1 :]
    return [latent(states[:, d]) for d in range(states.shape[1])]
