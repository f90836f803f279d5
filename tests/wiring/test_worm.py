"""The wiring of the worm's tap-withdrawal circuit agrees with the counts under the microscope."""

import re
from typing import Any

import pytest
import torch

import ncp_control as nc
from ncp_control.wiring.worm import CELLS, GAP_JUNCTIONS, SYNAPSES

# Contacts between single cells of the animal, left and right, as White et al. (1986) counted them.
COUNTED = {
    ("AVD", "AVA"): [13, 19, 16, 15], ("PVC", "AVB"): [5, 12, 8, 6], ("PVC", "AVA"): [2, 4, 7, 7],
    ("AVB", "AVA"): [7, 7, 6, 7], ("AVA", "PVC"): [10, 6, 7, 5], ("PVD", "AVA"): [6, 6, 6, 9],
    ("PVD", "PVC"): [1, 6, 13, 10], ("AVM", "AVB"): [6, 6], ("AVM", "PVC"): [4, 5], ("ALM", "PVC"): [4, 2, 3],
    ("PLM", "AVA"): [4, 1], ("PLM", "AVD"): [1, 4], ("DVA", "AVA"): [3, 1], ("PVC", "AVD"): [5, 2, 5, 1],
}  # fmt: skip
JOINED = {("AVA", "PVC"): [2, 5, 3], ("PLM", "PVC"): [1, 1], ("ALM", "AVM"): [1, 1], ("AVB", "DVA"): [1, 1]}
SPARSE = (nc.LTC, nc.NeuralLTC, nc.CfC, nc.CTRNN, nc.NeuralODE)


def test_names_and_counts() -> None:
    wiring = nc.tap_withdrawal()
    assert wiring.input_names == ("head", "body", "tail")
    assert wiring.neuron_names == ("ALM", "AVM", "PVD", "PLM", "AVD", "DVA", "PVC", "AVA", "AVB", "REV", "FWD")
    assert wiring.layer_sizes == (("inter1", 4), ("inter2", 3), ("command", 2), ("motor", 2))
    assert (len(wiring.sensory), len(wiring.synapses), len(wiring.gap_junctions)) == (4, 25, 7)
    assert (wiring.synapses.polarity < 0).sum() == 11
    assert set(CELLS) == set(wiring.neuron_names)
    assert nc.Wiring.from_json(wiring.to_json()) == wiring == nc.tap_withdrawal()
    with pytest.raises(ValueError, match="read-only"):
        wiring.synapses.polarity[0] = 1


@pytest.mark.parametrize(("counted", "listed"), [(COUNTED, SYNAPSES), (JOINED, GAP_JUNCTIONS)])
def test_contacts_are_the_sums_over_the_counted_cells(counted: dict[tuple[str, str], list[int]], listed: Any) -> None:
    by_pair = {one[:2] if listed is SYNAPSES else tuple(sorted(one[:2])): one.contacts for one in listed}
    for pair, cells in counted.items():
        assert by_pair[pair] == sum(cells), pair


def test_the_table_that_help_shows_is_the_wiring() -> None:
    shown = re.findall(
        r"^ *([A-Z]+) +([A-Z]+) +(\d+) +(\+|-|gap) +(\w+)$", nc.tap_withdrawal.__doc__ or "", re.MULTILINE
    )
    signs = {1: "+", -1: "-", 0: "gap"}
    assert shown == [
        (one.source, one.target, str(one.contacts), signs[one.polarity], one.sign)
        for one in (*SYNAPSES, *GAP_JUNCTIONS)
    ]
    assert {one.sign for one in SYNAPSES} == {"inferred", "assumed"}


def test_without_gap_junctions_their_pairs_are_joined_by_synapses() -> None:
    whole, chemical = nc.tap_withdrawal(), nc.tap_withdrawal(gap_junctions=False)
    assert len(chemical.gap_junctions) == 0
    assert set(whole.synapses) < set(chemical.synapses)
    names = chemical.neuron_names
    pairs = {(names[a], names[b]): sign for a, b, sign in chemical.synapses}
    assert {pair for pair in pairs if pair not in {one[:2] for one in SYNAPSES}} == {
        ("ALM", "AVM"), ("AVM", "AVD"), ("DVA", "AVB"), ("AVB", "FWD")
    }  # fmt: skip
    assert all((one.source, one.target) in pairs for one in GAP_JUNCTIONS)


@pytest.mark.parametrize("gap_junctions", [True, False])
@pytest.mark.parametrize("kind", SPARSE, ids=lambda kind: kind.__name__)
def test_every_sparse_cell_runs_on_it_and_feels_every_touch(kind: Any, gap_junctions: bool) -> None:
    rnn = nc.RNN(kind(3, nc.tap_withdrawal(gap_junctions)).double())
    inputs = torch.rand(2, 9, 3, dtype=torch.float64, requires_grad=True)
    outputs, state = rnn(inputs)
    assert (outputs.shape, state.shape) == ((2, 9, 2), (2, 11))
    outputs[:, -1].sum().backward()
    assert inputs.grad is not None
    assert (inputs.grad.abs().sum((0, 1)) > 0).all()
