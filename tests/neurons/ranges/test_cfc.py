"""CfC: how tight the certified ranges are, and what layers do to them."""

import numpy as np
import pytest
import torch

from helpers.audited_cells import grown
from helpers.cells import CHAIN, NCP_7
from ncp_control.audit.examining import reachable
from ncp_control.base.intervals import between, point
from ncp_control.neurons import CfC
from ncp_control.neurons.ranges import Elapsed, known_of
from ncp_control.ops import scan

ONCE = Elapsed(1.0, 1.0)
UNIT = between(-1.0, 1.0, 1)


@pytest.mark.parametrize("mode", ["default", "no_gate"])
def test_a_neuron_without_a_cycle_reaches_its_range_at_a_corner(mode: str) -> None:
    cell = CfC(1, CHAIN, mode=mode).requires_grad_(False)
    cell.weight.zero_()
    # T1, T2 and s all rise with the input, and T2 stays above T1
    cell.sensory_weight.copy_(torch.tensor([[0.4], [0.8], [0.3], [0.2]]))
    cell.bias[1] = 2.0
    states = reachable(known_of(cell, ONCE), UNIT)
    reached = scan(cell, torch.tensor([[[-1.0]], [[1.0]]]))[:, 0, 0].double().numpy()
    np.testing.assert_allclose(reached[1], states.high[0], rtol=1e-4)
    assert states.low[0] <= min(reached[0], 0)


def test_what_two_maps_read_together_cancels() -> None:
    cell = CfC(1, CHAIN).requires_grad_(False)
    cell.weight.zero_()
    # T1 = -T2 and s = 1/2, so that h' is zero, where T1 and T2 alone reach from -0.66 to 0.66
    cell.sensory_weight.copy_(torch.tensor([[0.8], [-0.8], [0.0], [0.0]]))
    states = reachable(known_of(cell, ONCE), UNIT)
    assert states.size[0] < 0.06


def test_ranges_are_narrower_than_the_cells_own_bounds() -> None:
    cell = CfC(3, NCP_7)
    states = reachable(known_of(cell, ONCE), between(-0.02, 0.02, 3))
    assert (states.width < 0.5).all()


def test_any_elapsed_time_keeps_the_bounds_and_loses_the_slopes() -> None:
    cell = grown("cfc-default", 1.0, 0)
    known = known_of(cell, Elapsed(0.0, np.inf))
    features = between(-1.0, 1.0, 3)
    states = reachable(known, features)
    assert (states.size <= 1 + 1e-5).all()
    assert known.slopes(states, features) is None
    assert known.gap is not None
    assert "elapsed time" in known.gap


def test_a_time_constant_has_no_upper_bound_where_its_gate_can_stand_still() -> None:
    cell = CfC(1, CHAIN).requires_grad_(False)
    cell.weight.zero_()
    cell.sensory_weight.fill_(1.0)
    cell.bias[2] = torch.tensor([0.5, 4.0])
    found = known_of(cell, ONCE).time_constants(point(np.zeros(2)), UNIT)
    assert found.high[0] == np.inf
    np.testing.assert_allclose(found.low[0], 1 / 1.5, rtol=1e-5)
    np.testing.assert_allclose([found.low[1], found.high[1]], [0.25, 0.25], rtol=1e-5)


def test_the_state_after_a_point_is_a_point() -> None:
    cell = grown("cfc-no_gate", 1.0, 1, torch.float64)
    known = known_of(cell, ONCE)
    state, features = np.linspace(-1, 1, 9), np.array([0.2, -0.4])
    after = known.after(point(state), point(features))
    expected = cell.step(torch.as_tensor(features)[None], torch.as_tensor(state)[None])[0].numpy()
    assert (after.width < 1e-4).all()
    assert after.contains(expected).all()
