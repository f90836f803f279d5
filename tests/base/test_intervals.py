"""Interval arithmetic contains what code computes, in float32 and in any order, and is not much wider."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from ncp_control.base import intervals
from ncp_control.base.intervals import (
    Interval,
    add,
    affine,
    between,
    divide,
    exactly,
    joined,
    multiply,
    outward,
    point,
    product,
    sigmoid,
    subtract,
    tanh,
)
from ncp_control.neurons import NeuralODE
from ncp_control.ops import explain_backends, scan

COUNT = 20_000
PAIRS = {
    "add": (add, np.add),
    "subtract": (subtract, np.subtract),
    "multiply": (multiply, np.multiply),
    "divide": (divide, np.divide),
}


def random_intervals(random: np.random.Generator, positive: bool = False) -> tuple[Interval, np.ndarray]:
    """Intervals of very different sizes, and a float32 number in each."""
    middle = random.normal(size=COUNT) * 10.0 ** random.uniform(-6, 6, COUNT)
    ends = np.sort(np.stack([middle, middle * random.uniform(0.5, 1.5, COUNT)]).astype(np.float32), axis=0)
    ends = np.abs(ends)[:: -1 if positive else 1] if positive else ends
    ends = np.sort(ends, axis=0)
    share = random.random(COUNT).round(1)
    inside = np.clip((ends[0] + share * (ends[1] - ends[0])).astype(np.float32), *ends)
    return Interval(*ends.astype(np.float64)), inside


@pytest.mark.parametrize("name", PAIRS)
def test_float32_results_lie_inside(name: str) -> None:
    operation, computed = PAIRS[name]
    random = np.random.default_rng(0)
    one, a = random_intervals(random)
    other, b = random_intervals(random, positive=name == "divide")
    found = operation(one, other)
    assert found.contains(computed(a, b)).all()
    assert found.contains(computed(a.astype(np.float64), b.astype(np.float64))).all()


@pytest.mark.parametrize("name", PAIRS)
def test_results_at_points_are_not_much_wider_than_rounding(name: str) -> None:
    operation, computed = PAIRS[name]
    random = np.random.default_rng(1)
    a, b = random.normal(size=COUNT), np.abs(random.normal(size=COUNT)) + 0.1
    found = operation(point(a), point(b))
    assert (found.width <= 2e-6 * (np.abs(computed(a, b)) + np.abs(a) + b)).all()


def test_sums_in_any_order_lie_inside() -> None:
    random = np.random.default_rng(2)
    weights = (random.normal(size=(20, 33)) * 10.0 ** random.uniform(-3, 3, (20, 33))).astype(np.float32)
    shift = random.normal(size=20).astype(np.float32)
    ends = np.sort(random.normal(size=(2, 33)).astype(np.float32), axis=0)
    found = affine(Interval(*ends.astype(np.float64)), weights.astype(np.float64), shift.astype(np.float64))
    for _ in range(200):
        inside = np.where(random.random((1, 33)) < 0.5, ends[:1], ends[1:])
        order = random.permutation(33)
        total = shift.copy()
        for k in order:
            total = total + weights[:, k] * inside[0, k]
        assert found.contains(total).all()
        assert found.contains((weights @ inside[0]) + shift).all()


def test_an_affine_map_reaches_its_ends_at_corners() -> None:
    random = np.random.default_rng(3)
    weights, ends = random.normal(size=(5, 7)), np.sort(random.normal(size=(2, 7)), axis=0)
    found = affine(Interval(*ends), weights)
    highest = np.where(weights > 0, ends[1], ends[0])
    np.testing.assert_allclose((weights * highest).sum(axis=1), found.high, rtol=1e-4)


def test_what_float32_computes_escapes_without_the_widening(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "SLACK", 0.0)
    random = np.random.default_rng(4)
    one, a = random_intervals(random)
    other, b = random_intervals(random)
    assert not multiply(one, other).contains(a * b).all()


@pytest.mark.parametrize(("known", "computed"), [(sigmoid, torch.sigmoid), (tanh, torch.tanh)], ids=["sigmoid", "tanh"])
def test_what_torch_computes_of_a_curve_lies_inside(known, computed) -> None:
    values = torch.cat([torch.linspace(-120, 120, COUNT), torch.randn(COUNT), 1e-3 * torch.randn(COUNT)])
    assert known(point(values.numpy())).contains(computed(values)).all()


@pytest.mark.parametrize(("known", "activation"), [(sigmoid, "sigmoid"), (tanh, "tanh")], ids=["sigmoid", "tanh"])
def test_what_compiled_code_computes_of_a_curve_lies_inside(known, activation: str) -> None:
    cell = NeuralODE(1, 1, solver="euler", unfolds=1, activation=activation).requires_grad_(False)
    for parameter in cell.parameters():
        parameter.zero_()
    cell.gamma.fill_(1.0)
    values = torch.cat([torch.linspace(-120, 120, COUNT), torch.randn(COUNT), 1e-3 * torch.randn(COUNT)])
    able, reason = explain_backends(cell, values[:, None, None])["cpu"]
    if not able:
        pytest.skip(reason)
    found = scan(cell, values[:, None, None], backend="cpu")[:, 0, 0]
    assert known(point(values.numpy())).contains(found).all()


def test_curves_stay_in_their_range_and_know_nothing_of_what_may_be_no_number() -> None:
    arguments = Interval(np.array([-3e38, 0.0, -np.inf]), np.array([3e38, 50.0, 1.0]))
    for found in (tanh(arguments), sigmoid(arguments)):
        assert found.high.tolist() == [1, 1, np.inf]
        assert found.low[2] == -np.inf
        assert -1 <= found.low[0] <= found.low[1]


def test_where_float32_can_overflow_nothing_is_known() -> None:
    weights = np.array([[1.0, -1.0], [0.6, 0.0]])
    found = affine(point([3e38, 3e38]), weights)  # 3e38 - 3e38 is 0, and inf - inf in another order of a longer sum
    assert not found.is_finite[0]
    assert found.is_finite[1]
    assert not multiply(point(1e20), point(1e20)).is_finite
    assert not add(point(3e38), point(3e38)).is_finite
    assert not point(np.array([1.0])).where(np.array([False])).is_finite.any()


def test_a_weight_of_zero_carries_nothing_of_an_infinite_source() -> None:
    assert product(0.0, np.inf) == 0
    found = affine(between(-np.inf, np.inf, 2), np.array([[0.0, 0.0], [0.0, 1.0]]))
    assert np.isfinite([found.low[0], found.high[0]]).all()
    assert [found.low[1], found.high[1]] == [-np.inf, np.inf]


def test_a_quotient_by_what_can_be_zero_is_anything() -> None:
    found = divide(point([1.0, 1.0]), Interval(np.array([0.0, 1.0]), np.array([1.0, 2.0])))
    assert [found.low[0], found.high[0]] == [-np.inf, np.inf]
    np.testing.assert_allclose([found.low[1], found.high[1]], [0.5, 1.0], rtol=1e-6)


def test_exact_arithmetic_is_narrower_and_ends_with_its_block() -> None:
    before = add(point(1.0), point(1.0)).width
    with exactly():
        assert 0 < add(point(1.0), point(1.0)).width < 1e-12
    assert add(point(1.0), point(1.0)).width == before


def test_exact_arithmetic_of_one_thread_is_not_that_of_another() -> None:
    with exactly(), ThreadPoolExecutor(1) as threads:
        inside = add(point(1.0), point(1.0)).width
        beside = threads.submit(lambda: add(point(1.0), point(1.0)).width).result()
    assert inside < 1e-12 < beside == add(point(1.0), point(1.0)).width


def test_infinite_ends_stay_infinite_and_finite_ones_finite() -> None:
    found = outward([-np.inf, 1.0], [0.0, np.inf], 3)
    assert found.low[0] == -np.inf
    assert found.high[1] == np.inf
    assert np.isfinite([found.high[0], found.low[1]]).all()


def test_rows_of_intervals_are_joined_in_their_order() -> None:
    found = joined(between(0.0, 1.0, 2), between(2.0, 3.0, 1))
    assert found.low.tolist() == [0, 0, 2]
    assert found.high.tolist() == [1, 1, 3]
