"""A circuit with fewer synapses: which neurons are left, and that everything that stays works as before."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from helpers.cells import build
from helpers.wirings import DEEP_NCP, PLANS, ways
from ncp_control.distil.smaller import check_prunable, copy_parameters, smaller_wiring
from ncp_control.neurons import GRU, LTC, CfC, without_synapses
from ncp_control.rnn import RNN
from ncp_control.wiring import Wiring, WiringError

PRUNABLE = (
    "ltc-sparse", "ltc-gaps", "ltc-bounded", "ltc-deep", "ltc-chain", "neural-ltc-deep", "neural-ltc-bounded",
    "ctrnn-sparse", "neural-ode-sparse", "cfc-default", "cfc-no_gate", "cfc-pure",
)  # fmt: skip
CHAIN = Wiring.from_edges(
    ["light", "touch"],
    inter=[["A", "B"], ["C"]],
    command=["D", "E"],
    motor=["left", "right"],
    sensory=[("light", "A"), ("touch", "D")],
    synapses=[("A", "B"), ("B", "C"), ("C", "D"), ("D", "left"), ("E", "right"), ("A", "right"), ("D", "E")],
    gap_junctions=[("B", "D"), ("C", "E")],
)


def without(wiring: Wiring, *gone: tuple[str, str]) -> tuple[Wiring, Any]:
    """Returns the smaller wiring without synapses that are given by the names of their ends."""
    names = wiring.neuron_names
    sensory = [(wiring.input_names[s], names[t]) not in gone for s, t, _ in wiring.sensory]
    synapses = [(names[s], names[t]) not in gone for s, t, _ in wiring.synapses]
    return smaller_wiring(wiring, np.array(sensory, dtype=bool), np.array(synapses, dtype=bool))


def test_a_wiring_that_loses_nothing_stays_the_same() -> None:
    assert without(CHAIN)[0] == CHAIN


def test_a_neuron_that_no_input_reaches_goes_and_one_that_reaches_no_motor_neuron() -> None:
    whole = Wiring.from_edges(
        1, inter=["first", "deaf", "mute"], motor=["out"],
        sensory=[(0, "first"), (0, "deaf")],
        synapses=[("first", "out"), ("deaf", "out"), ("first", "mute"), ("mute", "out"), ("deaf", "deaf")],
    )  # fmt: skip
    found, neurons = without(whole, ("input0", "deaf"), ("mute", "out"))
    assert found.neuron_names == ("first", "out")
    assert neurons.tolist() == [0, 3]
    assert list(found.synapses) == [(0, 1, 1)]
    assert list(found.sensory) == [(0, 0, 1)]


def test_a_layer_without_neurons_goes_and_the_others_keep_their_order_and_their_names() -> None:
    found, _ = without(CHAIN, ("B", "C"), ("C", "D"), ("D", "E"), ("E", "right"))
    # C and E are joined by a gap junction, but nothing leads to them
    assert found.layer_sizes == (("inter", 2), ("command", 1), ("motor", 2))
    assert found.neuron_names == ("A", "B", "D", "left", "right")
    assert found.gap_junctions.tolist() == [[1, 2]]
    assert found.input_names == CHAIN.input_names


def test_a_gap_junction_reaches_as_a_synapse_does() -> None:
    found, _ = without(CHAIN, ("touch", "D"), ("C", "D"))
    assert "D" in found.neuron_names


def test_a_motor_neuron_goes_but_not_the_last_one() -> None:
    found, neurons = without(CHAIN, ("A", "right"), ("E", "right"))
    assert found.neuron_names[-1] == "left"
    assert found.outputs == 1
    assert neurons.tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(WiringError, match="no input reaches a motor neuron any more"):
        without(CHAIN, ("A", "right"), ("E", "right"), ("D", "left"))


@pytest.mark.parametrize("plan", [*PLANS, DEEP_NCP], ids=repr)
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_every_neuron_that_is_left_is_between_an_input_and_a_motor_neuron(plan: Any, share: float) -> None:
    whole, random = plan.build(4), np.random.default_rng(0)
    sensory, synapses = (random.random(len(edges)) > share for edges in (whole.sensory, whole.synapses))
    found, neurons = smaller_wiring(whole, sensory, synapses)
    reached, reaches = ways(found)
    assert reached.all()
    assert reaches.all()
    assert found.neuron_names == tuple(whole.neuron_names[k] for k in neurons)
    kept = {(s, t, p) for k, (s, t, p) in enumerate(whole.synapses) if synapses[k]}
    ours = {(int(neurons[s]), int(neurons[t]), p) for s, t, p in found.synapses}
    left = set(neurons.tolist())
    assert ours == {(s, t, p) for s, t, p in kept if s in left and t in left}


def smaller_and_cut(cell: Any, seed: int) -> tuple[Any, Any, list[int]] | None:
    """Returns a cell with a part of the synapses, and the whole cell in which the others carry nothing.

    The third is which of the whole cell's outputs the smaller one has. Returns None if no motor neuron would be left.
    """
    wiring, random = cell.wiring, np.random.default_rng(seed)
    sensory, synapses = (random.random(len(edges)) > 0.3 for edges in (wiring.sensory, wiring.synapses))
    try:
        found, neurons = smaller_wiring(wiring, sensory, synapses)
    except WiringError:
        return None
    smaller = type(cell)(cell.inputs, found, **cell.config()).to(cell.dtype)
    copy_parameters(cell, smaller, neurons)
    ours = {(int(neurons[s]), int(neurons[t])) for s, t, _ in found.synapses}
    heard = {(s, int(neurons[t])) for s, t, _ in found.sensory}
    gaps = {tuple(int(neurons[k]) for k in pair) for pair in found.gap_junctions.tolist()}
    kept = set(neurons.tolist())
    cut = without_synapses(
        cell,
        # The neurons of a CfC feed themselves, with or without a synapse.
        [k for k, (s, t, _) in enumerate(wiring.synapses)
         if (s, t) not in ours and not (isinstance(cell, CfC) and s == t and s in kept)],
        [k for k, (s, t, _) in enumerate(wiring.sensory) if (s, t) not in heard],
        [k for k, pair in enumerate(wiring.gap_junctions.tolist()) if tuple(pair) not in gaps],
    )  # fmt: skip
    return smaller, cut, [k - cell.motor_start for k in neurons.tolist() if k >= cell.motor_start]


@pytest.mark.parametrize("name", PRUNABLE)
def test_a_smaller_circuit_acts_as_the_whole_one_whose_other_synapses_carry_nothing(name: str) -> None:
    cell = build(name, torch.float64, shaken=0.3)
    inputs = torch.randn(2, 4, cell.inputs, dtype=torch.float64)
    found = [one for seed in range(4) if (one := smaller_and_cut(cell, seed)) is not None]
    assert found
    for smaller, cut, motor in found:
        ours, _ = RNN(smaller, "reference")(inputs)
        theirs, _ = RNN(cut, "reference")(inputs)
        # what an LTC's cut synapses still carry is their smallest conductance, 1e-8
        torch.testing.assert_close(ours, theirs[..., motor], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", PRUNABLE)
def test_a_circuit_that_loses_nothing_keeps_every_parameter_to_the_last_bit(name: str) -> None:
    cell = build(name, torch.float32)
    whole, neurons = smaller_wiring(
        cell.wiring, np.ones(len(cell.wiring.sensory), dtype=bool), np.ones(len(cell.wiring.synapses), dtype=bool)
    )
    if whole != cell.wiring:
        pytest.skip("it has neurons that no input reaches, or that reach no motor neuron")
    other = type(cell)(cell.inputs, whole, **cell.config())
    copy_parameters(cell, other, neurons)
    for key, value in cell.state_dict().items():
        assert torch.equal(value, other.state_dict()[key]), key


@pytest.mark.parametrize("cell", [GRU(2, 3), build("ct-gru", torch.float32), build("lagged-mlp", torch.float32)])
def test_a_cell_that_is_always_fully_connected_is_refused(cell: Any) -> None:
    with pytest.raises(ValueError, match=f"a circuit of {type(cell).__name__} is always fully connected"):
        check_prunable(cell)


def test_a_cell_whose_parameters_belong_to_no_synapse_alone_is_refused() -> None:
    with pytest.raises(ValueError, match="CfC has the parameter head"):
        check_prunable(CfC(2, 3, backbone=(4,)))

    class Noisy(LTC):
        def __init__(self, *arguments: Any, **settings: Any) -> None:
            super().__init__(*arguments, **settings)
            self.loudness = torch.nn.Parameter(torch.ones(1))

    with pytest.raises(ValueError, match="Noisy has the parameter loudness"):
        check_prunable(Noisy(2, 3))


def test_a_cell_of_ones_own_is_pruned_if_it_says_where_its_parameters_belong() -> None:
    class Loud(LTC):
        belongs: ClassVar = {**LTC.belongs, "neurons": (*LTC.belongs["neurons"], "loudness")}

        def __init__(self, *arguments: Any, **settings: Any) -> None:
            super().__init__(*arguments, **settings)
            self.loudness = torch.nn.Parameter(torch.rand(self.units))

    cell = Loud(2, CHAIN)
    found, neurons = without(CHAIN, ("B", "C"), ("C", "D"), ("D", "E"), ("E", "right"))
    smaller = Loud(2, found, **cell.config())
    copy_parameters(cell, smaller, neurons)
    assert torch.equal(smaller.loudness, cell.loudness[neurons])
    assert len(smaller.loudness) < len(cell.loudness)
