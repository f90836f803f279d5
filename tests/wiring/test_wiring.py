import copy
import dataclasses
import json
import pickle

import numpy as np
import pytest

from ncp_control.wiring import (
    NCP,
    AutoNCP,
    Edges,
    FullyConnected,
    GapJunctions,
    Plan,
    Random,
    Wiring,
    WiringError,
)

SMALL_NCP = NCP(5, 4, 3, sensory_fanout=2, inter_fanout=2, recurrent_command=5, motor_fanin=2, seed=4)
DEEP_NCP = NCP(
    (7, 5),
    4,
    2,
    sensory_fanout=3,
    inter_fanout=(2, 1),
    recurrent_command=3,
    motor_fanin=2,
    recurrent_inter=6,
    seed=4,
)
PLANS = [
    FullyConnected(9, 4, seed=4),
    Random(12, 4, sparsity=0.7, seed=4),
    SMALL_NCP,
    DEEP_NCP,
    AutoNCP(30, 8, seed=4),
    GapJunctions(AutoNCP(30, 8, seed=4), 5, within="command", seed=4),
]
each_plan = pytest.mark.parametrize("plan", PLANS, ids=lambda plan: type(plan).__name__)


def dense(edges: Edges, sources: int, targets: int) -> np.ndarray:
    matrix = np.zeros((sources, targets), dtype=bool)
    for source, target, _ in edges:
        matrix[source, target] = True
    return matrix


def ways(wiring: Wiring) -> tuple[np.ndarray, np.ndarray]:
    """Per neuron: can an input reach it, can it reach a motor neuron (by powers of the adjacency matrix)."""
    step = np.eye(wiring.units, dtype=bool) | dense(wiring.synapses, wiring.units, wiring.units)
    for a, b in wiring.gap_junctions:
        step[a, b] = step[b, a] = True
    walk = step
    for _ in range(wiring.units):
        walk = walk @ step
    return dense(wiring.sensory, wiring.inputs, wiring.units).any(axis=0) @ walk, walk[:, -wiring.outputs :].any(axis=1)


def touch_circuit() -> Wiring:
    """A tap-withdrawal circuit of C. elegans after Wicks, Roehrig and Rankin (1996), not exactly theirs."""
    return Wiring.from_edges(
        ["PLM", "ALM", "AVM", "PVD"],
        inter=["AVD", "PVC", "DVA"],
        command=["AVA", "AVB"],
        motor=["REV", "FWD"],
        sensory=[
            ("PLM", "PVC"),
            ("PLM", "DVA"),
            ("PLM", "AVD", -1),
            ("PLM", "AVA", -1),
            ("ALM", "AVD"),
            ("ALM", "PVC", -1),
            ("AVM", "AVD"),
            ("AVM", "PVC", -1),
            ("AVM", "AVB", -1),
            ("PVD", "AVA"),
            ("PVD", "PVC"),
        ],
        synapses=[
            ("AVD", "AVA"),
            ("AVD", "AVB", -1),
            ("PVC", "AVB"),
            ("PVC", "AVA", -1),
            ("DVA", "AVB"),
            ("DVA", "PVC"),
            ("AVA", "AVB", -1),
            ("AVB", "AVA", -1),
            ("AVA", "REV"),
            ("AVB", "FWD"),
        ],
        gap_junctions=[("PVC", "DVA"), ("AVB", "DVA"), ("AVD", "AVA")],
    )


def refused(make, *fragments: str) -> None:
    with pytest.raises(WiringError) as caught:
        make()
    message = str(caught.value)
    assert "\n" not in message
    for fragment in fragments:
        assert fragment in message, message


@each_plan
def test_a_plan_always_draws_the_same_wiring(plan: Plan):
    first = plan.build(6)
    assert plan.build(6) == first
    assert copy.deepcopy(plan).build(6) == first
    assert pickle.loads(pickle.dumps(plan)).build(6) == first
    assert dataclasses.replace(plan, seed=5).build(6) != first
    assert hash(plan) == hash(dataclasses.replace(plan))
    assert plan == dataclasses.replace(plan)


