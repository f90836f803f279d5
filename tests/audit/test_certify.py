"""Which inputs reach which actions, with which sign, how soon and through which neurons."""

from __future__ import annotations

import numpy as np

from ncp_control.audit.certify import reach
from ncp_control.base.intervals import Interval, point
from ncp_control.neurons.ranges import Slopes


def slopes(before: dict[tuple[int, int], float], inputs: dict[tuple[int, int], float], size: int) -> Slopes:
    """Slopes with `before[source, target]` and `inputs[source, target]`."""
    among, sensory = np.zeros((size, size)), np.zeros((size, 2))
    for (source, target), value in before.items():
        among[target, source] = value
    for (source, target), value in inputs.items():
        sensory[target, source] = value
    return Slopes(point(np.zeros((size, size))), point(among), point(sensory))


def test_signs_multiply_along_a_path_and_a_step_passes_at_every_synapse() -> None:
    found = reach(slopes({(0, 1): -1, (1, 2): -2}, {(0, 0): -1}, 3), point(np.array([[0.0, 0.0, 1.0]])))
    assert not found.rises[0, 0]
    assert found.falls[0, 0]
    assert found.steps[0, 0] == 3
    assert found.neurons[0, 0].all()
    assert not (found.rises | found.falls)[0, 1]
    assert not found.neurons[0, 1].any()


def test_two_paths_of_different_signs_are_both_told() -> None:
    found = reach(slopes({(0, 2): 1, (1, 2): -1}, {(0, 0): 1, (0, 1): 1}, 3), point(np.array([[0.0, 0.0, 1.0]])))
    assert found.rises[0, 0]
    assert found.falls[0, 0]
    assert found.steps[0, 0] == 2


def test_a_cycle_that_turns_the_sign_gives_both() -> None:
    found = reach(slopes({(0, 0): -1}, {(0, 0): 1}, 1), point(np.array([[1.0]])))
    assert found.rises[0, 0]
    assert found.falls[0, 0]


def test_a_leak_does_not_change_the_sign() -> None:
    found = reach(slopes({(0, 0): 0.9, (1, 1): 0.9, (0, 1): 1}, {(0, 0): 1}, 2), point(np.array([[0.0, -1.0]])))
    assert not found.rises[0, 0]
    assert found.falls[0, 0]


def test_neurons_beside_the_path_do_not_count() -> None:
    before = {(0, 1): 1.0, (0, 2): 1.0}  # neuron 2 reaches no action
    found = reach(slopes(before, {(0, 0): 1, (1, 3): 1}, 4), point(np.array([[0.0, 1.0, 0.0, 0.0]])))
    assert found.neurons[0, 0].tolist() == [True, True, False, False]


def test_layers_of_one_step_pass_a_signal_at_once() -> None:
    same = np.zeros((3, 3))
    same[1, 0], same[2, 1] = 1.0, -1.0
    sensory = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    given = Slopes(point(same), point(np.zeros((3, 3))), point(sensory))
    found = reach(given, point(np.array([[0.0, 0.0, 1.0]])))
    assert found.falls[0, 0]
    assert found.steps[0, 0] == 1


def test_a_derivative_of_unknown_sign_gives_both() -> None:
    sensory = Interval(np.array([[-1.0, 0.0]]), np.array([[2.0, 0.0]]))
    zero = point(np.zeros((1, 1)))
    found = reach(Slopes(zero, zero, sensory), point(np.array([[1.0]])))
    assert found.rises[0, 0]
    assert found.falls[0, 0]
