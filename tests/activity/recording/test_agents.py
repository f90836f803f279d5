"""Recordings of agents: what is in them is what the agent and its circuit did."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

gym = pytest.importorskip("gymnasium")
pytest.importorskip("stable_baselines3")

from stable_baselines3 import DQN, PPO, SAC  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize  # noqa: E402

from helpers.pendulum_agents import PLAN, pendulum, pendulum_agent  # noqa: E402
from ncp_control.activity import Activity, record  # noqa: E402
from ncp_control.activity.recording import agents  # noqa: E402
from ncp_control.rl import NCPExtractor, RecurrentPPO, RecurrentSAC, load_policy, save_policy  # noqa: E402
from ncp_control.rl.policies.circuit import actor_circuit  # noqa: E402
from ncp_envs import ActionDelay, History, IrregularTime, RandomActionOverwrite  # noqa: E402


@pytest.mark.parametrize(("cell", "critic"), [("ltc", "lstm"), ("cfc", "circuit"), ("lstm", "mlp"), ("cfc", "shared")])
def test_an_agent_is_recorded_as_it_acts(cell: str, critic: str, tmp_path: Path) -> None:
    model = RecurrentPPO(
        "NCPPolicy", pendulum(), seed=0,
        policy_kwargs=dict(wiring=6 if cell == "lstm" else PLAN, cell=cell, critic=critic),
    )  # fmt: skip
    env = pendulum()
    found = record(model, env, tmp_path / "run.npz", 220, seed=4, progress=False)
    assert found.about["seeds"] == [4, 5]
    assert np.flatnonzero(found.episode_starts).tolist() == [0, 200]
    # The same episodes, without recording.
    rewards, states, actions, values = [], [], [], []
    circuit = actor_circuit(model.policy)
    assert circuit is not None
    for seed, steps in ((4, 200), (5, 20)):
        observation, _ = env.reset(seed=seed)
        state, h = None, circuit.cell.initial_state(1)
        for t in range(steps):
            with torch.no_grad():
                h = circuit.cell.step(torch.tensor(observation)[None], h)
            states.append(h[0].numpy())
            action, state = model.predict(observation, state, np.array([t == 0]), deterministic=True)
            actions.append(action)
            observation, reward, *_ = env.step(action)
            rewards.append(reward)
    np.testing.assert_allclose(found.get("rewards"), rewards, rtol=1e-5)
    np.testing.assert_allclose(found.get("actions"), actions, rtol=1e-5, atol=1e-6)
    kept = found.neurons if found.get("states") is None else found.get("states")
    np.testing.assert_allclose(kept, states, rtol=1e-4, atol=1e-5)
    # The values are the same as in training.
    seen = torch.tensor(found.observations)
    starts = torch.tensor(found.episode_starts, dtype=torch.float32)
    for first, last in ((0, 200), (200, 220)):
        zero = (torch.zeros(1, 1, model.policy.lstm_hidden_state_shape[2]),) * 2
        with torch.no_grad():
            values.append(model.policy.predict_values(seen[first:last], zero, starts[first:last]).flatten())
    np.testing.assert_allclose(found.get("values"), torch.cat(values).numpy(), rtol=1e-4, atol=1e-4)


def test_chunks_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = pendulum_agent()
    whole = record(model, pendulum(), tmp_path / "whole.npz", 230, progress=False)
    monkeypatch.setattr(agents, "CHUNK", 32)
    parts = record(model, pendulum(), tmp_path / "parts.npz", 230, progress=False)
    for name in ("observations", "neurons", "currents", "sensory_currents", "outputs", "time_constants"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(parts.get("values"), whole.get("values"), rtol=1e-4, atol=1e-5)


def test_a_stored_agent_is_recorded_as_the_model_was(tmp_path: Path) -> None:
    env = VecNormalize(DummyVecEnv([pendulum]))
    model = pendulum_agent(env=env)
    model.learn(64)
    save_policy(model, tmp_path / "agent.safetensors")
    one = record(model, pendulum(), tmp_path / "one.npz", 50, progress=False)
    two = record(load_policy(tmp_path / "agent.safetensors"), pendulum(), tmp_path / "two.npz", 50, progress=False)
    for name in ("observations", "inputs", "neurons", "outputs"):
        np.testing.assert_allclose(getattr(two, name), getattr(one, name), rtol=1e-4, atol=1e-5)
    assert not np.allclose(one.observations, one.inputs)  # the circuit reads what is normalised


@pytest.mark.parametrize("algorithm", [PPO, SAC, DQN])
@pytest.mark.parametrize("carry", [False, True])
def test_an_extractor_is_recorded(algorithm: Any, carry: bool, tmp_path: Path) -> None:
    discrete = algorithm is DQN

    def make() -> Any:
        return History(gym.make("ncp_envs:ncp/CartPoleNoVel-v0") if discrete else pendulum(), window=6)

    extractor = dict(wiring=PLAN, cell="ltc", carry=carry)
    kwargs = dict(features_extractor_class=NCPExtractor, features_extractor_kwargs=extractor)
    model = algorithm("MultiInputPolicy", make(), policy_kwargs=kwargs, seed=0)
    found = record(model, make(), tmp_path / "run.npz", 15, progress=False)
    circuit = actor_circuit(model.policy)
    assert circuit is not None
    seen = torch.tensor(found.observations)
    starts = np.flatnonzero(found.episode_starts)
    for t in range(15):
        begin = starts[starts <= t][-1]
        first = begin if carry else max(begin, t - 5)
        with torch.no_grad():
            _, _, states = circuit.rnn(seen[first : t + 1], states=True)
        np.testing.assert_allclose(found.neurons[t], states[-1].numpy(), rtol=1e-4, atol=1e-5)
    assert found.get("values") is None


def test_recurrent_sac_is_recorded_at_irregular_times(tmp_path: Path) -> None:
    def make() -> Any:
        return IrregularTime(pendulum(), frames=(1, 3), observe_elapsed="apart")

    model = RecurrentSAC("NCPPolicy", make(), policy_kwargs=dict(wiring=PLAN, cell="ltc"), sequence=8, seed=0)
    found = record(model, make(), tmp_path / "run.npz", 20, progress=False)
    elapsed = found.get("elapsed")
    assert elapsed is not None
    assert set(np.unique(elapsed[1:])) <= {1.0, 2.0, 3.0}
    assert len(set(elapsed[1:].tolist())) > 1
    circuit = actor_circuit(model.policy)
    assert circuit is not None
    with torch.no_grad():
        _, _, states = circuit.rnn(torch.tensor(found.inputs), elapsed=torch.tensor(elapsed), states=True)
    np.testing.assert_allclose(found.neurons, states.numpy(), rtol=1e-4, atol=1e-5)


def test_delayed_actions_are_recorded_as_executed(tmp_path: Path) -> None:
    found = record(pendulum_agent(), ActionDelay(pendulum(), steps=2), tmp_path / "run.npz", 20, progress=False)
    acted, executed = found.get("actions"), found.get("executed_actions")
    assert acted is not None
    assert executed is not None
    assert found.get("is_random") is None
    np.testing.assert_array_equal(executed[2:], acted[:-2])


def test_random_actions_are_marked(tmp_path: Path) -> None:
    env = RandomActionOverwrite(pendulum(), probability=0.5)
    found = record(pendulum_agent(), env, tmp_path / "run.npz", 60, progress=False)
    random, acted, executed = (found.get(key) for key in ("is_random", "actions", "executed_actions"))
    assert random is not None
    assert acted is not None
    assert executed is not None
    assert 10 < random.sum() < 50
    np.testing.assert_allclose(acted[~random], executed[~random], rtol=1e-6)
    assert not np.allclose(acted[random], executed[random])


def test_a_negative_seed_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="seed of a recording must be a whole number of at least 0, not -1"):
        record(pendulum_agent(), pendulum(), tmp_path / "run.npz", 3, seed=-1)
    assert list(tmp_path.iterdir()) == []


def test_a_recording_has_so_many_episodes_or_so_many_steps(tmp_path: Path) -> None:
    found = record(pendulum_agent(), pendulum(), tmp_path / "run.npz", episodes=2, progress=False)
    assert found.steps == 400
    with pytest.raises(ValueError, match="give one of the two"):
        record(pendulum_agent(), pendulum(), tmp_path / "no.npz", 10, 2)
    with pytest.raises(ValueError, match="at least one step"):
        record(pendulum_agent(), pendulum(), tmp_path / "no.npz", 0)
    with pytest.raises(ValueError, match="has no circuit to record"):
        record(PPO("MlpPolicy", pendulum()), pendulum(), tmp_path / "no.npz", 5)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        record(pendulum_agent(), pendulum(), tmp_path / "nowhere" / "no.npz", 5)
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]


class Breaks(gym.Wrapper):  # type: ignore[type-arg, misc]
    """Raises an error at a step."""

    def __init__(self, env: Any, error: type[BaseException], at: int) -> None:
        super().__init__(env)
        self.error, self.left = error, at

    def step(self, action: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise self.error
        return self.env.step(action)


def test_what_was_recorded_before_ctrl_c_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(agents, "CHUNK", 8)
    with pytest.raises(KeyboardInterrupt):
        record(pendulum_agent(), Breaks(pendulum(), KeyboardInterrupt, 21), tmp_path / "run.npz", 50, progress=False)
    found = Activity.load(tmp_path / "run.npz")
    assert found.steps == 21
    assert f"interrupted: 21 steps are kept in {tmp_path / 'run.npz'}" in capsys.readouterr().err
    assert found.about["seeds"] == [0]
    with pytest.raises(OSError):  # noqa: PT011
        record(pendulum_agent(), Breaks(pendulum(), OSError, 21), tmp_path / "broken.npz", 50, progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]


def test_what_an_agent_cannot_act_in_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    out, own = tmp_path / "run.npz", pendulum_agent()
    for env, error, words in (
        ("Pendulum-v1", TypeError, r'give the environment itself, gymnasium\.make\("Pendulum-v1"\)'),
        (VecNormalize(DummyVecEnv([pendulum])), TypeError, "one environment, .* not a VecNormalize of 1"),
        (pendulum, TypeError, "not a function that makes it: call the function first"),
        (3, TypeError, "not 3"),
        (gym.make("Pendulum-v1"), ValueError, "the policy was made for observations in"),
        (gym.make("CartPole-v1"), ValueError, "the policy was made for observations in"),
    ):
        with pytest.raises(error, match=words):
            record(own, env, out, 5, progress=False)
    assert not list(tmp_path.iterdir())


def test_a_recording_is_shown_in_a_line(tmp_path: Path) -> None:
    shown = repr(record(pendulum_agent(), pendulum(), tmp_path / "run.npz", 5, progress=False))
    assert shown.startswith("Activity(policy in ncp/PendulumNoVel-v0: 5 steps, 12 neurons, ")
    assert "rewards" in shown
    assert "\n" not in shown
    assert len(shown) < 200


def test_the_body_of_a_half_cheetah_is_kept(tmp_path: Path) -> None:
    env = gym.make("ncp_envs:ncp/HalfCheetahNoVel-v0")
    found = record(pendulum_agent(env=env), env, tmp_path / "run.npz", 12, progress=False)
    ends, radii = found.get("body_ends"), found.get("body_radii")
    assert ends is not None
    assert radii is not None
    assert ends.shape == (12, len(radii), 2, 2)
    assert found.about["dt"] == pytest.approx(0.05)
    assert found.about["action_names"][0] == "bthigh"
    assert found.about["observation_names"][0] == "front tip z"
    assert np.abs(np.diff(ends, axis=0)).max() > 0.01


@pytest.mark.parametrize(
    ("note", "has_values"),
    [
        ({}, True),
        ({"teacher": {"name": "another"}}, False),
        ({"teacher": {"name": "another"}, "finetuned": 4096}, True),
    ],
)
def test_a_critic_that_has_learnt_nothing_says_nothing(note: dict[str, Any], has_values: bool, tmp_path: Path) -> None:
    """Distilling trains the actor alone."""
    model = RecurrentPPO("NCPPolicy", pendulum(), policy_kwargs={"wiring": PLAN}, seed=0)
    save_policy(model, tmp_path / "agent.safetensors", note)
    agent = load_policy(tmp_path / "agent.safetensors")
    found = record(agent, pendulum(), tmp_path / "run.npz", 5, progress=False)
    assert (found.get("values") is not None) == has_values


def test_an_episode_over_history_begins_in_the_initial_state_and_not_behind_the_padding(tmp_path: Path) -> None:
    def make() -> Any:
        return History(gym.make("Pendulum-v1", max_episode_steps=4), window=3)

    kwargs = dict(features_extractor_class=NCPExtractor, features_extractor_kwargs=dict(wiring=PLAN, cell="ltc"))
    model = PPO("MultiInputPolicy", make(), policy_kwargs=kwargs, seed=0, device="cpu")
    found = record(model, make(), tmp_path / "run.npz", 10, progress=False)
    circuit = actor_circuit(model.policy)
    assert circuit is not None
    starts = np.flatnonzero(found.episode_starts)
    assert starts.tolist() == [0, 4, 8]
    with torch.no_grad():
        wanted = circuit.cell.time_constants(torch.tensor(found.inputs[starts]), circuit.cell.initial_state(3))
    np.testing.assert_allclose(found.time_constants[starts], wanted.numpy(), rtol=1e-5)
