"""Elapsed time, from an environment with irregular steps to the cells of an agent."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnvWrapper, VecNormalize

from helpers.memory_tasks import Steps
from ncp_control.rl import NCPExtractor, NCPPolicy, RecurrentPPO, RecurrentSAC, load_policy, save_policy
from ncp_control.rl.recipes.building import make_envs, make_model
from ncp_control.rl.recipes.recipe import Recipe
from ncp_control.wiring import AutoNCP
from ncp_envs import History, IrregularTime

WIRING = AutoNCP(9, 3)


def irregular(number: int = 0, window: int | None = None, dense: bool = False) -> Any:
    env = IrregularTime(Steps(number, (30,)), frames=(1, 4), observe_elapsed=True if dense else "apart", seed=number)
    env.action_space.seed(number)
    return env if window is None else History(env, window)


def model(**settings: Any) -> Any:
    envs = DummyVecEnv([lambda k=k: irregular(k) for k in range(3)])
    policy_kwargs = {"wiring": WIRING, "critic_units": 5, **settings}
    settings = {"n_steps": 8, "sequence": 4, "batch_size": 12, "seed": 0, "device": "cpu"}
    return RecurrentPPO("NCPPolicy", envs, policy_kwargs=policy_kwargs, **settings)


def test_the_time_is_shown_apart() -> None:
    env, dense = irregular(), irregular(dense=True)
    env.reset(seed=3)
    dense.reset(seed=3)
    for _ in range(6):
        action = env.action_space.sample()
        seen, *_, info = env.step(action)
        row = dense.step(action)[0]
        assert seen in env.observation_space
        assert seen["elapsed"].tolist() == [info["elapsed"]]
        np.testing.assert_array_equal(np.append(seen["observations"], seen["elapsed"]), row)
    with pytest.raises(ValueError, match='observe_elapsed=True, False or "apart"'):
        IrregularTime(Steps(0, (5,)), frames=2, observe_elapsed="beside")


def test_a_history_shows_the_times() -> None:
    env = irregular(window=4)
    seen, _ = env.reset(seed=1)
    assert seen["elapsed"].tolist() == [1, 1, 1, 1]
    times = [1.0]
    for _ in range(6):
        seen, *_, info = env.step(env.action_space.sample())
        times.append(info["elapsed"])
        assert seen in env.observation_space
        padded = [1.0] * 4 + times
        assert seen["elapsed"].tolist() == padded[-4:]
    assert len(set(times)) > 1


@pytest.mark.parametrize("cell", ["ltc", "cfc"])
def test_the_time_reaches_the_cells_of_actor_and_critic(cell: str) -> None:
    policy = model(cell=cell).policy
    assert policy.lstm_actor.cell.inputs == 3
    seen = {"observations": torch.randn(5, 3), "elapsed": torch.tensor([[0.5], [1.0], [2.0], [3.0], [4.0]])}
    state, starts = torch.randn(1, 5, 9), torch.zeros(5)
    with torch.no_grad():
        _, values, _, after = policy(seen, RNNStates((state, state), (state, state)), starts)
        for circuit, packed in ((policy.lstm_actor, after.pi[0]), (policy.lstm_critic, after.vf[0])):
            wanted = circuit.cell.step(seen["observations"], state[0], seen["elapsed"][:, 0])
            torch.testing.assert_close(packed[0], wanted, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(values, policy.value_net(policy.lstm_critic.cell.motor(wanted)))


def test_a_cell_that_does_not_use_the_elapsed_time_reads_it_as_an_input() -> None:
    policy = model(cell="lstm", wiring=4).policy
    assert policy.lstm_actor.cell.inputs == 4
    assert not policy.lstm_actor.timed
    assert model(critic="lstm").policy.lstm_critic.cell.inputs == 4


@pytest.mark.parametrize("critic", ["circuit", "lstm", "mlp", "shared"])
def test_an_agent_trains_on_irregular_steps(critic: str, tmp_path: Any) -> None:
    found = model(critic=critic)
    found.learn(48)
    found.save(tmp_path / "model")
    again = RecurrentPPO.load(tmp_path / "model", device="cpu")
    env = irregular()
    seen, state, other = env.reset(seed=0)[0], None, None
    for _ in range(5):
        action, state = found.predict(seen, state, deterministic=True)
        same, other = again.predict(seen, other, deterministic=True)
        np.testing.assert_array_equal(action, same)
        seen = env.step(action)[0]


@pytest.mark.parametrize("cell", ["ltc", "lstm"])
def test_the_time_reaches_the_cell_of_an_extractor(cell: str) -> None:
    env = irregular(window=6)
    slow = {"time_constants": (1.0, 20.0)} if cell == "ltc" else None  # to which it matters how much time has passed
    extractor = NCPExtractor(env.observation_space, 4, cell, cell_kwargs=slow)
    windows = [env.reset(seed=0)[0], *(env.step(env.action_space.sample())[0] for _ in range(4))]
    seen = {key: torch.as_tensor(np.stack([window[key] for window in windows])).float() for key in windows[0]}
    rows, times = seen["observations"][-1:, -5:], seen["elapsed"][-1:, -5:]
    with torch.no_grad():
        if cell == "ltc":
            wanted, _ = extractor.circuit.rnn(rows, elapsed=times)
            flat, _ = extractor.circuit.rnn(rows)
            assert (wanted - flat).abs().max() > 1e-3
        else:
            wanted, _ = extractor.circuit.rnn(torch.cat([rows, times[..., None]], dim=-1))
        torch.testing.assert_close(extractor(seen)[-1], wanted[0, -1], rtol=1e-5, atol=1e-6)


def test_normalisation_leaves_the_time_alone() -> None:
    envs = VecNormalize(DummyVecEnv([lambda: irregular(window=4)] * 2), norm_obs_keys=["observations"])
    given = {"features_extractor_class": NCPExtractor, "features_extractor_kwargs": {"wiring": WIRING}}
    found = PPO("MultiInputPolicy", envs, n_steps=16, batch_size=16, policy_kwargs=given, device="cpu")
    found.learn(32)
    times = found.rollout_buffer.observations["elapsed"]
    assert set(np.unique(times)) <= {1.0, 2.0, 3.0, 4.0}
    assert len(np.unique(times)) > 1


def test_a_time_of_another_shape_is_refused() -> None:
    box = gym.spaces.Box(-1, 1, (3,))
    for space in (gym.spaces.Dict(seen=box, elapsed=box), gym.spaces.Dict(elapsed=gym.spaces.Box(0, 9, (1,)))):
        with pytest.raises(ValueError, match="'elapsed' must be the time since the last observation, of shape"):
            NCPPolicy(space, gym.spaces.Discrete(2), lambda _: 1e-3)


@pytest.mark.parametrize("kind", [RecurrentPPO, RecurrentSAC])
@pytest.mark.parametrize("keys", [None, ["elapsed", "observations"]])
def test_a_normalised_time_is_refused(kind: Any, keys: Any, tmp_path: Any) -> None:
    def irregular_pendulum() -> Any:
        return IrregularTime(gym.make("Pendulum-v1"), frames=(1, 4), observe_elapsed="apart", seed=0)

    wrong = VecFrameless(VecNormalize(DummyVecEnv([irregular_pendulum]), norm_obs_keys=keys))
    sentence = r"VecNormalize would make it negative: .*VecNormalize\(env, norm_obs_keys=\['observations'\]\)"
    with pytest.raises(ValueError, match=sentence):
        kind("NCPPolicy", wrong, policy_kwargs={"wiring": 5})
    for fine in (
        VecNormalize(DummyVecEnv([irregular_pendulum]), norm_obs=False),
        VecNormalize(DummyVecEnv([irregular_pendulum]), norm_obs_keys=["observations"]),
    ):
        found = kind("NCPPolicy", fine, policy_kwargs={"wiring": 5}, device="cpu")
    with pytest.raises(ValueError, match=sentence):
        found.set_env(wrong)
    found.save(tmp_path / "model")
    with pytest.raises(ValueError, match=sentence):
        kind.load(tmp_path / "model", env=wrong, device="cpu")


class VecFrameless(VecEnvWrapper):
    """Changes nothing."""

    def reset(self) -> Any:
        return self.venv.reset()

    def step_wait(self) -> Any:
        return self.venv.step_wait()


def test_a_time_below_zero_is_refused_wherever_it_comes_from() -> None:
    """Stable-Baselines3's own algorithms do not check their environment, so here the cells find it."""
    envs = VecNormalize(DummyVecEnv([lambda: irregular(window=4)]), norm_obs_keys=["observations", "elapsed"])
    given = {"features_extractor_class": NCPExtractor, "features_extractor_kwargs": {"wiring": WIRING}}
    found = PPO("MultiInputPolicy", envs, n_steps=16, batch_size=16, policy_kwargs=given, device="cpu")
    with pytest.raises(ValueError, match=r"the elapsed time is -.*, less than zero.*norm_obs_keys="):
        found.learn(32)


