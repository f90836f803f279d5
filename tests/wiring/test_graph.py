"""The wiring: what its constructor checks, and that it is frozen and equal by content."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest

from helpers.wirings import PLANS, refused, touch_circuit
from ncp_control.wiring import Edges, FullyConnected, Wiring


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        ({"layer_sizes": (("motor", 1), ("inter", 1))}, ["in this order", "motor, inter"]),
        ({"layer_sizes": (("inter", 2),)}, ["motor", "inter"]),
        ({"layer_sizes": (("inter2", 1), ("motor", 1))}, ["inter2, motor"]),
        ({"layer_sizes": (("inter", 0), ("motor", 2))}, ["layer inter", "at least 1"]),
        ({"sensory": Edges([0], [2], [1])}, ["from 0 to 2", "neuron 2", "2 neurons"]),
        ({"synapses": Edges([-1], [1], [1])}, ["neuron -1"]),
        ({"gap_junctions": [[0, 2]]}, ["0 - 2", "2 neurons"]),
        ({"gap_junctions": [0, 1]}, ["(G, 2)", "(2,)"]),
        ({"gap_junctions": [[0.5, 1]]}, ["whole numbers"]),
        ({"input_names": ("a", "b")}, ["1 inputs", "2 input names"]),
        ({"neuron_names": ("a",)}, ["2 neurons", "1 neuron names"]),
    ],
)
def test_the_constructor_checks_like_every_other_way(arguments, fragments):
    good = {
        "inputs": 1,
        "layer_sizes": (("inter", 1), ("motor", 1)),
        "sensory": Edges([0], [0], [1]),
        "synapses": Edges([0], [1], [-1]),
    }
    assert Wiring(**good).outputs == 1
    refused(lambda: Wiring(**{**good, **arguments}), *fragments)


EDGE_COLUMNS = ("source", "target", "polarity")


def frozen_arrays(wiring: Wiring) -> list[np.ndarray]:
    edges = [getattr(part, name) for part in (wiring.sensory, wiring.synapses) for name in EDGE_COLUMNS]
    return [*edges, wiring.gap_junctions]


@pytest.mark.parametrize(
    "remake",
    [
        copy.copy,
        copy.deepcopy,
        lambda wiring: pickle.loads(pickle.dumps(wiring)),
        lambda wiring: Wiring.from_json(wiring.to_json()),
        lambda wiring: Wiring.from_json(wiring.to_json(indent=2)),
        dataclasses.replace,
    ],
)
@pytest.mark.parametrize("wiring", [touch_circuit(), PLANS[-1].build(3), FullyConnected(1).build(1)], ids=repr)
def test_a_remade_wiring_is_equal_hashes_equal_and_stays_frozen(wiring: Wiring, remake):
    again = remake(wiring)
    assert again == wiring
    assert hash(again) == hash(wiring)
    assert (again.layers, again.neuron_names, str(again)) == (wiring.layers, wiring.neuron_names, str(wiring))
    for array in frozen_arrays(again):
        assert array.dtype == np.int64
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        again.inputs = 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        again.sensory.source = again.sensory.target


def test_every_part_of_a_wiring_counts_for_equality():
    wiring = touch_circuit()
    flipped = Edges(wiring.synapses.source, wiring.synapses.target, -wiring.synapses.polarity)
    changes = [
        {"sensory": Edges([0], [0], [1])},
        {"synapses": flipped},
        {"gap_junctions": wiring.gap_junctions[:-1]},
        {"input_names": ("a", "b", "c", "d")},
        {"neuron_names": tuple("ABCDEFG")},
        {"layer_sizes": (("inter", 2), ("command", 3), ("motor", 2))},
    ]
    others = [dataclasses.replace(wiring, **change) for change in changes if change.keys() != {"sensory"}]
    others.append(dataclasses.replace(wiring, sensory=Edges([0, 0], [0, 1], [1, 1])))
    assert wiring not in others
    assert len({wiring, *others}) == 1 + len(others)
    assert wiring != wiring.to_json()


def test_the_wiring_keeps_no_hold_on_the_arrays_it_was_given():
    pairs = np.array([[1, 0]])
    wiring = Wiring(1, (("motor", 2),), Edges([0], [0], [1]), Edges(), pairs)
    pairs[:] = 7
    assert wiring.gap_junctions.tolist() == [[0, 1]]
    assert pairs.flags.writeable
