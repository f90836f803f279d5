"""Computational depth, Table 2 of the LTC paper: the solver steps for a sample of the input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scripts.paper.common.random_networks import RandomNetwork
from scripts.paper.common.simulate import simulate

# MATLAB's ode45, whose points the paper may have counted, returns four points a step and takes no step longer than a
# tenth of the whole time.
POINTS_A_STEP = 4
LONGEST_STEP = 0.1


@dataclass(frozen=True)
class Depth:
    """For a sample of the input: accepted steps, the points that ode45 would return, and evaluations of the slope."""

    steps: float
    points: float
    evaluations: float


def computational_depth(network: RandomNetwork, samples: int = 100, dt: float = 0.01) -> Depth:
    """Counts the steps of Dormand-Prince over `samples * dt` of the circular input.

    :param network: the network
    :param samples: samples of the input
    :param dt: the time between two samples
    """
    time = samples * dt
    path = simulate(network, np.array([0.0, time]), "RK45", max_step=LONGEST_STEP * time)
    return Depth(path.steps / samples, POINTS_A_STEP * path.steps / samples, path.evaluations / samples)
