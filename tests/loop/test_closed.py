"""The closed loop as one map: its derivatives against differences, and which numbers of the body are in it."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import ncp_control as nc
from helpers.pendulum_agents import pendulum, pendulum_agent
from helpers.small_agents import small_agent
from ncp_control.loop import ClosedLoop
from ncp_control.rl import load_policy, save_policy
from ncp_envs import IrregularTime

CHECKPOINTS = Path(__file__).resolve().parents[2] / "checkpoints"


def swimming() -> ClosedLoop:
    agent: Any = nc.load(CHECKPOINTS / "swimmer-teacher.safetensors")
    return ClosedLoop(agent, gym.make("Swimmer-v5"))


def running() -> ClosedLoop:
    agent: Any = nc.load(CHECKPOINTS / "halfcheetah-positions-sparse.safetensors")
    return ClosedLoop(agent, gym.make("ncp_envs:ncp/HalfCheetahNoVel-v0"))


@pytest.mark.parametrize("kind", ["circuit", "squashed", "plain"])
def test_the_loop_acts_as_the_agent_does(kind: str, tmp_path: Path) -> None:
    agent, env = small_agent(kind, tmp_path), gym.make("Pendulum-v1")
    loop = ClosedLoop(agent, gym.make("Pendulum-v1"))
    state, memory = loop.start(5), None
    seen, _ = env.reset(seed=5)
    for k in range(20):
        action, memory = agent.predict(seen, memory, np.array([k == 0]), deterministic=True)
        assert np.allclose(state.action, action, atol=1e-4)
        seen, *_ = env.step(action)
        state = loop.step(state).state


@pytest.mark.parametrize("make", [swimming, running], ids=["plain", "circuit"])
def test_derivatives_are_those_of_small_differences(make: Any) -> None:
    loop = make()
    state = loop.start(0)
    for _ in range(40):
        state = loop.step(state).state
    found = loop.derivatives(state)
    random = np.random.default_rng(0)
    for _ in range(5):
        deviation = random.normal(scale=1e-5, size=loop.size)
        # at its limit an action cannot be pushed on
        deviation[loop.size - loop.actions :] *= np.abs(state.action) < 1
        ends = [loop.step(loop.deviated(state, sign * deviation)).state for sign in (1, -1)]
        difference = loop.deviation(*ends) / 2
        assert np.abs(found.matrix @ deviation - difference).max() < 1e-3 * np.abs(difference).max()


def test_an_error_of_a_sensor_moves_the_next_state_as_the_derivative_says() -> None:
    loop = running()
    state = loop.step(loop.start(0)).state
    found = loop.derivatives(state)
    seen, error = found.step.observation, np.full(8, 1e-5)
    ends = [loop.act((seen + sign * error)[None], state.neurons[None]) for sign in (1, -1)]
    difference = np.concatenate([(ends[0][k] - ends[1][k])[0] / 2 for k in (1, 0)])
    assert np.allclose((found.sensors @ error)[len(loop.kept) :], difference, atol=1e-9)
    assert not found.sensors[: len(loop.kept)].any()  # the body has moved before


def test_how_far_a_body_has_run_is_left_out() -> None:
    loop = running()
    assert loop.kept.tolist() == list(range(1, 18))
    assert loop.names[0] == "torso z"
    assert not loop.turns.any()
    assert len(loop.names) == loop.size == 17 + 48 + 6


def test_whole_turns_of_a_pendulum_are_no_deviation(tmp_path: Path) -> None:
    save_policy(pendulum_agent(), tmp_path / "agent.safetensors", {})
    loop = ClosedLoop(load_policy(tmp_path / "agent.safetensors"), pendulum())
    assert loop.turns.tolist() == [True] + [False] * (loop.size - 1)
    state = loop.start(0)
    turned = state._replace(body=state.body + np.array([2 * np.pi, 0.0]))
    assert np.abs(loop.deviation(turned, state)).max() < 1e-12


def test_several_states_step_as_each_alone() -> None:
    loop = swimming()
    states = [loop.start(seed) for seed in range(3)]
    for step, state in zip(loop.step_all(states), states, strict=True):
        alone = loop.step(state)
        assert np.array_equal(step.state.body, alone.state.body)
        assert np.allclose(step.state.action, alone.state.action, atol=1e-12)


def test_an_agent_of_varying_times_is_refused(tmp_path: Path) -> None:
    agent = small_agent("timed", tmp_path)
    env = IrregularTime(gym.make("Pendulum-v1"), frames=(1, 3), observe_elapsed="apart")
    with pytest.raises(ValueError, match="the wrapper IrregularTime has a memory"):
        ClosedLoop(agent, env)
