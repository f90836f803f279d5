"""Circuits in RLlib, against the real package: `python scripts/clients.py rllib`, which runs the page too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

import ncp_control as nc

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
pytest.importorskip("ray.rllib")

from ray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from ray.rllib.connectors.env_to_module import FlattenObservations, MeanStdFilter  # noqa: E402
from ray.rllib.core.columns import Columns  # noqa: E402
from ray.rllib.core.rl_module.rl_module import RLModuleSpec  # noqa: E402
from ray.rllib.utils.spaces.space_utils import unsquash_action  # noqa: E402

from ncp_control.integrations.rllib import CircuitRLModule, save_agent  # noqa: E402

VECTOR = spaces.Box(-np.inf, np.inf, (3,), np.float32)


def module_of(action_space: Any = None, observation_space: Any = VECTOR, **settings: Any) -> CircuitRLModule:
    acted = spaces.Box(-1.0, 1.0, (2,), np.float32) if action_space is None else action_space
    config = {"wiring": "AutoNCP(12, 4)", **settings}
    return CircuitRLModule(observation_space=observation_space, action_space=acted, model_config=config)


def algorithm_of(env: str, *connectors: type, **settings: Any) -> Any:
    spec = RLModuleSpec(CircuitRLModule, model_config={"wiring": "AutoNCP(12, 4)"})
    before = (lambda env, spaces, device: [connector() for connector in connectors]) if connectors else None
    return (
        PPOConfig()
        .environment(env)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=4, env_to_module_connector=before)
        .rl_module(rl_module_spec=settings.pop("spec", spec))
        .training(train_batch_size_per_learner=256, minibatch_size=128, num_epochs=2, lr=3e-3)
        .debugging(seed=0)
        .build_algo()
    )


@pytest.fixture(scope="module", params=["Pendulum-v1", "CartPole-v1"])
def trained(request: pytest.FixtureRequest) -> Iterator[Any]:
    algorithm = algorithm_of(request.param, MeanStdFilter)
    for _ in range(2):
        algorithm.train()
    yield algorithm
    algorithm.stop()


def test_the_file_acts_as_the_algorithm_does(trained: Any, tmp_path: Path) -> None:
    save_agent(trained, tmp_path / "agent.safetensors", {"seed": 0})
    agent, module = nc.load(tmp_path / "agent.safetensors"), trained.get_module()
    assert agent.note["env"] == trained.config.env
    env, state = gym.make(trained.config.env), None
    connector = trained.env_runner._env_to_module.connectors[0]
    inner = {name: torch.zeros(1, len(value)) for name, value in module.get_initial_state().items()}
    seen, _ = env.reset(seed=1)
    for step in range(60):
        read = connector._filters[None](seen, update=False)
        batch = {Columns.OBS: torch.as_tensor(read, dtype=torch.float32)[None, None], Columns.STATE_IN: inner}
        told = module.forward_inference(batch)
        inner = told[Columns.STATE_OUT]
        numbers = told[Columns.ACTION_DIST_INPUTS][0, 0].numpy()
        action, state = agent.predict(seen, state, np.array([step == 0]), deterministic=True)
        if isinstance(env.action_space, spaces.Discrete):
            assert action == numbers.argmax()
        else:
            np.testing.assert_allclose(action, unsquash_action(numbers[:1], env.action_space), atol=1e-5)
        seen, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            break
    assert step >= 8


def test_the_spread_of_the_actions_is_kept(tmp_path: Path) -> None:
    algorithm = algorithm_of("Pendulum-v1")
    save_agent(algorithm, tmp_path / "agent.safetensors")
    agent = nc.load(tmp_path / "agent.safetensors")
    np.testing.assert_allclose(agent.policy.log_std.detach().exp(), 2.0)  # RLlib's 1, times half of the range
    assert not agent.normalizes
    algorithm.stop()


def test_a_sequence_gives_what_its_steps_give() -> None:
    module = module_of()
    state = {name: torch.zeros(2, len(value)) for name, value in module.get_initial_state().items()}
    seen = torch.randn(2, 7, 3)
    whole = module.forward_train({Columns.OBS: seen, Columns.STATE_IN: state})
    values = module.compute_values({Columns.OBS: seen, Columns.STATE_IN: state})
    torch.testing.assert_close(module.compute_values({}, whole[Columns.EMBEDDINGS]), values)
    assert values.shape == (2, 7)
    for step in range(7):
        told = module.forward_inference({Columns.OBS: seen[:, step : step + 1], Columns.STATE_IN: state})
        state = told[Columns.STATE_OUT]
        torch.testing.assert_close(
            told[Columns.ACTION_DIST_INPUTS][:, 0], whole[Columns.ACTION_DIST_INPUTS][:, step], atol=1e-5, rtol=1e-5
        )
    for name, last in whole[Columns.STATE_OUT].items():
        torch.testing.assert_close(last, state[name], atol=1e-5, rtol=1e-5)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit CircuitRLModule: there is no 'wirring'"):
        module_of(wirring=8)
    with pytest.raises(ValueError, match=r"reads vectors.*flatten them first"):
        module_of(observation_space=spaces.Box(0, 255, (8, 8, 3), np.uint8))
    with pytest.raises(ValueError, match="gives vectors of numbers or a choice"):
        module_of(spaces.MultiDiscrete([2, 3]))


def test_a_file_cannot_hold_any_connector(tmp_path: Path) -> None:
    algorithm = algorithm_of("Pendulum-v1", FlattenObservations)
    with pytest.raises(ValueError, match="holds one MeanStdFilter, and observations go through FlattenObservations"):
        save_agent(algorithm, tmp_path / "agent.safetensors")
    with pytest.raises(ValueError, match=r"let it end in \.safetensors"):
        save_agent(algorithm, tmp_path / "agent.zip")
    algorithm.stop()
    algorithm = algorithm_of("Pendulum-v1", spec=RLModuleSpec())
    with pytest.raises(TypeError, match="writes a CircuitRLModule, and this algorithm has a Default"):
        save_agent(algorithm, tmp_path / "agent.safetensors")
    algorithm.stop()
    assert list(tmp_path.iterdir()) == []
