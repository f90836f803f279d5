"""The length of the path of a network's states in the plane of their first two principal components."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scripts.paper.common.random_networks import Array, RandomNetwork
from scripts.paper.common.simulate import simulate

SAMPLES = 1000


@dataclass(frozen=True)
class Latent:
    """The path of a layer in the plane of its first two principal components.

    :param path: the scores, (T, 2)
    :param length: the length of the path
    :param share: the share of the states' variance that lies in the plane, from 0 to 1
    """

    path: Array
    length: float
    share: float


def arc_length(path: Array) -> float:
    """Returns `sum |p(t + dt) - p(t)|` of a path (T, m), which approximates the integral of |dp/dt|."""
    return float(np.linalg.norm(np.diff(path, axis=0), axis=1).sum())


def latent(states: Array) -> Latent:
    """Computes the latent path of states (T, k), with k at least 2; all of it is NaN if a state is not finite."""
    if not np.isfinite(states).all():
        return Latent(np.full((len(states), 2), np.nan), np.nan, np.nan)
    centred = states - states.mean(axis=0)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    path = left[:, :2] * singular[:2]
    total = float((singular**2).sum())
    return Latent(path, arc_length(path), float((singular[:2] ** 2).sum()) / total if total else 1.0)


def measure(network: RandomNetwork, solver: str = "RK45", laps: int = 1, samples: int = SAMPLES) -> list[Latent]:
    """Computes the latent path of every layer during the last lap of the circular input.

    :param laps: how often the input goes round
    :param samples: samples of a lap
    """
    times = np.linspace(0, 2 * np.pi * laps, samples * laps + 1)
    states = simulate(network, times, solver).states[-samples - 1 :]
    return [latent(states[:, d]) for d in range(states.shape[1])]