def test_what_a_seed_draws_stays_what_it_was():
    wiring = AutoNCP(7, 2, sparsity=0.5, seed=3).build(2)
    assert list(wiring.sensory) == [(1, 0, -1), (0, 1, 1), (0, 2, 1)]
    assert list(wiring.synapses) == [(1, 3, -1), (2, 3, -1), (4, 3, 1), (0, 4, -1), (4, 4, -1), (3, 5, -1), (4, 6, 1)]


@each_plan
def test_building_leaves_the_global_generator_alone(plan: Plan):
    np.random.seed(11)
    state = np.random.get_state()
    first = plan.build(6)
    after = np.random.get_state()
    assert state[0] == after[0]
    assert state[2:] == after[2:]
    np.testing.assert_array_equal(state[1], after[1])
    np.random.seed(12)
    assert plan.build(6) == first


@each_plan
def test_a_plan_foretells_its_sizes_and_every_neuron_has_a_way_in_and_out(plan: Plan):
    wiring = plan.build(6)
    assert (wiring.inputs, wiring.units, wiring.outputs) == (6, plan.units, plan.outputs)
    way_in, way_out = ways(wiring)
    assert way_in.all()
    assert way_out.all()
    assert (wiring.sensory_fan_out > 0).all()


def test_polarity_is_a_fair_coin():
    wiring = FullyConnected(80, seed=2).build(60)
    for edges in (wiring.sensory, wiring.synapses):
        assert abs(edges.polarity.mean()) < 4 / np.sqrt(len(edges))


def test_fully_connected_has_every_synapse():
    wiring = FullyConnected(5).build(3)
    assert wiring.layer_sizes == (("motor", 5),)
    assert dense(wiring.sensory, 3, 5).all()
    assert dense(wiring.synapses, 5, 5).all()
    assert wiring.density == 1.0
    assert FullyConnected(5, 2).build(3).layer_sizes == (("inter", 3), ("motor", 2))
    assert FullyConnected(5, 5) == FullyConnected(5)


@pytest.mark.parametrize("sparsity", [0, 0.25, 0.5, 0.9])
def test_random_draws_exactly_its_share(sparsity: float):
    wiring = Random(13, 3, sparsity=sparsity, seed=1).build(7)
    assert len(wiring.sensory) == round((1 - sparsity) * 7 * 13)
    assert len(wiring.synapses) == round((1 - sparsity) * 13 * 13)


def test_random_says_how_sparse_it_may_be():
    refused(lambda: Random(10, 3, sparsity=0.98).build(4), "1 sensory and 2 recurrent", "at least 4", "0.9 or less")
    assert len(Random(10, 3, sparsity=0.9).build(4).sensory) == 4
    refused(lambda: Random(10, 3, sparsity=1.0), "below 1")


def test_ncp_feeds_forward_layer_by_layer_with_exact_counts():
    wiring = DEEP_NCP.build(6)
    assert wiring.layer_sizes == (("inter1", 7), ("inter2", 5), ("command", 4), ("motor", 2))
    synapses = dense(wiring.synapses, 18, 18)
    inter1, inter2, command, motor = wiring.layers.values()
    for source, target, axis, count in (
        (inter1, inter2, 1, 2),  # axis 1: synapses of each source
        (inter2, command, 1, 1),
        (command, motor, 0, 2),  # axis 0: synapses of each target
        (inter1, inter1, None, 6),
        (inter2, inter2, None, 6),
        (command, command, None, 3),
    ):
        assert (synapses[source, target].sum(axis=axis) == count).all()
        synapses[source, target] = False
    assert not synapses.any()
    sensory = dense(wiring.sensory, 6, 18)
    assert (sensory[:, inter1].sum(axis=1) == 3).all()
    assert not sensory[:, inter1.stop :].any()
    assert sensory[:, inter1].any(axis=0).all()


def test_a_fan_out_that_covers_its_layer_just_so_is_a_partition():
    plan = NCP(12, 12, 3, sensory_fanout=3, inter_fanout=1, recurrent_command=0, motor_fanin=4, seed=9)
    wiring = plan.build(4)
    inter, command, motor = wiring.layers.values()
    assert set(wiring.sensory_fan_out) == {3}
    assert set(wiring.fan_in[inter]) == set(wiring.fan_out[inter]) == {1}
    assert set(wiring.fan_in[command]) == set(wiring.fan_out[command]) == {1}
    assert set(wiring.fan_in[motor]) == {4}


