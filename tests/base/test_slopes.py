"""Products and sums of derivatives contain those of all derivatives in their intervals."""

import numpy as np

from ncp_control.base.intervals import Interval, point
from ncp_control.base.slopes import hull_of, matrix_times, minus, plus, rows_times, split, times, vertices


def random_slopes(random: np.random.Generator, *shape: int) -> tuple[Interval, np.ndarray]:
    """Intervals, and 100 numbers in each."""
    ends = np.sort(random.normal(size=(2, *shape)), axis=0)
    share = random.random((100, *shape)).round(1)
    return Interval(*ends), ends[0] + share * (ends[1] - ends[0])


def test_products_and_sums_lie_inside() -> None:
    random = np.random.default_rng(0)
    (one, a), (other, b), (third, c) = (random_slopes(random, 5, 3) for _ in range(3))
    factors, f = random_slopes(random, 5)
    weights = random.normal(size=(4, 5))
    assert times(one, other).contains(a * b).all()
    assert plus(one, other, third).contains(a + b + c).all()
    assert minus(one, other).contains(a - b).all()
    assert hull_of(one, other, third).contains(c).all()
    assert rows_times(factors, one).contains(f[:, :, None] * a).all()
    assert rows_times(factors, one.low).contains(f[:, :, None] * one.low).all()
    assert matrix_times(weights, one).contains(weights @ a).all()


def test_at_points_they_are_exact() -> None:
    random = np.random.default_rng(1)
    a, b, weights = random.normal(size=(5, 3)), random.normal(size=(5, 3)), random.normal(size=(4, 5))
    np.testing.assert_allclose(times(point(a), point(b)).low, a * b, rtol=1e-11)
    np.testing.assert_allclose(matrix_times(weights, point(a)).high, weights @ a, rtol=1e-9, atol=1e-11)


def test_what_is_zero_stays_zero() -> None:
    zero, anything = point(np.zeros((2, 2))), Interval(np.full((2, 2), -np.inf), np.full((2, 2), np.inf))
    for found in (times(zero, anything), plus(zero, zero), matrix_times(np.zeros((3, 2)), anything)):
        assert not found.size.any()


def test_derivatives_are_split_by_what_they_are_taken_by() -> None:
    one, other = split(point(np.arange(6.0).reshape(2, 3)), 1)
    assert one.low.tolist() == [[0], [3]]
    assert other.low.tolist() == [[1, 2], [4, 5]]


def test_a_box_has_a_corner_for_each_choice_of_ends() -> None:
    corners = vertices(Interval(np.array(0.0), np.array(1.0)), Interval(np.array(2.0), np.array(3.0)))
    assert sorted((float(a), float(b)) for a, b in corners) == [(0, 2), (0, 3), (1, 2), (1, 3)]
