"""Circuits written down by hand."""

import numpy as np
import pytest

from helpers.wirings import refused, touch_circuit, ways
from ncp_control.wiring import Wiring


def test_a_worms_touch_circuit_by_names():
    wiring = touch_circuit()
    assert wiring.layer_sizes == (("inter", 3), ("command", 2), ("motor", 2))
    assert wiring.neuron_names == ("AVD", "PVC", "DVA", "AVA", "AVB", "REV", "FWD")
    assert wiring.motor == slice(5, 7)
    assert (1, 0, -1) not in wiring.sensory
    assert (1, 0, 1) in wiring.sensory
    assert (4, 3, -1) in wiring.synapses
    assert (3, 5, 1) in wiring.synapses
    assert wiring.gap_junctions.tolist() == [[0, 3], [1, 2], [2, 4]]
    assert wiring.fan_in.tolist() == [3, 5, 1, 5, 5, 1, 1]
    assert wiring.fan_out.tolist() == [2, 2, 2, 2, 2, 0, 0]
    assert wiring.sensory_fan_out.tolist() == [4, 2, 3, 2]
    assert wiring.density == 21 / (4 * 7 + 7 * 7)
    assert all(way.all() for way in ways(wiring))


def test_names_and_numbers_mean_the_same_neurons():
    by_name = Wiring.from_edges(
        2, inter=1, motor=1, sensory=[("input1", "inter0", -1)], synapses=[("inter0", "motor0"), ("motor0", "motor0")]
    )
    by_number = Wiring.from_edges(2, inter=1, motor=1, sensory=[(1, 0, -1)], synapses=[(1, 1), (np.int64(0), 1)])
    assert by_name == by_number
    assert list(by_name.synapses) == [(0, 1, 1), (1, 1, 1)]


def test_several_inter_layers_by_hand():
    wiring = Wiring.from_edges(
        1, inter=[2, ["x", "y"]], motor=["m"], sensory=[(0, "inter1.1")], synapses=[("inter1.1", "y"), ("y", "m")]
    )
    assert wiring.layers == {"inter1": slice(0, 2), "inter2": slice(2, 4), "motor": slice(4, 5)}
    assert wiring.neuron_names == ("inter1.0", "inter1.1", "x", "y", "m")
    assert Wiring.from_edges(1, inter=(3,), motor=1, sensory=[(0, 3)]).layer_sizes == (("inter", 3), ("motor", 1))


def test_a_gap_junction_carries_signals_both_ways():
    joined = {"motor": ["left", "right"], "sensory": [(0, "right")]}
    assert len(Wiring.from_edges(1, **joined, gap_junctions=[("left", "right")]).gap_junctions) == 1
    refused(lambda: Wiring.from_edges(1, **joined), "'left'", "(number 0)", "cannot be reached", "add a synapse")
    refused(lambda: Wiring.from_edges(1, **joined, synapses=[("left", "right")]), "'left'")


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        ({"inputs": 0}, ["inputs", "at least 1"]),
        ({"inputs": -1}, ["inputs", "-1"]),
        ({"motor": 0}, ["motor", "at least 1"]),
        ({"motor": []}, ["motor", "at least 1"]),
        ({"inputs": "ab"}, ["inputs", "sequence of names", "'ab'"]),
        ({"motor": 1.0}, ["motor", "count", "1.0"]),
        ({"inter": [2, 0]}, ["inter2", "at least 1"]),
        ({"inter": [2, "AVD"]}, ["inter2", "'AVD'"]),
        ({"inputs": ["a", "a"]}, ["'a'", "more than once"]),
        ({"inputs": ["a", "same"], "inter": ["same"]}, ["'same'", "distinct"]),
        ({"inter": [""]}, ["not empty"]),
        ({"sensory": [(0, "AVX")]}, ["no neuron named 'AVX'", "motor0"]),
        ({"sensory": [("input9", 0)]}, ["no input named 'input9'", "input0, input1"]),
        ({"sensory": [(0, 1)]}, ["no neuron 1", "are 1"]),
        ({"sensory": [(-1, 0)]}, ["input", "-1"]),
        ({"sensory": [(0, 0.0)]}, ["whole number", "0.0"]),
        ({"sensory": [(0, 0, 0)]}, ["+1 or -1", "has 0"]),
        ({"sensory": [(0, 0, 0.5)]}, ["+1 or -1", "0.5"]),
        ({"sensory": [(0, 0), ("input0", "motor0", -1)]}, ["'input0' to 'motor0'", "more than once"]),
        ({"sensory": [(0,)]}, ["(source, target)", "(0,)"]),
        ({"sensory": ["ab"]}, ["(source, target)", "'ab'"]),
        ({"gap_junctions": [(0, 0)]}, ["'motor0'", "itself"]),
        ({"gap_junctions": [(0, 1, 1)]}, ["(a, b)", "(0, 1, 1)"]),
        ({"motor": 2, "gap_junctions": [(0, 1), (1, 0)]}, ["'motor0' and 'motor1'", "more than once"]),
    ],
)
def test_a_circuit_that_cannot_work_is_refused_in_one_sentence(arguments, fragments):
    refused(lambda: Wiring.from_edges(**{"inputs": 2, "motor": 1, "sensory": [(0, 0)], **arguments}), *fragments)
