"""A cell of one's own, given as a class, in agents and in models of the dynamics, and in their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

gym = pytest.importorskip("gymnasium")
pytest.importorskip("sb3_contrib")

from stable_baselines3 import PPO  # noqa: E402

import ncp_control as nc  # noqa: E402
from helpers.oscillators import oscillators  # noqa: E402
from ncp_control.cells import cell_config, named_cell  # noqa: E402
from ncp_control.checkpoint import CheckpointError  # noqa: E402
from ncp_control.dynamics import DynamicsModel, save_model  # noqa: E402
from ncp_control.rl import NCPExtractor, RecurrentPPO, RecurrentSAC, load_policy, save_policy  # noqa: E402
from ncp_envs import History  # noqa: E402


class My_Leaky(nc.CTRNN):
    """Remembers half of what a CT-RNN does; its name has a line in it."""

    def advance(self, constants: Any, sensed: Any, state: Any, elapsed: Any) -> Any:
        return super().advance(constants, sensed, state, elapsed) / 2


class Mixed(nc.MixedMemory):
    """An LSTM's memory before a CfC."""

    def __init__(self, inputs: int, plan: Any, **settings: Any) -> None:
        super().__init__(nc.CfC(inputs, plan, **settings))


def model(kind: str, cell: Any, **kwargs: Any) -> Any:
    given = {"wiring": 6, "cell": cell, **kwargs}
    if kind == "ppo":
        return RecurrentPPO("NCPPolicy", "Pendulum-v1", n_steps=16, policy_kwargs=given, device="cpu", seed=0)
    if kind == "sac":
        small = {"buffer_size": 100, "learning_starts": 20, "sequence": 4, "burn_in": 2}
        return RecurrentSAC("NCPPolicy", "Pendulum-v1", policy_kwargs=given, device="cpu", seed=0, **small)
    env = History(gym.make("Pendulum-v1"), window=4)
    arguments = {"features_extractor_class": NCPExtractor, "features_extractor_kwargs": given}
    return PPO("MultiInputPolicy", env, n_steps=16, batch_size=16, policy_kwargs=arguments, device="cpu", seed=0)


@pytest.mark.parametrize("cell", [My_Leaky, Mixed])
@pytest.mark.parametrize("kind", ["ppo", "sac", "extractor"])
def test_an_agent_of_ones_own_cells_trains_and_comes_back_from_its_file(kind: str, cell: Any, tmp_path: Path) -> None:
    trained = model(kind, cell).learn(24)
    path = tmp_path / "own.safetensors"
    save_policy(trained, path)
    with pytest.raises(CheckpointError, match=rf"unknown cell '{cell.__name__}'.*; a class of your own.*cells=\[...\]"):
        nc.load(path)
    seen = trained.env.reset()
    wanted, after = trained.predict(seen, deterministic=True)
    for loaded in (load_policy(path, cells=[cell]), nc.load(path, cells=[cell])):
        action, state = loaded.predict(seen)
        np.testing.assert_array_equal(action, wanted)
        if after is not None:
            np.testing.assert_array_equal(state[0], after[0])


def test_a_class_of_ours_is_its_name(tmp_path: Path) -> None:
    trained = model("ppo", nc.LTC)
    named = model("ppo", "ltc")
    for one, other in zip(trained.policy.parameters(), named.policy.parameters(), strict=True):
        assert torch.equal(one, other)
    save_policy(trained, tmp_path / "ltc.safetensors")
    assert type(nc.load(tmp_path / "ltc.safetensors").policy.lstm_actor.cell) is nc.LTC


def test_what_is_no_cell_is_refused_with_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"unknown cell 'Shunting'.*a class of your own is given itself"):
        model("ppo", "Shunting")
    with pytest.raises(TypeError, match=r'a name such as "ltc", or a class of cells such as nc.LTC, and not 3'):
        model("sac", 3)
    for cell in ("mixedmemory", "Mixed-Memory", nc.MixedMemory):
        with pytest.raises(ValueError, match="goes around another cell: give a class of your own"):
            model("extractor", cell)


def test_a_class_with_the_name_of_ours_cannot_be_written(tmp_path: Path) -> None:
    other = type("LTC", (nc.LTC,), {})
    with pytest.raises(ValueError, match="LTC is a cell of ncp_control too: rename"):
        save_policy(model("ppo", other), tmp_path / "policy.safetensors")
    assert not list(tmp_path.iterdir())


def test_names_and_classes_are_looked_up() -> None:
    assert named_cell("My_Leaky", [My_Leaky]) is named_cell("myleaky", [My_Leaky]) is named_cell(My_Leaky) is My_Leaky
    assert cell_config(Mixed(3, 4)) == {"cell": "Mixed", **nc.CfC(3, 4).config()}


def test_a_network_of_mixed_memory_comes_back_as_ones_own_class(tmp_path: Path) -> None:
    rnn = nc.RNN(Mixed(3, 4))
    nc.save(rnn, tmp_path / "mixed.safetensors")
    again = nc.load(tmp_path / "mixed.safetensors", cells=[Mixed])
    inputs = torch.randn(2, 5, 3)
    assert type(again.cell) is Mixed
    assert torch.equal(again(inputs)[0], rnn(inputs)[0])


@pytest.mark.parametrize("cell", [My_Leaky, Mixed])
def test_a_model_of_the_dynamics_of_ones_own_cells(cell: Any, tmp_path: Path) -> None:
    train = oscillators(3)
    made = DynamicsModel.of(train, cell, 6)
    path = tmp_path / "model.safetensors"
    save_model(made, path)
    with pytest.raises(CheckpointError, match=r"unknown cell.*cells=\[...\]"):
        nc.load(path)
    again = nc.load(path, cells=[cell])
    seen = torch.as_tensor(train[0].observations[None, :9], dtype=torch.float32)
    with torch.no_grad():
        assert torch.equal(again(seen)[0], made(seen)[0])
