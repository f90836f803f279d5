"""NeuralLTC, CT-RNN and Neural ODE: how tight the certified ranges are, and where nothing is shown."""

import numpy as np
import pytest
import torch

from helpers.audited_cells import box, grown, outside
from helpers.cells import CHAIN, DENSE_5, SOLITARY
from ncp_control.audit.examining import reachable
from ncp_control.base.intervals import Interval, between, exactly, point
from ncp_control.neurons import CTRNN, Cell, NeuralLTC, NeuralODE
from ncp_control.neurons.parameters import raw_of
from ncp_control.neurons.ranges import Elapsed, known_of
from ncp_control.ops import scan

ONCE = Elapsed(1.0, 1.0)
UNIT = between(-1.0, 1.0, 1)


def fixed(cell: Cell, **values: float) -> Cell:
    """The cell with parameters filled with these values."""
    cell.requires_grad_(False)
    for name, value in values.items():
        parameter = getattr(cell, f"{name}_raw" if name == "tau" else name)
        parameter.fill_(value)
        if name == "tau":
            parameter.copy_(raw_of(parameter))
    return cell


def assert_reaches_its_range(cell: Cell) -> None:
    """Asserts that constant inputs drive the first of two neurons to both ends of its range, and no state beyond."""
    states = reachable(known_of(cell, ONCE), UNIT)
    inputs = torch.tensor([-1.0, 0.0, 1.0])[:, None, None].expand(3, 300, 1)
    reached = scan(cell, inputs)
    assert outside(states, reached) == []
    found = torch.cat([reached[:, -1], torch.zeros(1, 2)]).double().numpy()
    np.testing.assert_allclose(found.min(axis=0)[0], states.low[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found.max(axis=0)[0], states.high[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("activation", ["sigmoid", "relu", "hard_tanh"])
def test_a_neural_ltc_without_cycles_reaches_its_range_at_corners(activation: str) -> None:
    cell = fixed(NeuralLTC(1, CHAIN, activation=activation, time_constants=(0.2, 0.5)), gamma=1.3, gamma_r=-2.0, mu=0.1)
    assert_reaches_its_range(cell)


def test_a_signed_neural_ltc_without_cycles_reaches_its_range_however_slow_it_is() -> None:
    cell = NeuralLTC(1, CHAIN, activation="tanh", signed=True, time_constants=(0.2, 5.0))
    cell = fixed(cell, gamma=1.3, gamma_r=-2.0, mu=0.0)
    assert_reaches_its_range(cell)


def test_a_signed_step_from_outside_its_bounds_is_smallest_or_greatest_where_f_is_zero() -> None:
    cell = fixed(NeuralLTC(1, SOLITARY, activation="hard_tanh", signed=True, unfolds=1), gamma=1.0, mu=0.0, tau=1.0)
    cell.A.fill_(0.5)
    after = known_of(cell, ONCE).after(between(9.0, 9.0, 1), UNIT)
    assert 9.0 / 2 <= after.high[0] < 4.501  # f = 0: no conductance but the leak
    assert 2.833 < after.low[0] <= (9.0 - 0.5) / 3  # f = -1


def test_a_ct_rnn_without_cycles_reaches_its_range_at_corners() -> None:
    cell = fixed(CTRNN(1, CHAIN, solver="fused"), gamma=0.7, gamma_r=-2.0, mu=0.1, tau=0.4)
    with exactly():
        states = reachable(known_of(cell, ONCE), UNIT)
    reached = scan(cell, torch.tensor([-1.0, 1.0])[:, None, None].expand(2, 200, 1))[:, -1].double().numpy()
    np.testing.assert_allclose(np.sort(reached, axis=0), np.stack(states), rtol=1e-5)


@pytest.mark.parametrize("ratio", [1.2, 1.5, 1.9])
def test_an_euler_step_that_jumps_over_its_target_reaches_the_bounds(ratio: float) -> None:
    cell = fixed(CTRNN(1, SOLITARY, unfolds=1), gamma=2.0, mu=0.3, tau=1 / ratio)
    known = known_of(cell, ONCE)
    states = reachable(known, UNIT)
    assert known.gap is None
    alternating = torch.tensor([-1.0, 1.0]).repeat(200)
    reached = scan(cell, torch.stack([alternating, -alternating])[..., None])
    assert outside(states, reached) == []
    ends = np.array([reached.min(), reached.max()])
    np.testing.assert_allclose(ends, [states.low[0], states.high[0]], rtol=1e-3)


@pytest.mark.parametrize("solver", ["fused", "euler"])
def test_short_steps_stay_between_the_targets(solver: str) -> None:
    cell = fixed(CTRNN(1, SOLITARY, unfolds=2, solver=solver), gamma=2.0, mu=0.3, tau=0.5)
    with exactly():
        states = reachable(known_of(cell, ONCE), UNIT)
    targets = 0.5 * np.tanh([-1.7, 2.3])
    np.testing.assert_allclose([states.low[0], states.high[0]], targets, rtol=1e-5)


@pytest.mark.parametrize("ratio", [2.0, 2.5])
def test_of_steps_twice_as_long_as_a_time_constant_nothing_is_shown(ratio: float) -> None:
    cell = fixed(CTRNN(1, SOLITARY, unfolds=1), gamma=2.0, mu=0.3, tau=1 / ratio)
    known = known_of(cell, Elapsed(0.1, 1.0))
    assert np.isinf(reachable(known, UNIT).width).all()
    assert known.gap is not None
    assert "twice as long" in known.gap
    shorter = known_of(cell, Elapsed(0.1, 0.3))
    assert np.isfinite(reachable(shorter, UNIT).width).all()
    assert shorter.gap is None


def test_only_slow_neurons_of_a_tanh_neural_ltc_and_those_behind_them_have_no_bounds() -> None:
    cell = fixed(NeuralLTC(1, CHAIN, activation="tanh"), gamma=2.0, gamma_r=0.0, mu=0.0)
    cell.A.fill_(1.0)
    cell.tau_raw.copy_(raw_of(torch.tensor([1.5, 0.5])))
    known = known_of(cell, ONCE)
    states = reachable(known, UNIT)
    assert np.isinf(states.low[0])
    assert np.isfinite([states.low[1], states.high[1]]).all()
    assert known.gap is not None
    assert "tanh can be negative" in known.gap
    # An input that is too small to make the rate negative leaves bounds to the slow neuron, too.
    known = known_of(cell, ONCE)
    assert np.isfinite(reachable(known, between(-0.2, 0.2, 1)).width).all()
    assert known.gap is None


def test_relu_has_bounds_where_no_state_feeds_itself() -> None:
    known = known_of(fixed(CTRNN(1, CHAIN, solver="fused", activation="relu"), gamma=2.0, gamma_r=3.0, mu=0.5), ONCE)
    with exactly():
        states = reachable(known, UNIT)
    np.testing.assert_allclose(states.high, [2.5, 8.0], rtol=1e-5)
    assert known.gap is None
    cycle = known_of(CTRNN(2, DENSE_5, solver="fused", activation="relu"), ONCE)
    assert np.isinf(reachable(cycle, between(-1.0, 1.0, 2)).high).any()
    assert cycle.gap is not None
    assert "relu has no upper end" in cycle.gap


def test_a_neural_ode_has_the_bound_that_the_sign_of_its_slope_gives() -> None:
    known = known_of(fixed(NeuralODE(1, CHAIN, solver="euler"), gamma=1.0, gamma_r=-1.0, mu=-0.1), ONCE)
    states = reachable(known, between(0.5, 1.0, 1))
    assert states.low.tolist() == [0, -np.inf]
    assert states.high.tolist() == [np.inf, 0]
    assert known.gap is not None
    assert "no leak" in known.gap


def test_slopes_are_known_without_bounds_of_the_states_where_they_do_not_matter() -> None:
    cell = grown("neural-ode-euler", 1.0, 0)
    known, features = known_of(cell, ONCE), box(2, np.random.default_rng(0))
    states = reachable(known, features)
    slopes = known.slopes(states, features)
    assert np.isinf(states.width).all()
    assert slopes is not None
    assert np.isfinite(slopes.before.size).all()


def test_a_state_without_bounds_has_no_slope_where_the_step_depends_on_it() -> None:
    cell = fixed(NeuralLTC(1, SOLITARY, activation="tanh"), gamma=2.0, mu=0.0, tau=3.0)
    known = known_of(cell, ONCE)
    assert known.slopes(reachable(known, UNIT), UNIT) is None


def test_pieces_make_slopes_tighter_than_the_product_of_the_greatest_factors() -> None:
    cell = fixed(NeuralLTC(1, SOLITARY, unfolds=1), gamma=10.0, mu=0.0, tau=1.0)
    cell.A.fill_(1.0)
    known = known_of(cell, Elapsed(20.0, 20.0))
    states = Interval(np.array([0.0]), np.array([0.5]))
    slopes = known.slopes(states, UNIT)
    assert slopes is not None
    inputs = torch.linspace(-1, 1, 4001, dtype=torch.float64)[:, None].requires_grad_()
    greatest = 0.0
    for state in (0.0, 0.5):
        after = cell.double().step(inputs, torch.full((4001, 1), state, dtype=torch.float64), 20.0)
        greatest = max(greatest, float(torch.autograd.grad(after.sum(), inputs)[0].abs().max()))
    assert greatest <= slopes.inputs.high[0, 0] <= 2 * greatest
    f, rate = 1.0, 1.0  # the greatest f' is a quarter, and the greatest dx'/df that at the least f
    assert slopes.inputs.high[0, 0] < 0.5 * 0.25 * 10 * 20 * f / (1 + 20 * rate) * 21 / 2


def test_the_lower_end_is_widened_where_the_upper_one_is_infinite() -> None:
    cell = fixed(NeuralODE(1, SOLITARY, solver="euler", unfolds=1), gamma=1.0, mu=0.0)
    states, features = Interval(np.array([1e6]), np.array([np.inf])), point(np.array([-9.0]))
    after = known_of(cell, Elapsed(1e6, 1e6)).after(states, features)
    computed = cell.step(torch.tensor([[-9.0]]), torch.tensor([[1e6]]), 1e6)
    assert after.high[0] == np.inf
    assert after.low[0] <= float(computed) - 1e6 * 2.0**-24  # what a sum with 1e6 may round