@pytest.mark.parametrize("algo", ["RecurrentPPO", "RecurrentSAC"])
def test_a_recipe_normalises_all_but_the_time(algo: str, tmp_path: Any) -> None:
    wrapper = [{"IrregularTime": {"frames": [1, 4], "observe_elapsed": "apart"}}]
    small = {"learning_starts": 20, "buffer_size": 100} if algo == "RecurrentSAC" else {"n_steps": 32}
    recipe = Recipe(
        "Pendulum-v1", algo, 32, env_wrapper=wrapper, normalize=True, policy_kwargs={"wiring": 6}, settings=small
    )
    envs: Any = make_envs(recipe, 1, training=True)
    assert envs.norm_obs_keys == ["observations"]
    found = make_model(recipe, envs, 0, "cpu").learn(32)
    save_policy(found, tmp_path / "policy.safetensors")
    loaded = load_policy(tmp_path / "policy.safetensors")
    raw = {"observations": np.array([[0.3, -2.0, 5.0]], np.float32), "elapsed": np.array([[3.0]], np.float32)}
    seen = envs.normalize_obs(raw)
    assert seen["elapsed"] == 3.0
    assert not np.allclose(seen["observations"], raw["observations"])
    np.testing.assert_array_equal(loaded.predict(raw)[0], found.predict(seen, deterministic=True)[0])
    recipe.normalize = {"norm_obs_keys": ["observations", "elapsed"]}
    with pytest.raises(ValueError, match="VecNormalize would make it negative"):
        make_model(recipe, make_envs(recipe, 1, training=True), 0, "cpu")
