"""DualLTC: how tight the certified ranges are, what layers do to them, and that no neuron alone keeps its past."""

import numpy as np
import pytest
import torch

from helpers.audited_cells import grown, outside
from helpers.cells import CHAIN, NCP_7, SOLITARY
from ncp_control.audit.differences import Differences
from ncp_control.audit.examining import reachable
from ncp_control.base.intervals import Interval, between, point
from ncp_control.neurons import Cell, DualLTC
from ncp_control.neurons.dual.ranges import KnownDual
from ncp_control.neurons.ranges import Elapsed, Slopes, known_of
from ncp_control.ops import scan
from ncp_control.wiring import NCP, Wiring

ONCE = Elapsed(1.0, 1.0)
UNIT = between(-1.0, 1.0, 1)
CASCADE = NCP(6, 4, 3, sensory_fanout=4, inter_fanout=3, recurrent_command=0, motor_fanin=3, recurrent_inter=0)


def neuron(f: float, g: float, pace: float = 0.0, **settings) -> DualLTC:
    """One neuron with weights f and g of its only input, and with a strong brake."""
    cell = DualLTC(1, SOLITARY, **settings).requires_grad_(False)
    cell.sensory_weight.copy_(torch.tensor([[f], [g]]))
    cell.bias.copy_(torch.tensor([[0.0], [pace]]))
    if cell.brake_raw is not None:
        cell.brake_raw.fill_(2.0)
    return cell


def slopes_of(cell: Cell, states: Interval, features: Interval, elapsed: Elapsed = ONCE) -> Slopes:
    slopes = known_of(cell, elapsed).slopes(states, features)
    assert slopes is not None
    return slopes


def test_a_slow_neuron_is_certified_to_go_no_further_than_where_it_comes_to_rest() -> None:
    cell = neuron(1.5, 0.0, pace=-3.0)
    states = reachable(known_of(cell, ONCE), UNIT)
    reached = scan(cell, torch.tensor([[[-1.0]], [[1.0]]]).expand(2, 500, 1))[:, -1, 0].double().numpy()
    assert np.tanh(1.5) - states.high[0] > 0.15  # the brake holds it back
    np.testing.assert_allclose(reached, [states.low[0], states.high[0]], rtol=1e-4)


def test_a_fast_neuron_is_certified_to_go_as_far_as_it_swings() -> None:
    cell = neuron(0.3, 0.0, pace=20.0, time_constants=(0.01, 1.0))
    states = reachable(known_of(cell, ONCE), UNIT)
    flips = torch.tensor([1.0, -1.0]).repeat(100)[None, :, None]
    reached = scan(cell, flips)[0, -2:, 0].double().numpy()
    assert reached.max() > 1.5 * np.tanh(0.3)  # the brake adds to what pulls it back
    np.testing.assert_allclose(np.sort(reached), [states.low[0], states.high[0]], rtol=1e-4)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("elapsed", [Elapsed(1e-3, 1e-3), Elapsed(0.5, 2.0), Elapsed(1.0, np.inf)], ids=str)
def test_no_neuron_alone_keeps_or_enlarges_a_difference(elapsed: Elapsed, seed: int) -> None:
    for width, scale in ((1.0, 1.0), (5.0, 5.0), (1e6, 100.0)):
        cell = grown("dual-chain", scale, seed)
        own = slopes_of(cell, known_of(cell, elapsed).outer(), between(-width, width, 1), elapsed).before
        assert (np.diag(own.low) > -0.9).all()
        assert (np.diag(own.high) <= np.exp(-elapsed.low / cell.time_constants_range[1])).all()
        assert (np.diag(own.high) < 1).all()


def test_without_a_brake_a_neuron_comes_nearer_from_its_side() -> None:
    cell = neuron(3.0, 3.0, brake=False)
    own = slopes_of(cell, between(-1.0, 1.0, 1), UNIT).before
    assert own.low >= 0
    assert own.high < 1


def test_even_a_neuron_that_remembers_a_billion_steps_is_shown_to_forget() -> None:
    cell = neuron(1.0, 1.0, time_constants=(1e6, 1e9))
    own = slopes_of(cell, between(-1.0, 1.0, 1), UNIT).before
    assert 1 - 1e-6 < own.low <= own.high < 1


@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_a_circuit_without_cycles_forgets_whatever_it_sees(scale: float) -> None:
    torch.manual_seed(3)
    cell = DualLTC(3, CASCADE).requires_grad_(False)
    for weight in (cell.weight, cell.sensory_weight):
        weight.mul_(scale)
    known = known_of(cell, ONCE)
    features = between(-2.0, 2.0, 3)
    states = reachable(known, features)
    slopes = known.slopes(states, features)
    assert slopes is not None
    differences = Differences.of(slopes, known.output_slopes(states), states, 1)
    assert differences.cycles() == []
    assert differences.rate() <= np.exp(-1 / 20) * (1 + 1e-9)
    steps, acted = differences.forgotten(0.01, known.outputs(states).width)
    assert acted is not None
    assert None not in steps
    pasts = torch.cat([torch.full((1, 30, 3), 2.0), torch.full((1, 30, 3), -2.0)])
    same = 4 * torch.rand(1, acted, 3, generator=torch.Generator().manual_seed(0)) - 2
    after = scan(cell.double(), torch.cat([pasts, same.expand(2, -1, -1)], dim=1).double())[:, -1].numpy()
    apart = np.abs(after[0] - after[1])[cell.motor_start :]
    assert (apart <= 0.01 * known.outputs(states).width).all()


