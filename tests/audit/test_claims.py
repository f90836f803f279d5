"""What a certificate says is true where numbers are extreme, and the attack finds what would not be."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import ncp_control as nc
from helpers.attacked import broken_claims
from helpers.small_agents import agent_of
from ncp_control.audit import audit
from ncp_control.audit.certificate import Range
from ncp_control.audit.sequences import Sequences
from ncp_control.audit.widest import Attacker
from ncp_control.base.intervals import Interval
from ncp_control.neurons import LaggedMLP
from ncp_control.neurons.parameters import raw_of
from ncp_control.neurons.ranges import Elapsed
from ncp_control.rl import Controller
from ncp_control.wiring import Wiring

ONE = Wiring.from_edges(1, motor=1, sensory=[(0, 0)], synapses=[(0, 0)])


def slow_neuron() -> Any:
    """One LTC neuron that remembers some ten thousand steps, with a strong and a weak sensor and a strong head."""
    cell = nc.LTC(2, Wiring.from_edges(2, motor=1, sensory=[(0, 0), (1, 0)]), input_map="none", output_map="none")
    agent = agent_of(cell.requires_grad_(False))
    cell.cm_raw.copy_(raw_of(torch.tensor([2e4])))
    cell.gleak_raw.copy_(raw_of(torch.tensor([1.0])))
    cell.vleak.zero_()
    cell.sensory_w_raw.copy_(raw_of(torch.tensor([1.0, 1e-4])))
    for name, value in (("mu", 0.0), ("sigma", 20.0), ("E", 0.25)):
        getattr(cell, f"sensory_{name}").fill_(value)
    agent.policy.action_net.requires_grad_(False).weight.fill_(3e4)
    agent.policy.action_net.bias.zero_()
    return agent


def test_a_synapse_is_not_dead_if_a_slow_neuron_adds_up_what_it_carries() -> None:
    agent = slow_neuron()
    found = audit(agent, attack=20_000, progress=False)
    controller = Controller(agent)
    inputs = torch.full((2, 400_000, 2), -1.0)  # which closes the strong synapse
    inputs[1, :, 1] = 1.0
    actions = controller.limited(controller.head(controller.rnn(inputs)[0]))[:, -1, 0]
    share = float(actions[1] - actions[0]) / 2
    assert share > 0.3
    weak = found.synapses[1]
    assert (weak.source, weak.sign, weak.condition) == ("observation1", "+", "active")
    assert weak.matters is not None
    assert weak.matters >= share
    assert found.holds


def test_a_neuron_that_hardly_moves_is_not_dead_in_front_of_a_strong_head() -> None:
    agent = agent_of(nc.CTRNN(1, ONE, solver="fused").requires_grad_(False))
    cell = agent.policy.lstm_actor.cell
    for name, value in (("gamma", 1e-7), ("gamma_r", 0.0), ("mu", 0.0)):
        getattr(cell, name).fill_(value)
    agent.policy.action_net.requires_grad_(False).weight.fill_(1e7)
    (neuron,) = audit(agent, attack=0).neurons
    assert neuron.state.high - neuron.state.low < 1e-5
    assert neuron.condition == "active"
    assert neuron.matters == 1


def acyclic(seed: int = 0) -> Any:
    """Thirteen signed NeuralLTC neurons without a cycle, each of which reads all before it, some very strongly."""
    edges = [(i, j) for j in range(13) for i in range(j)]
    sensory = [(i, j) for j in range(12) for i in range(2)]
    wiring = Wiring.from_edges(2, inter=12, motor=1, sensory=sensory, synapses=edges)
    torch.manual_seed(seed)
    cell = nc.NeuralLTC(2, wiring, activation="tanh", signed=True).requires_grad_(False)
    cell.gamma_r.copy_(torch.randn(len(edges)) * 10 ** torch.empty(len(edges)).uniform_(0, 5))
    cell.tau_raw.copy_(raw_of(10 ** torch.empty(13).uniform_(-2, 3)))
    return agent_of(cell)


def test_bounds_of_what_moves_are_positive_whatever_the_weights_are() -> None:
    for seed in range(4):
        found = audit(acyclic(seed), attack=0)
        (action,) = found.actions
        assert action.moved_in_step is not None
        assert action.moved_in_episode is not None
        assert 0 <= action.moved_in_step <= action.moved_in_episode * (1 + 1e-9)
        for one in (*found.neurons, *found.synapses):
            assert one.matters is not None
            assert 0 <= one.matters <= 1


def relu() -> Any:
    """A neuron that excites itself by more than it forgets."""
    cell = nc.CTRNN(1, ONE, solver="fused", activation="relu", unfolds=1).requires_grad_(False)
    for name, value in (("gamma", 1.0), ("gamma_r", 5.0), ("mu", 2.0)):
        getattr(cell, name).fill_(value)
    return agent_of(cell)


def long_euler_steps() -> Any:
    """A neuron whose Euler steps are ten times as long as its time constant."""
    return agent_of(nc.CTRNN(1, ONE, unfolds=1, time_constants=(0.1, 0.1)))


def overflowing_circuit() -> Any:
    """A CT-RNN whose two synapses each overflow by themselves, with opposite signs, before their sum is rounded."""
    cell = nc.CTRNN(1, ONE, solver="fused", unfolds=1, time_constants=(10.0, 10.0)).requires_grad_(False)
    cell.gamma.fill_(3e38)
    cell.gamma_r.fill_(-3e38)
    return agent_of(cell, box=10.0)


@pytest.mark.parametrize("made", [relu, long_euler_steps, overflowing_circuit])
def test_an_action_that_can_be_nan_has_no_range(made: Callable[[], Any]) -> None:
    agent = made()
    controller = Controller(agent, "reference")  # compiled code may add up in another order
    torch.manual_seed(0)
    low, high = (float(end[0]) for end in (agent.observation_space.low, agent.observation_space.high))
    inputs = low + (high - low) * torch.rand(64, 500, len(controller.sensors)).round()
    actions = controller.limited(controller.head(controller.rnn(inputs)[0]))
    assert actions.isnan().any()
    found = audit(agent, attack=20_000, progress=False)
    action = found.actions[0]
    assert [action.value.low, action.value.high] == [-math.inf, math.inf]
    assert action.moved_in_step is None
    assert any("no certified range" in note for note in found.notes)
    assert found.holds
    lie = replace(found, actions=tuple(replace(one, value=Range(-1.0, 1.0)) for one in found.actions), attack=None)
    assert "action0 was certified to lie from -1 to 1, and was no number" in broken_claims(
        lie, agent, 20_000, backend="reference"
    )


def test_of_a_box_that_float32_cannot_add_up_nothing_is_proved() -> None:
    agent = agent_of(nc.LTC(2, 3))
    found = audit(agent, box=(np.full(2, -3e38), np.full(2, 3e38)), attack=5_000, progress=False)
    assert found.holds
    assert all(math.isinf(one.low) for one in (*found.states, found.actions[0].value))
    assert any("largest number of float32" in note for note in found.notes)
    assert found.actions[0].moved_in_episode is None


def test_of_layers_that_float32_cannot_add_up_nothing_is_proved() -> None:
    agent = agent_of(nc.GRU(1, 4), actions=2)
    with torch.no_grad():
        agent.policy.action_net.weight.copy_(torch.tensor([[3e38, 3e38, -3e38, -3e38], [1.0, 1.0, 1.0, 1.0]]))
    found = audit(agent, attack=20_000, progress=False)
    assert [math.isinf(one.value.low) for one in found.actions] == [True, False]
    assert [one.moved_in_step is None for one in found.actions] == [True, False]
    assert found.holds


def test_an_lstm_whose_memory_has_no_range_has_actions_that_do() -> None:
    cell = nc.LSTM(1, 1).requires_grad_(False)
    cell.bias_ih.copy_(torch.tensor([9.0, 40.0, 9.0, 9.0]))  # remembers everything, and adds 1 in every step
    agent = agent_of(cell)
    found = audit(agent, attack=20_000, progress=False)
    assert found.holds
    assert math.isinf(found.states[1].high)
    assert -1 <= found.actions[0].value.low <= found.actions[0].value.high <= 1


@pytest.mark.system
def test_behind_strong_gap_junctions_bounds_have_room_for_rounding_or_are_not_proved() -> None:
    shown = []
    for gap in (1.0, 1e3, 1e9):
        wiring = Wiring.from_edges(1, inter=1, motor=1, sensory=[(0, 0)], gap_junctions=[(0, 1)])
        cell = nc.LTC(1, wiring, input_map="none", output_map="none").requires_grad_(False)
        cell.gap_raw.copy_(raw_of(torch.tensor([gap])))
        found = audit(agent_of(cell), attack=50_000, progress=False)
        assert found.holds
        shown.append(all(math.isfinite(one.high) for one in found.states))
    assert shown == [True, True, False]


def test_a_state_behind_one_that_overflows_has_no_range_even_behind_a_weight_of_zero() -> None:
    wiring = Wiring.from_edges(1, inter=1, motor=1, sensory=[(0, 0)], synapses=[(0, 0), (0, 1)])
    cell = nc.CTRNN(1, wiring, solver="fused", activation="relu").requires_grad_(False)
    cell.gamma.fill_(1.0)
    cell.gamma_r.copy_(torch.tensor([5.0, 0.0]))
    cell.mu.fill_(2.0)
    agent = agent_of(cell)
    assert Controller(agent).rnn(torch.ones(1, 1000, 1))[0].isnan().any()
    found = audit(agent, attack=20_000, progress=False)
    assert all(math.isinf(one.high) for one in found.states)
    assert found.holds


def rounding_gru() -> Any:
    """A GRU that holds its state while a gate is open, and else takes over what its other input says."""
    cell = nc.GRU(2, 1).requires_grad_(False)
    for parameter in cell.parameters():
        parameter.zero_()
    cell.weight_ih[1, 0], cell.weight_ih[2, 1] = 30.0, 0.8
    return agent_of(cell)


@pytest.mark.system
def test_a_state_that_rounding_drives_out_of_its_range_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_a_mean(self: Any, constants: None, sensed: torch.Tensor, state: torch.Tensor, elapsed: Any) -> torch.Tensor:
        _, z, n = sensed.chunk(3, dim=-1)
        n, z = torch.tanh(n), torch.sigmoid(z)
        return n + z * (state - n)  # with z = 1 this is not the state, but for rounding

    agent = rounding_gru()
    certificate = audit(agent, attack=0)
    assert certificate.states[0].high == pytest.approx(math.tanh(0.8), rel=1e-4)
    assert broken_claims(certificate, agent, 100_000, backend="reference") == ()
    monkeypatch.setattr(nc.GRU, "advance", not_a_mean)
    said = broken_claims(certificate, agent, 100_000, backend="reference")
    assert any(sentence.startswith("the state of motor0 was certified to lie from -0.664") for sentence in said)


@pytest.mark.system
def test_false_claims_about_what_moves_an_action_are_found() -> None:
    agent = slow_neuron()
    true = audit(agent, attack=0)

    def said(inputs: int = 50_000, **changes: Any) -> tuple[str, ...]:
        return broken_claims(replace(true, **changes), agent, inputs)

    dead = replace(true.synapses[1], sign="0", condition="dead", matters=0.0)
    first = said(synapses=(true.synapses[0], dead))[0]
    assert first.startswith("the synapse observation1 -> motor0 was certified to move an action by at most 0 of its")
    falls = replace(true.synapses[1], sign="-")
    assert "certified to lower its target, and raised it" in said(synapses=(true.synapses[0], falls))[0]
    neuron = replace(true.neurons[0], matters=-4.3e12)
    assert said(neurons=(neuron,))[0].startswith("motor0 was certified to move an action by at most -4.3e+12")
    for changes, sentence in (
        ({"moved_in_episode": -3.7e8}, "action0 was certified to move by at most -3.7e+08 by errors in every step"),
        ({"moved_in_step": 0.0}, "action0 was certified to move by at most 0 in one step"),
    ):
        (found,) = said(actions=(replace(true.actions[0], **changes),))
        assert found.startswith(sentence)
    assert any("certified never to reach action0" in one for one in said(200_000, paths=true.paths[:1]))


@pytest.mark.system
def test_a_false_claim_about_forgetting_and_about_a_choice_is_found() -> None:
    agent = slow_neuron()
    true = audit(agent, attack=0)
    assert true.forgetting is not None
    said = broken_claims(replace(true, forgetting=replace(true.forgetting, steps=3)), agent, 200_000)
    assert len(said) == 1
    assert said[0].startswith("two pasts were certified to differ for at most 3 steps, and differed for ")


@pytest.mark.parametrize("units", [3, 4, 7])
def test_nothing_is_said_of_the_neurons_of_a_state_that_is_made_of_inputs(units: int) -> None:
    found = audit(agent_of(LaggedMLP(2, units, lags=2)), attack=10_000, progress=False)  # a state of 4 numbers
    assert found.holds
    assert len(found.neurons) == units
    assert {one.matters for one in (*found.neurons, *found.synapses)} == {None}
    assert {one.condition for one in found.synapses} == {"active"}


def test_a_synapse_that_acts_within_a_step_is_attacked_alone() -> None:
    """The motor neuron reads two neurons of this step, one of which has read the other's former state."""
    wiring = Wiring.from_edges(1, inter=2, motor=1, sensory=[(0, 0)], synapses=[(0, 1), (0, 2), (1, 2)])
    cell = nc.CfC(1, wiring, mode="no_gate").requires_grad_(False)
    for parameter in cell.parameters():
        parameter.zero_()
    cell.sensory_weight[0] = 2.0
    for pair, weight in (((0, 1), 2.0), ((0, 2), 0.2), ((1, 2), -2.0)):
        cell.weight[0, list(zip(cell.source.tolist(), cell.target.tolist(), strict=True)).index(pair)] = weight
    agent = agent_of(cell)
    agent.policy.action_net.requires_grad_(False).weight.fill_(0.1)
    found = audit(agent, attack=20_000, progress=False)
    assert found.holds
    assert [one.sign for one in found.synapses] == ["+", "+", "+", "-"]
    for one in found.synapses[1:]:
        assert one.matters is not None
        assert one.found_matters is not None
        assert one.found_matters > 0.3 * one.matters
    wrong = [replace(one, sign="-") if one.target == "motor0" else one for one in found.synapses]
    (said,) = broken_claims(replace(found, synapses=tuple(wrong)), agent, 20_000)
    assert said.startswith("the synapse inter0 -> motor0 was certified to lower its target, and raised it by")


