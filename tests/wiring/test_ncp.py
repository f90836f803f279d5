"""Neural circuit policies: their layers, their fans, and the numbers of AutoNCP."""

import pytest

from helpers.wirings import DEEP_NCP, SMALL_NCP, dense
from ncp_control.wiring import NCP, AutoNCP


def test_what_a_seed_draws_stays_what_it_was():
    wiring = AutoNCP(7, 2, sparsity=0.5, seed=3).build(2)
    assert list(wiring.sensory) == [(1, 0, -1), (0, 1, 1), (0, 2, 1)]
    assert list(wiring.synapses) == [(1, 3, -1), (2, 3, -1), (4, 3, 1), (0, 4, -1), (4, 4, -1), (3, 5, -1), (4, 6, 1)]


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