def test_targets_that_no_fan_out_reaches_draw_one_source_each():
    plan = NCP(10, 6, 2, sensory_fanout=2, inter_fanout=2, recurrent_command=1, motor_fanin=1, seed=9)
    wiring = plan.build(3)
    inter, command, motor = wiring.layers.values()
    assert len(wiring.sensory) == 10
    assert (wiring.fan_in[inter] == 1).all()
    assert (wiring.sensory_fan_out >= 2).all()
    to_motor = dense(wiring.synapses, 18, 18)[command, motor]
    assert to_motor.sum() == 6
    assert (to_motor.sum(axis=1) == 1).all()


def test_synapses_among_neurons_do_not_depend_on_the_number_of_inputs():
    assert SMALL_NCP.build(2).synapses == SMALL_NCP.build(30).synapses


@pytest.mark.parametrize(
    ("arguments", "inter", "command", "sensory_fanout", "inter_fanout", "recurrent_command", "motor_fanin"),
    [
        ((40, 16), 15, 9, 7, 4, 9, 4),
        ((32, 6), 16, 10, 8, 5, 10, 5),
        ((32, 6, 0.2), 16, 10, 12, 8, 16, 8),
        ((10, 2, 0.9), 5, 3, 1, 1, 1, 1),
        ((3, 1), 1, 1, 1, 1, 1, 1),
        ((5, 2, 0.0), 2, 1, 2, 1, 1, 1),  # one command neuron has room for one recurrent synapse, not two
    ],
)
def test_auto_ncp_numbers(arguments, inter, command, sensory_fanout, inter_fanout, recurrent_command, motor_fanin):
    plan = AutoNCP(*arguments, seed=7)
    assert plan.ncp == NCP(
        inter,
        command,
        arguments[1],
        sensory_fanout=sensory_fanout,
        inter_fanout=inter_fanout,
        recurrent_command=recurrent_command,
        motor_fanin=motor_fanin,
        seed=7,
    )
    assert plan.build(5) == plan.ncp.build(5)


def test_gap_junctions_join_new_pairs_in_their_layer():
    plan = GapJunctions(GapJunctions(SMALL_NCP, 4, within="command", seed=1), 2, within="command", seed=1)
    wiring, bare = plan.build(3), SMALL_NCP.build(3)
    command = bare.layers["command"]
    every_pair = [[a, b] for a in range(command.start, command.stop) for b in range(a + 1, command.stop)]
    assert wiring.gap_junctions.tolist() == every_pair
    assert (wiring.sensory, wiring.synapses) == (bare.sensory, bare.synapses)
    anywhere = GapJunctions(SMALL_NCP, 66).build(3)
    assert len(anywhere.gap_junctions) == 12 * 11 / 2
    refused(lambda: GapJunctions(plan, 1, within="command").build(3), "command", "4 neurons", "0 pairs")
    refused(lambda: GapJunctions(SMALL_NCP, 67).build(3), "67", "66 pairs")
    refused(lambda: GapJunctions(SMALL_NCP, 1, within="muscle").build(3), "'muscle'", "inter, command, motor")


FANS = {"sensory_fanout": 2, "inter_fanout": 2, "recurrent_command": 3, "motor_fanin": 2}


