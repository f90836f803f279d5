"""A model as a Gymnasium environment."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

gym = pytest.importorskip("gymnasium")
mujoco = pytest.importorskip("mujoco")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from helpers.oscillators import oscillators  # noqa: E402
from ncp_control.base.tensors import read_tensors, write_tensors  # noqa: E402
from ncp_control.data import Rollouts, collect  # noqa: E402
from ncp_control.data.minari_files import place_of, write_minari  # noqa: E402
from ncp_control.dynamics import (  # noqa: E402
    DynamicsEnv,
    DynamicsModel,
    DynamicsVectorEnv,
    Ensemble,
    imagined_rewards,
    load_model,
    save_model,
)
from ncp_control.dynamics.environment import READ, half_cheetah_reward, moments  # noqa: E402
from ncp_control.dynamics.simulator import Simulator  # noqa: E402
from ncp_envs import VectorKeepObservations, VectorRandomActionOverwrite  # noqa: E402
from ncp_envs.body import Body, half_cheetah_capsules  # noqa: E402


def make(cell: str = "ltc") -> DynamicsModel:
    torch.manual_seed(0)
    return DynamicsModel.of(oscillators(actions=True), cell, 6, reads="observations+actions")


def reward(before: np.ndarray, actions: np.ndarray, after: np.ndarray) -> np.ndarray:
    return after[:, 0] - before[:, 0] - np.square(actions).sum(1)


def test_it_keeps_gymnasiums_rules() -> None:
    check_env(DynamicsEnv(make(), reward), skip_render_check=True)


def test_episodes_can_begin_at_moments_that_the_model_has_led_up_to() -> None:
    model, rollouts = make(), oscillators(count=3, actions=True)
    seen, states = moments(model, rollouts)
    found = {row.tobytes(): (one, k) for one in rollouts for k, row in enumerate(one.observations.astype(np.float32))}
    beginnings = 0
    for row, state in zip(seen[:100], states, strict=False):
        rollout, k = found[row.astype(np.float32).tobytes()]
        if k == 0:
            assert not state.any()
            beginnings += 1
            continue
        read = slice(k - READ, k)
        before = (
            torch.tensor(values[read], dtype=torch.float32)[None] for values in (rollout.observations, rollout.actions)
        )
        with torch.no_grad():
            torch.testing.assert_close(model(*before)[1][0], state)
    assert 2 <= beginnings <= 30
    envs = DynamicsVectorEnv(model, 50, reward, within=rollouts)
    first, _ = envs.reset(seed=3)
    assert all(row.astype(np.float32).tobytes() in found for row in first)
    assert np.array_equal(DynamicsVectorEnv(model, 50, reward, within=rollouts).reset(seed=3)[0], first)
    with pytest.raises(ValueError, match="no rollout has more than 16 steps"):
        moments(model, oscillators(count=3, steps=16, actions=True))


def test_a_step_is_the_models_prediction() -> None:
    model = make()
    env = DynamicsEnv(model, reward, max_episode_steps=4)
    env.action_space.seed(3)
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
        one._episodes.seen[0] = first[k]
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


def test_actions_are_those_of_the_rollouts(tmp_path: Path) -> None:
    rollouts = oscillators(actions=True)
    pushes = np.concatenate([rollout.actions for rollout in rollouts])
    wide = Rollouts(tuple(replace(rollout, actions=3 * rollout.actions + 1) for rollout in rollouts))
    model = DynamicsModel.of(wide, "gru", 4, reads="observations+actions")
    save_model(Ensemble([model]), tmp_path / "model.safetensors")
    for one in (model, load_model(tmp_path / "model.safetensors")):
        space = DynamicsEnv(one, reward).action_space
        np.testing.assert_allclose([space.low, space.high], [3 * pushes.min(0) + 1, 3 * pushes.max(0) + 1], rtol=1e-6)
        assert DynamicsVectorEnv(one, 2, reward).single_action_space == space
    own = gym.spaces.Box(-9, 9, (1,), np.float32)
    assert DynamicsEnv(model, reward, own).action_space == own
    with pytest.raises(ValueError, match=r"of each of 1 actions, \(2, 1\), got \[\[2.0\], \[1.0\]\]"):
        DynamicsModel.of(replace(wide, action_range=[[2], [1]]), "gru", 4, reads="observations+actions")


def test_actions_are_those_of_the_environment_that_the_rollouts_are_from(tmp_path: Path) -> None:
    still = collect(lambda seen: np.zeros((len(seen), 1), np.float32), "Pendulum-v1", 3, 0.0, progress=False)
    name, folder = place_of(str(tmp_path / "still-v0"))
    write_minari(still, name, folder, gym.spec("Pendulum-v1"), still.about)
    for rollouts in (still, still.split().train, Rollouts.load(folder)):
        model = DynamicsModel.of(rollouts, "gru", 4, reads="observations+actions")
        assert DynamicsEnv(model, reward).action_space == gym.spaces.Box(-2, 2, (1,), np.float32)


def test_a_file_that_does_not_say_which_actions_keeps_those_of_before(tmp_path: Path) -> None:
    shipped = load_model(Path(__file__).parents[2] / "checkpoints" / "halfcheetah-dynamics.safetensors")
    assert DynamicsEnv(shipped).action_space == gym.spaces.Box(-1, 1, (6,), np.float32)
    path = tmp_path / "model.safetensors"
    save_model(make(), path)
    kind = "ncp_control.dynamics", 1
    described, tensors = read_tensors(path, *kind, ("models", "ensemble", "note"), "save_model")
    models = json.loads(described["models"])
    models[0]["action_range"] = [[0.0, 0.0], [1.0, 1.0]]
    kept = {key: described[key] for key in ("models", "ensemble", "note")}
    write_tensors(path, *kind, kept | {"models": json.dumps(models)}, tensors)
    with pytest.raises(ValueError, match="action_range must be"):
        load_model(path)
    del models[0]["action_range"]
    write_tensors(path, *kind, kept | {"models": json.dumps(models)}, tensors)
    assert DynamicsEnv(load_model(path), reward).action_space == gym.spaces.Box(-1, 1, (1,), np.float32)


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
    for space in (gym.spaces.Discrete(3), gym.spaces.MultiDiscrete([3])):
        with pytest.raises(TypeError, match=r"its action space is a Box of shape \(1,\), not"):
            DynamicsVectorEnv(make(), 2, reward, space)
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
    wanted = Body(env.model).capsules(env.data.geom_xpos[None], env.data.geom_xmat[None])
    found = half_cheetah_capsules(env._get_obs()[None], x=[env.data.qpos[0]])
    np.testing.assert_allclose(found.ends, wanted.ends, atol=1e-12)
    np.testing.assert_allclose(found.radii, wanted.radii)
    with pytest.raises(ValueError, match="17 observations at each step, or 8 positions"):
        half_cheetah_capsules(np.zeros((3, 5)))


def test_a_simulator_of_ones_own_may_still_call_its_number_of_actions_by_the_old_name() -> None:
    with pytest.warns(DeprecationWarning, match="Falling.actions, the number of actions, is now action_size"):

        class Falling(Simulator):
            features, actions, timed = 1, 1, False
            observation_names = ("height",)

            def __init__(self) -> None:
                super().__init__()
                self.action_range = np.array([[-1.0], [1.0]])
                self.register_buffer("mean", torch.zeros(1))
                self.register_buffer("starts", torch.full((1, 1), 5.0))

            def forward(self, observations, actions=None, state=None, ahead=None):  # type: ignore[no-untyped-def]
                return observations - 1 + actions, observations[:, -1]

    env = DynamicsEnv(Falling(), reward)
    env.reset(seed=0)
    assert env.step(np.full(1, 0.5, np.float32))[0] == pytest.approx([4.5])
    model = Falling()
    with pytest.warns(DeprecationWarning, match="is now action_size"):
        model.actions = 3
    assert model.action_size == 3


@pytest.mark.parametrize("ahead", [-1.0, float("nan")])
def test_a_step_that_takes_negative_time_is_refused(ahead: float) -> None:
    with pytest.raises(ValueError, match=r"ahead is .*: the time until a prediction is finite and not negative"):
        DynamicsEnv(make(), reward, ahead=ahead)


class Remembering:
    """A policy with a memory: a mean of what it saw, of one observation alone."""

    def predict(self, observation: np.ndarray, state: object, episode_start: np.ndarray, deterministic: bool) -> object:
        before = np.zeros(len(observation)) if state is None else state[0]  # type: ignore[index]
        now = np.where(episode_start, 0.0, 0.9 * before) + 0.1 * observation[:, 0]
        return np.tanh(now)[:, None], (now,)


@pytest.mark.parametrize("ensemble", [False, True])
def test_episodes_side_by_side_are_those_of_one_after_another(ensemble: bool) -> None:
    model = Ensemble([make("ltc"), make("gru")]) if ensemble else make()
    (model.models[0] if isinstance(model, Ensemble) else model).starts = model.starts[:1]

    def rewards(count: int, seed: int) -> np.ndarray:
        envs = VectorKeepObservations(DynamicsVectorEnv(model, count, reward, max_episode_steps=12), [1])
        return imagined_rewards(Remembering(), VectorRandomActionOverwrite(envs, 0.3), seed)

    together = rewards(3, seed=5)
    assert together.shape == (3, 12)
    assert np.array_equal(together, rewards(3, seed=5))
    assert not np.allclose(together[0], together[1])
    for place, one in enumerate(together):
        np.testing.assert_allclose(one, rewards(1, seed=5 + place)[0], rtol=1e-4, atol=1e-5)


def test_an_imagined_episode_is_that_of_the_environment() -> None:
    model = make()
    model.starts = model.starts[:1]
    (found,) = imagined_rewards(lambda seen: np.tanh(seen[:, :1]), DynamicsVectorEnv(model, 1, reward, None, 9))
    env, gained = DynamicsEnv(model, reward, max_episode_steps=9), []
    observation, _ = env.reset(seed=0)
    truncated = False
    while not truncated:
        observation, earned, _, truncated, _ = env.step(np.tanh(observation[:1]))
        gained.append(earned)
    np.testing.assert_allclose(found, gained, rtol=1e-4, atol=1e-5)


def test_a_model_that_diverges_foretells_nothing() -> None:
    model = make("gru")
    model.readout.bias.data.fill_(torch.inf)
    with pytest.raises(ValueError, match="in step 1 the model predicts numbers that are not finite"):
        imagined_rewards("random", DynamicsVectorEnv(model, 2, reward))
