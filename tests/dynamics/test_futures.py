"""The futures of a model are what it predicts as an environment, and those of the simulator what the body then does."""

import gymnasium as gym
import numpy as np
import pytest
import torch

from ncp_control.data import Rollout, Rollouts
from ncp_control.dynamics import DynamicsEnv, DynamicsModel, Ensemble, ImaginedFutures, SimulatorFutures


def speed(before: np.ndarray, actions: np.ndarray, after: np.ndarray) -> np.ndarray:
    return after[:, 0] - 0.1 * np.square(actions).sum(axis=1)


def walks() -> Rollouts:
    random = np.random.default_rng(0)
    return Rollouts(
        tuple(Rollout(random.normal(size=(31, 3)), actions=random.uniform(-1, 1, size=(30, 2))) for _ in range(5))
    )


def model(seed: int = 0) -> DynamicsModel:
    torch.manual_seed(seed)
    return DynamicsModel.of(walks(), "cfc", 8, reads="observations+actions").eval()


def test_an_imagined_return_is_that_of_the_model_as_an_environment() -> None:
    own, random = model(), np.random.default_rng(1)
    env = DynamicsEnv(own, speed)
    futures = ImaginedFutures(own, speed)
    observation, _ = env.reset(seed=0)
    for _ in range(3):  # what was seen before counts, too
        action = random.uniform(-1, 1, size=2)
        futures.done(observation, action)
        observation, *_ = env.step(action)
    plans = random.uniform(-1, 1, size=(4, 5, 2))
    found = futures.after(observation)(plans)
    state = env._episodes.state
    for plan, gained in zip(plans, found, strict=True):
        env._episodes.seen, env._episodes.state = observation[None], state
        assert gained == pytest.approx(sum(float(env.step(action)[1]) for action in plan), abs=1e-4)
    futures.reset()
    assert not np.allclose(futures.after(observation)(plans), found)


def test_doubt_takes_off_what_the_members_of_an_ensemble_disagree_about() -> None:
    members = [model(seed) for seed in range(3)]
    plans, observation = np.random.default_rng(2).uniform(-1, 1, size=(6, 5, 2)), np.zeros(3)
    each = np.stack([ImaginedFutures(one, speed).after(observation)(plans) for one in members])
    mean = ImaginedFutures(Ensemble(members), speed).after(observation)(plans)
    careful = ImaginedFutures(Ensemble(members), speed, doubt=2.0).after(observation)(plans)
    assert np.allclose(mean, each.mean(axis=0))
    assert np.allclose(careful, each.mean(axis=0) - 2 * each.std(axis=0))
    assert (careful < mean).all()


def test_a_model_that_reads_no_actions_is_refused() -> None:
    blind = DynamicsModel.of(walks(), "cfc", 8)
    with pytest.raises(ValueError, match="reads no actions"):
        ImaginedFutures(blind, speed)


@pytest.mark.parametrize("name", ["HalfCheetah-v5", "Swimmer-v5"])
def test_the_simulators_futures_are_what_the_environment_then_does(name: str) -> None:
    pytest.importorskip("mujoco")
    env, random = gym.make(name), np.random.default_rng(0)
    size = env.action_space.shape[0]
    observation, _ = env.reset(seed=3)
    for _ in range(10):
        observation, *_ = env.step(random.uniform(-1, 1, size=size))
    plans = random.uniform(-1, 1, size=(3, 7, size))
    returns = SimulatorFutures(env).after(observation)
    found = returns(plans)
    assert np.array_equal(returns(plans), found)  # and the body has not moved
    assert found[1] == pytest.approx(sum(float(env.step(action)[1]) for action in plans[1]), abs=1e-3)


def test_the_simulator_does_not_know_the_reward_of_every_body() -> None:
    with pytest.raises(ValueError, match="plans for a HalfCheetah or a Swimmer, and not for a PendulumEnv"):
        SimulatorFutures(gym.make("Pendulum-v1"))