@pytest.mark.parametrize(("kind", "seed"), [("dual", 0), ("dual", 13), ("default", 8), ("no_gate", 8)])
def test_what_a_neuron_carries_is_bounded_wherever_it_may_be_held(kind: str, seed: int) -> None:
    """In a narrow box neurons saturate far from zero, where they begin and where they may be held."""
    torch.manual_seed(seed)
    drawn, plan = random.Random(seed), nc.AutoNCP(9, 2, seed=seed)
    cell: Any = nc.DualLTC(2, plan, time_constants=(0.05, 0.3)) if kind == "dual" else nc.CfC(2, plan, mode=kind)
    for name, parameter in cell.requires_grad_(False).named_parameters():
        if "weight" in name:
            parameter.mul_(drawn.uniform(2, 10))
    middle = np.array([drawn.uniform(-1, 1) for _ in range(2)])
    certificate = audit(agent_of(cell), box=(middle - 0.05, middle + 0.05), attack=20_000, progress=False)
    assert certificate.attack is not None
    assert certificate.attack.violations == ()
    assert any(one.matters is not None and one.matters < 0.9 for one in certificate.synapses)


def test_an_attack_holds_observations_of_a_box_without_zero() -> None:
    """Also of a neuron whose time constant it has not seen yet."""
    box = Interval(np.array([0.4, -0.5]), np.array([0.5, -0.4]))
    held = (
        Attacker(Controller(agent_of(nc.NeuralLTC(2, 3))), Sequences(box, Elapsed(1.0, 1.0))).slowest.double().numpy()
    )
    assert held.shape == (3, 2)
    assert ((held >= box.low) & (held <= box.high)).all()