@pytest.mark.parametrize(
    ("make", "fragments"),
    [
        (lambda: FullyConnected(4.0), ["units", "whole number", "4.0"]),
        (lambda: FullyConnected(True), ["units", "True"]),
        (lambda: FullyConnected("4"), ["units", "'4'"]),
        (lambda: FullyConnected(0), ["units", "at least 1", "0"]),
        (lambda: FullyConnected(4, 5), ["4 neurons", "5 motor"]),
        (lambda: FullyConnected(4, seed=-1), ["seed", "-1"]),
        (lambda: FullyConnected(4).build(0), ["inputs", "at least 1"]),
        (lambda: FullyConnected(4).build(2.0), ["inputs", "2.0"]),
        (lambda: Random(4, sparsity=50), ["sparsity", "from 0 to 1", "50"]),
        (lambda: Random(4, sparsity="0.5"), ["sparsity", "'0.5'"]),
        (lambda: Random(4, sparsity=float("nan")), ["sparsity", "nan"]),
        (lambda: AutoNCP(40, 39), ["40 neurons", "39 motor", "41"]),
        (lambda: AutoNCP(40, 16, sparsity=0.95), ["0 to 0.9", "0.95"]),
        (lambda: AutoNCP(40, 16, sparsity=-0.1), ["sparsity", "-0.1"]),
        (lambda: NCP(4, 3, 2, **{**FANS, "sensory_fanout": 5}), ["sensory_fanout is 5", "inter", "4 neurons"]),
        (lambda: NCP((4, 6), 3, 2, **{**FANS, "inter_fanout": (7, 2)}), ["layer inter1 is 7", "inter2", "6 neurons"]),
        (lambda: NCP((4, 6), 3, 2, **{**FANS, "inter_fanout": (2, 4)}), ["layer inter2 is 4", "command", "3 neurons"]),
        (lambda: NCP((4, 6), 3, 2, **{**FANS, "inter_fanout": (2,)}), ["2 inter layers", "1 inter fan-out"]),
        (lambda: NCP(4, 3, 2, **{**FANS, "motor_fanin": 4}), ["motor_fanin is 4", "command", "3 neurons"]),
        (lambda: NCP(4, 3, 2, **{**FANS, "recurrent_command": 10}), ["recurrent_command is 10", "9 synapses"]),
        (lambda: NCP((4, 2), 3, 2, **FANS, recurrent_inter=5), ["recurrent_inter is 5", "inter2", "4 synapses"]),
        (lambda: NCP((4, 0), 3, 2, **FANS), ["inter (layer 2)", "at least 1"]),
        (lambda: NCP((), 3, 2, **FANS), ["0 inter layers"]),
        (lambda: NCP(4, 3, 0, **FANS), ["motor", "at least 1"]),
        (lambda: NCP(4, 3, 2, **{**FANS, "motor_fanin": 0}), ["motor_fanin", "at least 1"]),
        (lambda: GapJunctions(FullyConnected(4).build(2), 1), ["plan", "Wiring"]),
        (lambda: GapJunctions(FullyConnected(4), -1), ["gap junctions", "-1"]),
    ],
)
def test_a_plan_that_cannot_work_is_refused_in_one_sentence(make, fragments):
    refused(make, *fragments)


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


def test_edges_are_sorted_by_target_then_source():
    edges = Edges([2, 0, 1], [0, 1, 0], [-1, 1, 1])
    assert list(edges) == [(1, 0, 1), (2, 0, -1), (0, 1, 1)]
    assert len(edges) == 3
    assert edges == Edges([0, 1, 2], [1, 0, 0], [1, 1, -1])
    assert edges != Edges([0, 1, 2], [1, 0, 0], [1, 1, 1])
    assert edges.source.dtype == edges.target.dtype == edges.polarity.dtype == np.int64


@pytest.mark.parametrize(
    ("columns", "fragments"),
    [
        (([0, 0], [1, 1], [1, -1]), ["from 0 to 1", "more than once"]),
        (([0], [1], [2]), ["+1 or -1", "from 0 to 1 has 2"]),
        (([0, 1], [1], [1]), ["equally long"]),
        (([[0]], [[1]], [[1]]), ["flat"]),
        (([0.0], [1], [1]), ["sources", "whole numbers"]),
    ],
)
def test_edges_that_make_no_sense_are_refused(columns, fragments):
    refused(lambda: Edges(*columns), *fragments)


def frozen_arrays(wiring: Wiring) -> list[np.ndarray]:
    edges = [getattr(part, name) for part in (wiring.sensory, wiring.synapses) for name in EDGE_COLUMNS]
    return [*edges, wiring.gap_junctions]


EDGE_COLUMNS = ("source", "target", "polarity")


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


def test_json_says_what_it_is():
    document = json.loads(touch_circuit().to_json())
    assert (document["format"], document["version"], document["inputs"]) == ("ncp_control.wiring", 1, 4)
    assert document["layers"] == [["inter", 3], ["command", 2], ["motor", 2]]
    assert document["gap_junctions"] == [[0, 3], [1, 2], [2, 4]]
    assert [0, 0, -1] in document["sensory"]


