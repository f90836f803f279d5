"""Computational depth, Table 2 of the LTC paper: what a solver spends on a sample of the input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scripts.paper.common.random_networks import RandomNetwork
from scripts.paper.common.simulate import simulate

# MATLAB's ode45, which may have counted for the paper, returns four points a step and takes no step longer than a tenth
# of the whole time.
POINTS_A_STEP = 4
LONGEST_STEP = 0.1


@dataclass(frozen=True)
class Depth:
    """Of one network, for a sample of the input: accepted steps, points that ode45 would return, slopes asked for."""

    steps: float
    points: float
    evaluations: float


def computational_depth(network: RandomNetwork, samples: int = 100, dt: float = 0.01) -> Depth:
    """Dormand-Prince over `samples * dt` of the circular input.

    :param samples: of the input
    :param dt: time from one to the next
    """
    time = samples * dt
    path = simulate(network, np.array([0.0, time]), "RK45", max_step=LONGEST_STEP * time)
    return Depth(path.steps / samples, POINTS_A_STEP * path.steps / samples, path.evaluations / samples)
