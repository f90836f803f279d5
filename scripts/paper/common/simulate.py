"""Integrates a random network along the circular input, by scipy's adaptive solvers or by our fixed steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ncp_control.solvers import euler, fused, rk4
from scripts.paper.common.random_networks import Array, RandomNetwork

# The default tolerances of MATLAB's solvers and of scipy's.
RTOL, ATOL = 1e-3, 1e-6
ADAPTIVE = {
    "RK23": "Bogacki-Shampine 3(2)",
    "RK45": "Dormand-Prince 5(4)",
    "LSODA": "Adams and BDF",
    "Radau": "Radau IIA, implicit",
    "BDF": "backward differences, implicit",
}
FIXED = {"fused": fused, "euler": euler, "rk4": rk4}


@dataclass(frozen=True)
class Simulation:
    """A network's path.

    :param states: the states of all layers, (T, n, k)
    :param steps: accepted steps of the solver
    :param evaluations: how often the solver evaluated the slope
    """

    states: Array
    steps: int
    evaluations: int


def circle(time: float) -> Array:
    """Returns the paper's input, `(sin t, cos t)`, whose length is 2 pi a lap."""
    return np.array([np.sin(time), np.cos(time)])


def simulate(network: RandomNetwork, times: Array, solver: str = "RK45", max_step: float = np.inf) -> Simulation:
    """Computes the states of a network that starts at zero while its input goes round the circle.

    Adaptive solvers see the input at every moment. Our solvers take one fixed step a sample and hold the input during
    the step, as cells do. From an overflow on, all states are NaN.

    :param times: the times of the states, (T,), rising
    :param solver: a name in `ADAPTIVE` or `FIXED`
    :param max_step: the longest step of an adaptive solver
    """
    shape = (len(network.layers), network.width)
    with np.errstate(over="ignore", invalid="ignore"):
        if solver in FIXED:
            return _simulate_fixed(network, times, solver, shape)
        if solver not in ADAPTIVE:
            raise ValueError(f"unknown solver {solver!r}: choose one of {', '.join([*ADAPTIVE, *FIXED])}")
        from scipy.integrate import solve_ivp

        def slope(time: float, state: Array) -> Array:
            return network.slope(circle(time), state.reshape(shape)).ravel()

        counted = _Counted(slope)
        start, tolerances = np.zeros(shape).ravel(), {"rtol": RTOL, "atol": ATOL}
        path = solve_ivp(
            counted, (times[0], times[-1]), start, method=solver, dense_output=True, max_step=max_step, **tolerances
        )
        states = np.full((len(times), *shape), np.nan)
        reached = times <= path.t[-1]
        states[reached] = path.sol(times[reached]).T.reshape(-1, *shape)
    return Simulation(states, len(path.t) - 1, counted.calls)


def _simulate_fixed(network: RandomNetwork, times: Array, solver: str, shape: tuple[int, int]) -> Simulation:
    step = cast("Any", FIXED[solver])  # they are written for tensors, but arrays have the same arithmetic
    states = np.zeros((len(times), *shape))
    for i in range(1, len(times)):
        inputs = circle(times[i - 1])
        states[i] = step(lambda x, held=inputs: network.rate_and_drive(held, x), states[i - 1], times[i] - times[i - 1])
    stages = 4 if solver == "rk4" else 1
    return Simulation(states, len(times) - 1, stages * (len(times) - 1))


class _Counted:
    """A function that counts its calls."""

    def __init__(self, function: Any) -> None:
        self.function, self.calls = function, 0

    def __call__(self, *arguments: Any) -> Any:
        self.calls += 1
        return self.function(*arguments)