def drop(key):
    return lambda document: document.pop(key)


def put(value, *path):
    def change(document):
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "fragments"),
    [
        (put("ncps", "format"), ["not a wiring", "ncp_control.wiring"]),
        (drop("format"), ["not a wiring"]),
        (put(2, "version"), ["version 2", "version 1"]),
        (put(True, "version"), ["version True"]),
        (drop("version"), ["version None"]),
        (drop("synapses"), ["lacks synapses"]),
        (put(1, "colour"), ["colour"]),
        (put(4.0, "inputs"), ["inputs", "4.0"]),
        (put(5, "inputs"), ["5 inputs", "4 input names"]),
        (put(10**30, "inputs"), ["4 input names"]),
        (put({}, "sensory"), ['"sensory"', "list"]),
        (put([0, 0], "sensory", 0), ["[source, target, polarity]", "[0, 0]"]),
        (put(True, "sensory", 0, 2), ["whole numbers", "True"]),
        (put(1.0, "sensory", 0, 0), ["whole numbers", "1.0"]),
        (put("PLM", "sensory", 0, 0), ["whole numbers", "PLM"]),
        (put(4, "sensory", 0, 0), ["input 4", "4 inputs"]),
        (put(-1, "synapses", 0, 1), ["neuron -1"]),
        (put(10**30, "synapses", 0, 1), ["whole numbers"]),
        (put(3, "synapses", 0, 2), ["+1 or -1", "3"]),
        (put([0, 3, 1], "synapses", 0), ["from 0 to 3", "more than once"]),
        (put([3, 3], "gap_junctions", 0), ["'AVA'", "itself"]),
        (put([3], "gap_junctions", 0), ["[a, b]"]),
        (put(["motor"], "layers", 0), ["[name, size]"]),
        (put("muscle", "layers", 2, 0), ["muscle"]),
        (put("2", "layers", 2, 1), ["size of layer motor", "'2'"]),
        (put(3, "layers", 2, 1), ["8 neurons", "7 neuron names"]),
        (put([], "neuron_names"), ["neuron_names", "empty"]),
        (put(7, "neuron_names", 0), ["text", "7"]),
        (put("PVC", "neuron_names", 0), ["'PVC'", "more than once"]),
        (put([], "sensory"), ["'REV'", "cannot be reached"]),
    ],
)
def test_json_that_was_tampered_with_is_refused_in_one_sentence(change, fragments):
    document = json.loads(touch_circuit().to_json())
    change(document)
    refused(lambda: Wiring.from_json(json.dumps(document)), *fragments)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, '{"format": ' + "9" * 5000 + "}"])
def test_text_that_is_no_wiring_is_refused(text: str):
    refused(lambda: Wiring.from_json(text), "JSON")


def test_from_json_wants_the_text_itself():
    refused(lambda: Wiring.from_json(json.loads(touch_circuit().to_json())), "text", "dict")


def test_the_summary_shows_the_circuit():
    wiring = touch_circuit()
    lines = str(wiring).splitlines()
    assert lines == wiring.summary().splitlines()
    assert lines[0] == "4 inputs, 7 neurons, 2 outputs"
    words = [line.split() for line in lines]
    assert ["synapses", "11", "sensory,", "10", "recurrent"] in words
    assert ["gap", "junctions", "3"] in words
    assert ["density", "0.273", "(21", "of", "77", "possible", "synapses)"] in words
    assert ["polarity", "12", "excitatory", "(57%),", "9", "inhibitory", "(43%)"] in words
    assert ["inter", "3", "1", "3", "5"] in words
    assert ["inputs", "8", "3", "."] in words
    assert ["inter", "1", "5", "."] in words
    assert ["command", ".", "2", "2"] in words
    assert ["motor", ".", ".", "."] in words
    tables = [block.splitlines() for block in str(wiring).split("\n\n")[1:]]
    assert all(len({len(line) for line in table}) == 1 for table in tables)


def test_repr_is_one_short_line():
    assert repr(touch_circuit()) == (
        "<Wiring inputs=4, inter=3, command=2, motor=2, sensory=11, synapses=10, gap_junctions=3>"
    )
