"""Exponents and cycles against maps of which they are known."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ncp_control.loop.closed import Derivatives, LoopState, LoopStep
from ncp_control.loop.cycles import candidates, find_cycle, newton
from ncp_control.loop.exponents import dimension, follow, interval

EMPTY = np.zeros(0)


class Henon:
    """The map of Henon, x' = 1 - a x^2 + y, y' = .3 x: the product of its two factors of growth is .3."""

    size, actions = 2, 0
    body = SimpleNamespace(sensors=["x"])

    def __init__(self, a: float = 1.4) -> None:
        self.a = a

    def step(self, state: LoopState) -> LoopStep:
        x, y = state.body
        after = np.array([1 - self.a * x * x + y, 0.3 * x])
        return LoopStep(LoopState(after, EMPTY, EMPTY), after[:1], 0.0, False)

    def derivatives(self, state: LoopState) -> Derivatives:
        matrix = np.array([[-2 * self.a * state.body[0], 1.0], [0.3, 0.0]])
        return Derivatives(self.step(state), matrix, np.array([[1.0], [0.0]]))

    def deviation(self, of: LoopState, origin: LoopState) -> Any:
        return of.body - origin.body

    def deviated(self, state: LoopState, deviation: Any) -> LoopState:
        return state._replace(body=state.body + deviation)


def run(loop: Any, x: float, steps: int) -> list[LoopState]:
    states = [LoopState(np.array([x, 0.1]), EMPTY, EMPTY)]
    for _ in range(steps):
        states.append(loop.step(states[-1]).state)
    return states


def test_the_exponents_of_henons_map() -> None:
    loop: Any = Henon()
    path = follow(loop, run(loop, 0.1, 100)[-1], 5000)
    # .4192 is the literature's value, such as Sprott's
    assert path.exponents[0] == pytest.approx(0.4192, abs=0.02)
    assert path.exponents.sum() == pytest.approx(math.log(0.3), abs=1e-9)
    assert dimension(path.exponents) == pytest.approx(1.26, abs=0.02)
    assert len(path.states) == 5001
    assert path.observations.shape == (5000, 1)


def test_a_cycle_that_attracts_is_found_with_its_multipliers() -> None:
    loop: Any = Henon(a=0.9)  # between .3675 and .9125 a cycle of two steps attracts
    cycle = find_cycle(loop, run(loop, 0.1, 600))
    assert cycle is not None
    assert cycle.attracts
    assert cycle.period == 2  # the search tries four steps first, in which the same cycle closes
    assert cycle.residual < 1e-10
    # Both x solve x^2 - (1 - .3) x / a + ((1 - .3)^2 - a) / a^2 = 0.
    xs = sorted(float(state.body[0]) for state in cycle.states)
    assert sum(xs) == pytest.approx(0.7 / 0.9, abs=1e-9)
    assert math.prod(xs) == pytest.approx((0.49 - 0.9) / 0.81, abs=1e-9)
    matrix = loop.derivatives(cycle.states[1]).matrix @ loop.derivatives(cycle.states[0]).matrix
    assert np.abs(cycle.multipliers) == pytest.approx(sorted(np.abs(np.linalg.eigvals(matrix)), reverse=True))
    path = follow(loop, cycle.states[0], 400)
    assert path.exponents[0] == pytest.approx(math.log(abs(cycle.multipliers[0])) / 2, abs=0.01)


def test_a_rest_point_that_repels_is_found_from_near_it() -> None:
    loop: Any = Henon()
    rest = newton(loop, LoopState(np.array([0.6, 0.2]), EMPTY, EMPTY), 1)
    assert rest is not None
    assert rest.period == 1
    assert not rest.attracts
    x = (-0.7 + math.sqrt(0.49 + 4 * 1.4)) / 2.8
    assert rest.states[0].body == pytest.approx([x, 0.3 * x], abs=1e-12)


def test_chaos_leads_to_no_attracting_cycle() -> None:
    loop: Any = Henon()
    cycle = find_cycle(loop, run(loop, 0.1, 600))
    assert cycle is None or not cycle.attracts


def test_of_periods_that_return_equally_well_the_shortest_comes_first() -> None:
    turns = np.abs(np.sin(np.pi * np.arange(60) / 7)) + 1e-4 * np.arange(60)
    assert candidates(turns)[0] == 7
    assert candidates(np.zeros(60)) == [1]
    assert candidates(np.zeros(1)) == []


def test_errors_of_sensors_are_carried_by_the_loop() -> None:
    class Halving(Henon):
        """A state that halves in each step, and is the action."""

        size, actions = 2, 1

        def derivatives(self, state: LoopState) -> Derivatives:
            matrix = np.diag([0.5, 0.5])
            return Derivatives(LoopStep(state, np.zeros(1), 0.0, False), matrix, np.array([[0.0], [2.0]]))

    loop: Any = Halving()
    path = follow(loop, LoopState(np.zeros(2), EMPTY, EMPTY), 100)
    assert path.carried[:3, 0] == pytest.approx([2, 1, 0.5])
    assert path.exponents == pytest.approx([math.log(0.5)])


def test_the_dimension_of_kaplan_and_yorke() -> None:
    assert dimension(np.array([-0.1, -2.0])) == 0
    assert dimension(np.array([0.0, -2.0])) == 1
    assert dimension(np.array([0.5, 0.0, -1.0])) == 2.5
    assert dimension(np.array([0.5, 0.1])) == 2


def test_the_interval_of_student() -> None:
    found = interval([1.0, 2.0, 3.0])
    assert found.mean == 2
    assert found.high - found.mean == pytest.approx(4.303 / math.sqrt(3), abs=1e-3)
    assert interval([1.5]) == (1.5, 1.5, 1.5)
