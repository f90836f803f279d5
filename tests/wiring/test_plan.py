"""Plans: what holds for all of them, and those that are not neural circuit policies."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest

from helpers.wirings import PLANS, SMALL_NCP, dense, refused, ways
from ncp_control.wiring import NCP, AutoNCP, FullyConnected, GapJunctions, Plan, Random

each_plan = pytest.mark.parametrize("plan", PLANS, ids=lambda plan: type(plan).__name__)


@each_plan
def test_a_plan_always_draws_the_same_wiring(plan: Plan):
    first = plan.build(6)
    assert plan.build(6) == first
    assert copy.deepcopy(plan).build(6) == first
    assert pickle.loads(pickle.dumps(plan)).build(6) == first
    assert dataclasses.replace(plan, seed=5).build(6) != first
    assert hash(plan) == hash(dataclasses.replace(plan))
    assert plan == dataclasses.replace(plan)


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


@pytest.mark.parametrize(
    ("plan", "allowed"),
    [
        (FullyConnected(5, 2), 3 * 5 + 5 * 5),
        (Random(13, 3, sparsity=0.5, seed=1), 3 * 13 + 13 * 13),
        (AutoNCP(20, 4), 3 * 10 + 10 * 6 + 6 * 6 + 6 * 4),
        (AutoNCP(20, 4, sparsity=0.9), 3 * 10 + 10 * 6 + 6 * 6 + 6 * 4),
    ],
)
def test_layers_allow_what_a_plan_can_draw(plan: Plan, allowed: int):
    wiring = plan.build(3)
    assert wiring.allowed_synapses == allowed
    assert f"of the {allowed} synapses that its layers allow" in str(wiring)


@pytest.mark.parametrize("sparsity", [0, 0.25, 0.5, 0.9])
def test_random_draws_exactly_its_share(sparsity: float):
    wiring = Random(13, 3, sparsity=sparsity, seed=1).build(7)
    assert len(wiring.sensory) == round((1 - sparsity) * 7 * 13)
    assert len(wiring.synapses) == round((1 - sparsity) * 13 * 13)


def test_random_says_how_sparse_it_may_be():
    refused(lambda: Random(10, 3, sparsity=0.98).build(4), "1 sensory and 2 recurrent", "at least 4", "0.9 or less")
    assert len(Random(10, 3, sparsity=0.9).build(4).sensory) == 4
    refused(lambda: Random(10, 3, sparsity=1.0), "below 1")


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
