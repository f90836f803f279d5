"""Points at which a circuit rests while its input is held, against maps of which they are known."""

import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import ncp_control as nc
from ncp_control.loop import ClosedLoop
from ncp_control.loop.held import counts, held_points

CHECKPOINTS = Path(__file__).resolve().parents[2] / "checkpoints"
SEEN = np.zeros((1, 2))


class Circuit:
    """A loop whose neurons follow a function of the observations and of themselves."""

    def __init__(self, step: Any) -> None:
        self.step = step

    def act(self, observations: Any, neurons: Any) -> Any:
        return np.zeros((len(neurons), 1)), self.step(observations, neurons)


def test_a_switch_has_two_points_that_attract_and_one_that_does_not() -> None:
    loop: Any = Circuit(lambda seen, state: np.tanh(3 * state + seen[:, :1]))
    (points,) = held_points(loop, SEEN, np.linspace(-1, 1, 9)[:, None])
    assert counts(points) == (2, 1, 0)
    middle = next(point for point in points if not point.attracts)
    assert middle.neurons == pytest.approx([0], abs=1e-8)
    assert middle.modes[0].multiplier == pytest.approx(3, abs=1e-5)
    assert math.isinf(middle.modes[0].time_constant)
    edge = max(float(point.neurons[0]) for point in points)
    assert edge == pytest.approx(math.tanh(3 * edge), abs=1e-9)
    (pushed,) = held_points(loop, np.array([[2.0, 0.0]]), np.linspace(-1, 1, 9)[:, None])
    assert counts(pushed)[:2] == (1, 0)


def test_what_a_circuit_passes_slowly_is_a_slow_point() -> None:
    loop: Any = Circuit(lambda seen, state: state + state**2 + 1e-3)
    (points,) = held_points(loop, SEEN, np.array([[-0.1], [0.1]]))
    assert counts(points) == (0, 0, len(points))
    assert points[0].neurons == pytest.approx([0], abs=1e-3)
    assert points[0].speed == pytest.approx(1e-3, rel=1e-3)


def test_modes_oscillate_and_are_tuned_to_what_drives_them() -> None:
    turn, fade = 2 * math.pi / 10, 0.9
    matrix = np.zeros((3, 3))
    matrix[:2, :2] = fade * np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    matrix[2, 2] = 0.5
    drive = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.1]])  # the second observation drives the oscillation
    loop: Any = Circuit(lambda seen, state: state @ matrix.T + seen @ drive)
    (points,) = held_points(loop, SEEN, np.ones((1, 3)))
    first, second = points[0].modes
    assert first.period == pytest.approx(10)
    assert first.time_constant == pytest.approx(-1 / math.log(fade))
    assert set(first.neurons[:2]) == {0, 1}
    assert first.sensor == 1
    assert (second.sensor, second.neurons[0]) == (0, 2)
    assert math.isinf(second.period)
    # in units in which the second observation moves a hundred times as much, it drives all
    (again,) = held_points(loop, SEEN, np.ones((1, 3)), np.array([1.0, 100.0]))
    assert [mode.sensor for mode in again[0].modes] == [1, 1]


def test_a_shipped_circuit_comes_to_rest_where_the_search_says() -> None:
    agent: Any = nc.load(CHECKPOINTS / "halfcheetah-positions-sparse.safetensors")
    loop = ClosedLoop(agent, gym.make("ncp_envs:ncp/HalfCheetahNoVel-v0"))
    state = loop.start(0)
    for _ in range(20):  # after more of them, rounding decides where it is
        step = loop.step(state)
        state = step.state
    (points,) = held_points(loop, step.observation[None], state.neurons[None])
    neurons = state.neurons[None]
    for _ in range(1500):
        neurons = loop.act(step.observation[None], neurons)[1]
    (found,) = [point for point in points if point.attracts and np.abs(point.neurons - neurons[0]).max() < 1e-8]
    assert np.abs(found.neurons - state.neurons).max() > 0.1
    assert found.modes[0].time_constant == pytest.approx(34, abs=0.1)
    assert len(loop.neuron_names) == 48
