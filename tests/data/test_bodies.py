"""Bodies whose state is read and set: exact repeats, deviations between states, and what is refused."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import ncp_envs
from ncp_control.data.bodies import TOLERANCE, MujocoBody, StateBody, body_of, check_repeats
from ncp_envs import ActionDelay, ChangedBody, ObservationNoise, PreviousAction, RandomActionOverwrite

IDS = (
    "HalfCheetah-v5",
    "Ant-v5",
    "Humanoid-v5",
    "Reacher-v5",
    "Pendulum-v1",
    "Acrobot-v1",
    "CartPole-v1",
    "ncp/TORA-v0",
)


def made(name: str) -> Any:
    body = body_of(gym.make(name, disable_env_checker=True))
    body.sharpen()
    return body


@pytest.mark.parametrize("name", IDS)
def test_a_step_from_a_state_is_that_of_the_environment(name: str) -> None:
    body, env = made(name), gym.make(name, disable_env_checker=True)
    if isinstance(body, MujocoBody):
        env.unwrapped.model.opt.tolerance = TOLERANCE  # type: ignore[attr-defined]
    state, seen = body.reset(3)
    first, _ = env.reset(seed=3)
    assert np.allclose(seen, first, atol=1e-6)
    env.action_space.seed(0)
    for _ in range(5):
        action: Any = env.action_space.sample()
        truth = env.step(action)
        body.reset(99)  # leads away
        moved = body.step_from(state, np.atleast_1d(np.asarray(action, np.float64)))
        # what is shown is not rounded to float32 here
        assert np.allclose(moved.observation, truth[0], atol=1e-6)
        assert moved.ended == truth[2]
        state = moved.state


@pytest.mark.parametrize("name", IDS)
def test_deviations_lead_from_a_state_to_another_and_back(name: str) -> None:
    body = made(name)
    state, _ = body.reset(0)
    deviation = np.random.default_rng(0).normal(scale=0.3, size=body.size)
    other = body.deviated(state, deviation)
    assert np.allclose(body.deviation(other, state), deviation, atol=1e-9)
    assert not body.deviation(state, state).any()
    assert len(body.names) == body.size


def test_a_thrown_body_lies_on_the_ground_and_not_in_it() -> None:
    body = made("HalfCheetah-v5")
    turns = set()
    for seed in range(20):
        state, seen = body.thrown(np.random.default_rng(seed))
        turns.add(int(np.sign(np.cos(state[2]))))
        assert np.isfinite(seen).all()
        assert np.abs(state[9:18]).max() < 50  # the ground would throw out what was set into it
    assert turns == {-1, 1}


def test_the_names_of_positions_and_velocities() -> None:
    body = made("HalfCheetah-v5")
    assert body.names[1:3] == ["torso z", "torso angle"]
    assert body.names[11] == "torso angular velocity"
    assert isinstance(made("CartPole-v1"), StateBody)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda env: ObservationNoise(env, 0.1),
        lambda env: ActionDelay(env, 1),
        lambda env: RandomActionOverwrite(env, 0.1),
    ],
    ids=["noise", "delay", "random"],
)
def test_wrappers_with_a_memory_are_refused_by_name(wrap: Any) -> None:
    env = wrap(gym.make("Pendulum-v1"))
    with pytest.raises(ValueError, match=f"the wrapper {type(env).__name__} has a memory"):
        body_of(env)


def test_the_previous_action_is_no_memory_as_the_loop_knows_it() -> None:
    assert body_of(PreviousAction(gym.make("Pendulum-v1"))).size == 2


def test_a_disturbance_that_is_none_is_no_memory() -> None:
    with ncp_envs.without_mass_warning():
        plain = gym.make("HalfCheetah-v5")
        told = ActionDelay(ChangedBody(gym.make("HalfCheetah-v5"), mass=1.1, told=True), 0, told=True)
        drawn = ChangedBody(gym.make("HalfCheetah-v5"), mass=(0.9, 1.1))
    body = body_of(ObservationNoise(told, 0.0))
    assert body.size == body_of(plain).size
    check_repeats(body)
    _, seen = body.reset(3)
    np.testing.assert_allclose(seen[-5:], [np.log(1.1), 0, 0, 0, 0], atol=1e-12)
    for env in (drawn, ActionDelay(plain, (0, 1))):
        with pytest.raises(ValueError, match=f"the wrapper {type(env).__name__} has a memory"):
            body_of(env)


class Forgetful(gym.Env[Any, Any]):
    """An environment without a state that could be set."""

    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Box(-1, 1, (1,))


def test_other_environments_are_refused() -> None:
    with pytest.raises(ValueError, match="the state of Forgetful cannot be set"):
        body_of(Forgetful())
    with pytest.raises(ValueError, match="Continuous_MountainCarEnv cannot be set"):
        body_of(gym.make("MountainCarContinuous-v0"))


def test_a_body_that_draws_in_a_step_is_refused() -> None:
    from gymnasium.envs.mujoco.half_cheetah_v5 import HalfCheetahEnv

    class Windy(HalfCheetahEnv):
        def step(self, action: Any) -> Any:
            self.data.qvel[0] += self.np_random.normal()
            return super().step(action)

    with pytest.raises(ValueError, match="Windy does not repeat its steps"):
        body_of(Windy()).sharpen()


def test_the_course_in_a_state_is_that_of_mujoco() -> None:
    body = made("HalfCheetah-v5")
    state, _ = body.reset(1)
    places, speeds = body.course(state)
    assert np.array_equal(places, body.data.qpos)
    assert np.array_equal(speeds, body.data.qvel)
    with pytest.raises(ValueError, match="a state of 28 numbers is of another body: this one's has 27"):
        body.course(np.append(state, 0.0))
