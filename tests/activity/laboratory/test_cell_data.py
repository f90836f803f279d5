"""What the laboratory's page cannot run is refused early, in one sentence; what it can run becomes plain JSON."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import ncp_control as nc
from helpers.cells import ZOO, build
from helpers.small_agents import small_agent
from ncp_control.activity.laboratory.controllers import CIRCUIT_SCRIPTS, controller_data
from ncp_control.base.pages import script_json
from ncp_control.neurons import Cell, Held, MixedMemory
from ncp_control.neurons.page import MOST_NUMBERS, cell_data, kind_of
from ncp_control.rl import RecurrentPPO, load_policy, save_policy
from ncp_control.rl.controller import Controller


class Louder(nc.CTRNN):
    """A cell of one's own."""

    def motor(self, states: Tensor) -> Tensor:
        return 2 * super().motor(states)


class Plain(MixedMemory):
    """Has the constructor that a policy needs, and nothing else."""

    def __init__(self, inputs: int, plan: Any, **settings: Any) -> None:
        super().__init__(nc.CfC(inputs, plan, **settings))


class PlainSon(Plain):
    """Has nothing of its own."""

    uses_elapsed = True


class Forgetful(Plain):
    """Its step differs."""

    def advance(self, *arguments: Any) -> Tensor:
        return torch.zeros_like(super().advance(*arguments))


def refusal(cell: Cell) -> str:
    with pytest.raises(ValueError, match=r"laboratory") as caught:
        cell_data(cell)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", [name for name in ZOO if "dopri5" not in name])
def test_every_cell_becomes_json_and_stays_as_it_is(name: str) -> None:
    cell = build(name)
    before = {key: value.clone() for key, value in cell.state_dict().items()}
    data = cell_data(cell)
    assert json.loads(script_json(data)) == data
    assert data["stateSize"] == cell.state_size
    assert all(torch.equal(value, before[key]) for key, value in cell.state_dict().items())
    assert all(parameter.requires_grad for parameter in cell.parameters())


@pytest.mark.parametrize("name", ["ltc-dopri5", "neural-ltc-dopri5", "ctrnn-dopri5", "neural-ode-dopri5"])
def test_a_solver_that_chooses_its_own_steps_is_refused(name: str) -> None:
    assert re.fullmatch(
        r"a laboratory cannot run \w+ with the solver 'dopri5', which chooses its own steps: "
        "give it one with fused, euler or rk4",
        refusal(build(name)),
    )


def test_a_cell_of_ones_own_is_refused() -> None:
    for cell, name in ((Louder(2, 3), "Louder"), (Forgetful(2, 3), "Forgetful"), (Held(nc.GRU(1, 2), {0: 1}), "Held")):
        assert refusal(cell).startswith(f"a laboratory cannot run the cell {name}: the cells that it can run are LTC, ")


def test_a_class_that_only_names_a_mixed_memory_is_one() -> None:
    assert kind_of(Plain(2, 3)) is kind_of(PlainSon(2, 3)) is MixedMemory
    assert cell_data(PlainSon(2, 3, mode="pure"))["inner"]["mode"] == "pure"


def test_what_is_inside_a_mixed_memory_is_refused_as_if_it_were_alone() -> None:
    assert "the cell Louder" in refusal(MixedMemory(Louder(2, 3)))
    assert "dopri5" in refusal(MixedMemory(build("ltc-dopri5")))


def test_a_circuit_that_is_too_large_for_a_page_is_refused() -> None:
    wide = nc.GRU(1, 1200)
    assert f"at most {MOST_NUMBERS:,}" in refusal(wide)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_no_numbers_are_carried_as_they_are(value: float) -> None:
    cell = build("cfc-pure")
    for parameter in cell.parameters():
        nn.init.constant_(parameter, value)
    assert json.loads(json.dumps(cell_data(cell), allow_nan=False)) == cell_data(cell)


def test_an_agent_without_a_circuit_or_with_choices_is_refused(tmp_path: Path) -> None:
    for kind, sentence in (
        ("plain", "the agent has no circuit, so that a laboratory has nothing to show: give it one that has"),
        ("choices", "the agent makes a choice at every step, and a laboratory runs agents whose actions are numbers"),
    ):
        with pytest.raises(ValueError, match=f"^{sentence}$"):
            controller_data(Controller(small_agent(kind, tmp_path)))


def test_a_layer_that_the_page_does_not_know_is_refused(tmp_path: Path) -> None:
    controller = Controller(small_agent("circuit", tmp_path))
    controller.head = nn.Sequential(nn.Tanh(), nn.Softplus())
    with pytest.raises(ValueError, match="cannot run the layer Softplus: the layers that it can run are Linear, Tanh"):
        controller_data(controller)
    controller.head, controller.extractor = nn.Tanh(), nn.Linear(3, 3)
    with pytest.raises(ValueError, match="cannot run the features extractor Linear: give it an agent that reads vect"):
        controller_data(controller)


def test_an_agent_without_normalisation_becomes_json(tmp_path: Path) -> None:
    model = RecurrentPPO("NCPPolicy", "Pendulum-v1", seed=0, device="cpu", policy_kwargs={"wiring": 4, "cell": "gru"})
    save_policy(model, tmp_path / "free.safetensors", {"env": "Pendulum-v1"})
    agent = load_policy(tmp_path / "free.safetensors")
    data = controller_data(Controller(agent))
    assert data["normalize"] is None
    assert json.loads(script_json(data)) == data


def test_the_list_of_scripts_is_complete() -> None:
    folder = Path(nc.__file__).parent / "neurons"
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*.js")}
    assert sorted(CIRCUIT_SCRIPTS) == sorted([*files, "controller.js"])
