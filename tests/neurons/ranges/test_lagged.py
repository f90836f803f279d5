"""LaggedMLP: its state is what it reads, and its outputs reach their range."""

import numpy as np
import torch

from ncp_control.audit.examining import reachable
from ncp_control.base.intervals import Interval, exactly, point
from ncp_control.neurons import LaggedMLP
from ncp_control.neurons.ranges import Elapsed, known_of

BOX = Interval(np.array([0.5, -2.0]), np.array([1.0, -1.0]))


def test_the_state_is_the_inputs_and_the_zeros_before_them() -> None:
    known = known_of(LaggedMLP(2, 3, lags=4), Elapsed(1.0, 1.0))
    states = reachable(known, BOX)
    assert states.low.tolist() == [0.0, -2.0] * 4
    assert states.high.tolist() == [1.0, 0.0] * 4
    assert known.gap is None


def test_the_outputs_reach_their_range_at_corners() -> None:
    cell = LaggedMLP(2, 3, lags=2).requires_grad_(False)
    known = known_of(cell, Elapsed(1.0, 1.0))
    states = reachable(known, BOX)
    with exactly():
        found = known.outputs(states)
    highest = np.where(cell.hidden.weight.numpy() > 0, states.high, states.low)
    reached = cell.motor(torch.as_tensor(highest, dtype=torch.float32)).diagonal().numpy()
    np.testing.assert_allclose(reached, found.high, rtol=1e-5)


def test_inputs_move_on_by_one_place_and_outputs_follow_all() -> None:
    cell = LaggedMLP(2, 3, lags=2).requires_grad_(False).double()
    known = known_of(cell, Elapsed(1.0, 1.0))
    state, features = np.array([1.0, 2.0, 3.0, 4.0]), np.array([5.0, 6.0])
    slopes = known.slopes(point(state), point(features))
    assert slopes is not None
    after = slopes.before.low @ state + slopes.inputs.low @ features
    assert after.tolist() == known.after(point(state), point(features)).low.tolist() == [3, 4, 5, 6]
    expected = torch.autograd.functional.jacobian(cell.motor, torch.as_tensor(state)).numpy()
    np.testing.assert_allclose(known.output_slopes(point(state)).middle, expected, rtol=1e-5, atol=1e-6)