def test_any_elapsed_time_keeps_the_bounds_and_the_slopes() -> None:
    cell = grown("dual", 1.0, 0)
    known = known_of(cell, Elapsed(0.0, np.inf))
    features = between(-1.0, 1.0, 3)
    states = reachable(known, features)
    assert (states.size <= 1 + 1e-5).all()
    assert known.slopes(states, features) is not None
    assert known.gap is None


def test_ranges_are_narrower_than_the_cells_own_bounds() -> None:
    cell = DualLTC(3, NCP_7)
    states = reachable(known_of(cell, ONCE), between(-0.02, 0.02, 3))
    assert (states.width < 0.3).all()


def test_time_constants_follow_g_and_stay_in_their_limits() -> None:
    cell = neuron(1.0, 1.0, time_constants=(0.1, 10.0))
    known = known_of(cell, ONCE)
    found = known.time_constants(point(np.zeros(1)), UNIT)
    share = 1 / (1 + np.exp([-1.0, 1.0]))
    np.testing.assert_allclose([found.low[0], found.high[0]], 0.1**share * 10 ** (1 - share), rtol=1e-4)
    found = known.time_constants(point(np.zeros(1)), between(-1e30, 1e30, 1))
    np.testing.assert_allclose([found.low[0], found.high[0]], [0.1, 10.0], rtol=1e-4)


def test_a_neuron_whose_sums_overflow_has_no_range_and_those_behind_it_neither() -> None:
    cell = DualLTC(1, CHAIN).requires_grad_(False)
    cell.sensory_weight.fill_(1e20)
    known = known_of(cell, ONCE)
    features = between(-1e20, 1e20, 1)
    assert not known.settled(known.outer(), features).is_finite[0]
    assert not known.after(known.outer(), features).is_finite.any()
    assert not known.time_constants(known.outer(), features).is_finite[0]


@pytest.mark.parametrize("name", ["dual", "dual-dense", "dual-bare"])
def test_the_state_after_a_point_is_a_point(name: str) -> None:
    cell = grown(name, 1.0, 1, torch.float64)
    known = known_of(cell, ONCE)
    state, features = np.linspace(-1, 1, cell.units), np.linspace(0.2, -0.4, cell.inputs)
    after = known.after(point(state), point(features))
    expected = cell.step(torch.as_tensor(features)[None], torch.as_tensor(state)[None])[0].numpy()
    assert (after.width < 2e-4).all()
    assert after.contains(expected).all()


@pytest.mark.parametrize("time", [0.0, 1e-8, 1e-5, 1e-3])
def test_rounding_adds_up_to_no_more_than_is_certified_while_hardly_any_time_passes(time: float) -> None:
    cell = neuron(0.7, 0.0, pace=-1.0)
    known = known_of(cell, Elapsed(time, 1.0))
    states = reachable(known, UNIT)
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(64, 20_000, 1, generator=generator) * 2 - 1
    inputs[:32, 100:] = -inputs[:32, 100:].abs()
    inputs[:, :100] = 1.0
    elapsed = torch.full(inputs.shape[:2], time)
    elapsed[:, :100] = 1.0
    assert outside(states, scan(cell, inputs, elapsed=elapsed)) == []


def test_a_state_does_not_leave_its_bounds_although_no_time_passes() -> None:
    cell = neuron(40.0, 0.0, pace=-1.0)
    inputs, elapsed = torch.ones(1, 20_000, 1), torch.ones(1, 20_000)
    inputs[:, 100:], elapsed[:, 100:] = -1.0, 0.0
    assert outside(known_of(cell, Elapsed(0.0, 1.0)).outer(), scan(cell, inputs, elapsed=elapsed)) == []


def test_a_synapse_to_itself_can_make_a_neuron_keep_its_past() -> None:
    cell = DualLTC(1, Wiring.from_edges(1, motor=1, sensory=[(0, 0)], synapses=[(0, 0)])).requires_grad_(False)
    cell.weight.copy_(torch.tensor([[5.0], [0.0]]))
    known = known_of(cell, ONCE)
    assert isinstance(known, KnownDual)
    slopes = slopes_of(cell, reachable(known, UNIT), UNIT)
    assert slopes.before.high > 1
    kept = scan(cell, torch.tensor([[[1.0]], [[-1.0]]]) * torch.tensor([[1.0] * 30 + [0.0] * 300])[..., None])
    assert (kept[0, -1, 0] - kept[1, -1, 0]).abs() > 1
