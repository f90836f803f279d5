"""A model as an environment."""

import numpy as np
import pytest
import torch

gym = pytest.importorskip("gymnasium")
mujoco = pytest.importorskip("mujoco")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from ncp_control.dynamics import DynamicsModel  # noqa: E402
from ncp_control.dynamics.environment import DynamicsEnv, DynamicsVectorEnv, half_cheetah_reward  # noqa: E402
from ncp_envs.body import capsules_of, half_cheetah_capsules  # noqa: E402
from oscillators import oscillators  # noqa: E402


def make(cell: str = "ltc") -> DynamicsModel:
    torch.manual_seed(0)
    return DynamicsModel.of(oscillators(actions=True), cell, 6, inputs="observations+actions")


def reward(before: np.ndarray, actions: np.ndarray, after: np.ndarray) -> np.ndarray:
    return after[:, 0] - before[:, 0] - np.square(actions).sum(1)


def test_it_keeps_gymnasiums_rules() -> None:
    check_env(DynamicsEnv(make(), reward), skip_render_check=True)


def test_a_step_is_the_models_prediction() -> None:
    model = make()
    env = DynamicsEnv(model, reward, max_episode_steps=4)
    observation, _ = env.reset(seed=3)
    assert any(np.allclose(observation, start) for start in model.starts.numpy())
    seen, acted = [observation], []
    for k in range(4):
        action = env.action_space.sample()
        observation, gained, terminated, truncated, _ = env.step(action)
        assert gained == pytest.approx(reward(seen[-1][None], action[None], observation[None])[0])
        seen.append(observation)
        acted.append(action)
        assert not terminated
        assert truncated is (k == 3)
    found = model.predict(
        torch.tensor(seen[0], dtype=torch.float32)[None, None], 4, torch.tensor(np.stack(acted))[None]
    )
    np.testing.assert_allclose(found[0].numpy(), np.stack(seen[1:]), rtol=1e-4, atol=1e-4)


def test_many_at_once_are_as_one_by_one_and_begin_anew_on_the_next_step() -> None:
    model = make("gru")
    envs = DynamicsVectorEnv(model, 3, reward, max_episode_steps=2)
    first, _ = envs.reset(seed=1)
    actions = np.full((3, 1), 0.5, np.float32)
    rows = []
    for _ in range(2):
        observations, rewards, terminated, truncated, _ = envs.step(actions)
        rows.append((observations, rewards))
    assert truncated.all()
    assert not terminated.any()
    for k in range(3):
        one = DynamicsEnv(model, reward)
        one.reset()
        one._worlds.seen[0] = first[k]
        for observations, rewards in rows:
            observation, gained, *_ = one.step(actions[k])
            np.testing.assert_allclose(observation, observations[k], rtol=1e-5)
            assert gained == pytest.approx(rewards[k], rel=1e-4, abs=1e-5)
    begun, rewards, _, truncated, _ = envs.step(actions)
    assert not truncated.any()
    assert (rewards == 0).all()
    assert all(any(np.allclose(row, start) for start in model.starts.numpy()) for row in begun)
    fresh = model(torch.tensor(begun, dtype=torch.float32)[:, None], torch.tensor(actions)[:, None])[0][:, 0]
    np.testing.assert_allclose(envs.step(actions)[0], fresh.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_the_same_seed_gives_the_same_episode() -> None:
    one, two = DynamicsVectorEnv(make(), 4, reward), DynamicsVectorEnv(make(), 4, reward)
    np.testing.assert_array_equal(one.reset(seed=5)[0], two.reset(seed=5)[0])


def test_what_cannot_be_an_environment_is_refused() -> None:
    with pytest.raises(ValueError, match="nobody can act in it"):
        DynamicsEnv(DynamicsModel.of(oscillators(), "gru", 4), reward)
    with pytest.raises(ValueError, match="only HalfCheetah's reward is known"):
        DynamicsEnv(make())
    with pytest.raises(ValueError, match="the action space has shape"):
        DynamicsEnv(make(), reward, gym.spaces.Box(-1, 1, (2,)))
    with pytest.raises(gym.error.ResetNeeded):
        DynamicsEnv(make(), reward).step(np.zeros(1, np.float32))


def test_the_reward_is_the_simulators() -> None:
    env = gym.make("ncp_envs:ncp/HalfCheetahNoVel-v0").unwrapped
    random = np.random.default_rng(0)
    env.reset(seed=0)
    before, wanted, found = env._get_obs(), [], []
    for _ in range(300):
        action = random.uniform(-1, 1, 6)
        after, gained, *_ = env.step(action)
        wanted.append(gained)
        found.append(half_cheetah_reward(before[None], action[None], after[None])[0])
        before = after
    assert np.corrcoef(wanted, found)[0, 1] > 0.95
    assert np.mean(np.array(found) - wanted) == pytest.approx(0, abs=0.02)


def test_capsules_are_the_simulators() -> None:
    env = gym.make("ncp_envs:ncp/HalfCheetahNoVel-v0").unwrapped
    env.reset(seed=0)
    for _ in range(20):
        env.step(env.action_space.sample())
    mujoco.mj_kinematics(env.model, env.data)  # a step leaves them as they were before its last part
    wanted = capsules_of(env.model, env.data.geom_xpos[None], env.data.geom_xmat[None])
    found = half_cheetah_capsules(env._get_obs()[None], x=[env.data.qpos[0]])
    np.testing.assert_allclose(found.ends, wanted.ends, atol=1e-12)
    np.testing.assert_allclose(found.radii, wanted.radii)
    with pytest.raises(ValueError, match="17 observations, or 8 positions"):
        half_cheetah_capsules(np.zeros((3, 5)))
