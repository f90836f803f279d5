"""LTC: how tight the certified ranges are, and that a wrong one is found out."""

import numpy as np
import pytest
import torch

from helpers.audited_cells import grown, inside, outside
from helpers.cells import SOLITARY, build
from ncp_control.audit.examining import reachable
from ncp_control.base.intervals import Interval, between, exactly, point
from ncp_control.neurons import LTC
from ncp_control.neurons.ltc.ranges import mean_range
from ncp_control.neurons.ranges import Elapsed, known_of
from ncp_control.ops import scan
from ncp_control.wiring import Wiring

ONCE = Elapsed(1.0, 1.0)
UNIT = between(-1.0, 1.0, 1)
BOTH_SIGNS = Wiring.from_edges(2, motor=1, sensory=[(0, 0, 1), (1, 0, -1)])


def test_a_neuron_with_inputs_of_both_signs_reaches_its_range_at_corners() -> None:
    cell = LTC(2, BOTH_SIGNS, input_map="none").requires_grad_(False)
    cell.sensory_mu.zero_()
    cell.sensory_sigma.fill_(3.0)
    with exactly():
        states = reachable(known_of(cell, ONCE), between(-1.0, 1.0, 2))
    inputs = torch.tensor([[1.0, -1.0], [-1.0, 1.0]])[:, None].expand(2, 400, 2)
    reached = scan(cell, inputs)[:, -1, 0].double().numpy()
    np.testing.assert_allclose(np.sort(reached), [states.low[0], states.high[0]], rtol=1e-5)


def test_the_range_of_a_weighted_mean_is_that_over_all_corners() -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        ends, E = np.sort(random.random((2, 1, 6)), axis=0), random.normal(size=(1, 6))
        current, slow = np.sort(random.normal(size=(2, 1)), axis=0), random.random(1) + 0.1
        found = mean_range(Interval(*ends), E, Interval(*current), slow)
        corners = np.array(np.meshgrid(*[[0, 1]] * 6)).reshape(6, -1).T
        a = ends[0] + corners * (ends[1] - ends[0])
        means = [(end + (a * E).sum(axis=1)) / (slow + a.sum(axis=1)) for end in current]
        np.testing.assert_allclose([found.low[0], found.high[0]], [means[0].min(), means[1].max()], rtol=1e-12)


def test_a_synapse_of_the_wrong_sign_would_be_found_out() -> None:
    cell, features = LTC(2, BOTH_SIGNS).requires_grad_(False), between(-1.0, 1.0, 2)
    reached = scan(cell, inside(features, (256, 20), torch.float32, torch.Generator().manual_seed(0)))
    assert outside(reachable(known_of(cell, ONCE), features), reached) == []
    for k in range(2):
        cell.sensory_E[k] *= -1
        assert outside(reachable(known_of(cell, ONCE), features), reached) != []
        cell.sensory_E[k] *= -1


def test_the_state_after_a_point_is_a_point_for_one_elapsed_time() -> None:
    for name in ("ltc-gaps", "ltc-deep", "ltc-no-maps"):
        cell = grown(name, 1.0, 1, torch.float64)
        cell.unfolds = 1
        known = known_of(cell, ONCE)
        state = inside(known.outer(), (1,), torch.float64, torch.Generator().manual_seed(1))
        features = np.linspace(-1, 1, cell.inputs)
        with exactly():
            after = known.after(point(state[0].numpy()), point(features))
        expected = cell.step(torch.as_tensor(features)[None], state)[0].numpy()
        assert after.contains(expected).all()
        assert (after.width < 1e-10).all()


def test_long_euler_steps_have_no_bounds_and_the_gap_says_why() -> None:
    cell = LTC(2, 3, solver="euler", unfolds=1)
    known = known_of(cell, Elapsed(1.0, 100.0))
    features = between(-1.0, 1.0, 2)
    assert known.gap is not None
    assert "overshoot" in known.gap
    assert np.isinf(reachable(known, features).width).all()
    assert np.isinf(known.after(point(np.zeros(3)), features).width).all()
    assert known.slopes(reachable(known, features), features) is None
    assert known_of(cell, Elapsed(0.0, 1e-3)).gap is None


def test_openness_is_that_of_the_sensory_synapses_and_then_of_the_others() -> None:
    cell = build("ltc-gaps")
    known, features = known_of(cell, ONCE), between(0.3, 0.3, 3)
    found = known.openness(point(np.full(7, 0.2)), features)
    assert found is not None
    sensory = torch.sigmoid(cell.sensory_sigma * (0.3 * torch.ones(len(cell.sensory_mu)) - cell.sensory_mu))
    others = torch.sigmoid(cell.sigma * (0.2 - cell.mu))
    expected = torch.cat([sensory, others]).detach().numpy()
    np.testing.assert_allclose(found.middle, expected, rtol=1e-5)


def test_a_neuron_without_a_cycle_has_no_slope_by_itself_above_its_leak() -> None:
    cell = LTC(1, SOLITARY, unfolds=1)
    known = known_of(cell, ONCE)
    states = reachable(known, UNIT)
    slopes = known.slopes(states, UNIT)
    assert slopes is not None
    tau = known.time_constants(states, UNIT)
    np.testing.assert_allclose(slopes.before.high[0, 0], 1 / (1 + 1 / tau.high[0]), rtol=1e-5)
    np.testing.assert_allclose(slopes.before.low[0, 0], 1 / (1 + 1 / tau.low[0]), rtol=1e-5)


@pytest.mark.parametrize("polarity", [1, -1])
def test_a_slope_has_the_sign_of_its_synapse(polarity: int) -> None:
    wiring = Wiring.from_edges(1, motor=1, sensory=[(0, 0, polarity)])
    cell = LTC(1, wiring, init="centred").requires_grad_(False)
    cell.vleak.zero_()
    cell.sensory_sigma.abs_()
    known = known_of(cell, ONCE)
    slopes = known.slopes(reachable(known, UNIT), UNIT)
    assert slopes is not None
    assert (slopes.inputs.low[0, 0] >= 0) == (polarity > 0)
    assert (slopes.inputs.high[0, 0] <= 0) == (polarity < 0)
