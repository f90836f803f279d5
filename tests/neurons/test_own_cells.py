"""A cell of one's own in agents, in models of the dynamics, in their files, in recordings, and with neurons held."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

gym = pytest.importorskip("gymnasium")
pytest.importorskip("sb3_contrib")

from stable_baselines3 import PPO  # noqa: E402

import ncp_control as nc  # noqa: E402
from helpers.oscillators import oscillators  # noqa: E402
from ncp_control.activity import Activity, record_network  # noqa: E402
from ncp_control.checkpoint import CheckpointError  # noqa: E402
from ncp_control.dynamics import DynamicsModel, save_model  # noqa: E402
from ncp_control.neurons import (  # noqa: E402
    Cell,
    Currents,
    Guarantee,
    Held,
    ODECell,
    cell_config,
    named_cell,
    without_synapses,
)
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


class Shunting(ODECell):
    """Grossberg's neuron, the example of docs/extending.md, without its currents."""

    guarantee = Guarantee(True, "a fused step is a weighted mean of x, -1, 0 and 1")

    def __init__(self, inputs: int, plan: Any, solver: str = "fused", unfolds: int = 6) -> None:
        super().__init__(inputs, plan, solver, unfolds)
        self.weight = torch.nn.Parameter(torch.randn(inputs + self.units, self.units) * 0.5)

    def constants(self) -> Any:
        return self.weight.split([self.inputs, self.units])

    def sense(self, constants: Any, inputs: Tensor) -> Tensor:
        sensed: Tensor = inputs @ constants[0]
        return sensed

    def rate_and_drive(self, constants: Any, sensed: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        current = sensed + state @ constants[1]
        excitation, inhibition = current.relu(), (-current).relu()
        return 1 + excitation + inhibition, excitation - inhibition

    def time_constant_bounds(self) -> tuple[Tensor, Tensor]:
        return torch.zeros(self.units), torch.ones(self.units)

    def state_bounds(self) -> tuple[Tensor, Tensor]:
        return -torch.ones(self.units), torch.ones(self.units)


class ShuntingWithCurrents(Shunting):
    """Knows its currents: the terms that its ODE adds up."""

    def currents(self, inputs: Tensor, before: Tensor, after: Tensor) -> Currents:
        sensory, synapses = (
            (torch.tensor(edges.source), torch.tensor(edges.target))
            for edges in (self.wiring.sensory, self.wiring.synapses)
        )
        return Currents(
            inputs[:, sensory[0]] * self.weight[sensory],
            before[:, synapses[0]] * self.weight[self.inputs + synapses[0], synapses[1]],
            inputs.new_zeros(len(inputs), len(self.wiring.gap_junctions)),
        )


class Counter(Cell):
    """Counts its steps up from ten in every neuron and adds the inputs: a cell without an ODE or time constants."""

    guarantee = Guarantee(False, "it counts without end")

    def __init__(self, inputs: int, plan: Any) -> None:
        super().__init__(inputs, plan)
        self.weight = torch.nn.Parameter(torch.ones(inputs, self.units))

    def initial_state(self, batch: int, **kind: Any) -> Tensor:
        return super().initial_state(batch, **kind) + 10

    def constants(self) -> None:
        return None

    def sense(self, constants: None, inputs: Tensor) -> Tensor:
        return inputs @ self.weight

    def advance(self, constants: None, sensed: Tensor, state: Tensor, elapsed: Any) -> Tensor:
        return state + sensed + 1

    def time_constants(self, inputs: Tensor, state: Tensor) -> Tensor:
        return torch.full_like(state, torch.nan)

    def time_constant_bounds(self) -> tuple[Tensor, Tensor]:
        return torch.zeros(self.units), torch.full((self.units,), torch.inf)

    def state_bounds(self) -> tuple[Tensor, Tensor]:
        return torch.full((self.units,), -torch.inf), torch.full((self.units,), torch.inf)

    def config(self) -> dict[str, Any]:
        return {}


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


@pytest.mark.system
@pytest.mark.parametrize("cell", [My_Leaky, Mixed])
@pytest.mark.parametrize("kind", ["ppo", "sac", "extractor"])
def test_an_agent_of_ones_own_cells_trains_and_comes_back_from_its_file(kind: str, cell: Any, tmp_path: Path) -> None:
    trained = model(kind, cell).learn(24)
    path = tmp_path / "own.safetensors"
    save_policy(trained, path)
    with pytest.raises(
        CheckpointError, match=rf"unknown cell '{cell.__name__}'.*; .*classes of your own.*cells=\[...\]"
    ):
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
    with pytest.raises(ValueError, match=r"unknown cell 'Shunting'.*give a class of your own instead of a name"):
        model("ppo", "Shunting")
    with pytest.raises(TypeError, match=r'a name such as "ltc" or a class such as nc.LTC, not 3'):
        model("sac", 3)
    for cell in ("mixedmemory", "Mixed-Memory", nc.MixedMemory):
        with pytest.raises(ValueError, match="goes around another cell: write a class of your own"):
            model("extractor", cell)


def test_a_class_with_the_name_of_ours_cannot_be_written(tmp_path: Path) -> None:
    other = type("LTC", (nc.LTC,), {})
    with pytest.raises(ValueError, match="ncp_control has a cell LTC of its own: rename"):
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


def recorded(cell: Cell, out: Path) -> tuple[Activity, Tensor]:
    inputs = torch.randn(9, cell.inputs)
    return record_network(nc.RNN(cell), inputs, out), inputs


@pytest.mark.parametrize("kind", [Shunting, Counter])
def test_the_currents_of_ones_own_cell_are_recorded_as_not_known(kind: Any, tmp_path: Path) -> None:
    plan = nc.GapJunctions(nc.FullyConnected(5, 2), 2)
    activity, _ = recorded(kind(3, plan), tmp_path / "own.npz")
    for currents, count in ((activity.sensory_currents, 15), (activity.currents, 25), (activity.gap_currents, 2)):
        assert currents.shape == (9, count)
        assert np.isnan(currents).all()
    assert np.isfinite(activity.neurons).all()
    assert np.isnan(activity.time_constants).all() == (kind is Counter)


def test_the_currents_that_ones_own_cell_knows_are_recorded(tmp_path: Path) -> None:
    cell = ShuntingWithCurrents(3, nc.FullyConnected(5, 2))
    activity, inputs = recorded(cell, tmp_path / "own.npz")
    before = torch.cat([torch.zeros(1, 5), torch.as_tensor(activity.neurons[:-1])])
    total = torch.zeros(9, 5)
    total.index_add_(1, torch.tensor(cell.wiring.sensory.target), torch.as_tensor(activity.sensory_currents))
    total.index_add_(1, torch.tensor(cell.wiring.synapses.target), torch.as_tensor(activity.currents))
    torch.testing.assert_close(total, (torch.cat([inputs, before], dim=1) @ cell.weight).detach())


def test_neurons_of_ones_own_ode_are_held_within_a_step() -> None:
    cell, inputs = Shunting(3, 5), torch.randn(2, 6, 3)
    states = nc.RNN(Held(cell, {1: 0.7}))(inputs, states=True)[2]
    assert (states[..., 1] == 0.7).all()
    with torch.no_grad():
        cell.weight[:, 1] = torch.randn(8)  # what comes into the held neuron
    assert torch.equal(nc.RNN(Held(cell, {1: 0.7}))(inputs, states=True)[2], states)
    assert not torch.allclose(nc.RNN(Held(cell, {1: -0.7}))(inputs, states=True)[2][..., 2:], states[..., 2:])


@pytest.mark.parametrize("kind", [My_Leaky, Counter])
def test_a_step_of_ones_own_is_never_bypassed_when_neurons_are_held(kind: Any) -> None:
    cell, inputs = kind(3, 5), torch.randn(2, 6, 3)
    states = nc.RNN(Held(cell, {1: 0.7}))(inputs, states=True)[2]
    assert (states[..., 1] == 0.7).all()
    free = [0, 2, 3, 4]
    before = cell.initial_state(2)
    for t in range(6):
        before[:, 1] = 0.7
        after = cell.step(inputs[:, t], before)
        torch.testing.assert_close(states[:, t, free], after[:, free])
        before = states[:, t].clone()


def test_synapses_of_ones_own_cell_are_not_cut() -> None:
    with pytest.raises(ValueError, match="the synapses of Shunting cannot be cut one by one"):
        without_synapses(Shunting(3, 5), [0])
