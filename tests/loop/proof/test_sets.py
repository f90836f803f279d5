"""Sets contain what they are made of."""

import numpy as np

from ncp_control.base.intervals import Interval, point
from ncp_control.loop.proof.sets import Sets

RANDOM = np.random.default_rng(0)


def some_sets(rows: int = 3, size: int = 4, count: int = 9) -> Sets:
    return Sets(RANDOM.normal(size=(rows, size)), RANDOM.normal(size=(rows, size, count)))


def inside(sets: Sets, points: np.ndarray, slack: float = 1e-9) -> bool:
    """Whether points (B, P, D) are in the sets, as seen from a thousand directions."""
    directions = RANDOM.normal(size=(1000, points.shape[-1]))
    directions = np.concatenate([directions, np.eye(points.shape[-1])])
    reach = np.abs(directions @ sets.generators).sum(axis=2)[:, None] + slack
    along = (points - sets.center[:, None]) @ directions.T
    return bool((np.abs(along) <= reach).all())


def drawn(sets: Sets, count: int = 200) -> np.ndarray:
    """Points of the sets, (B, count, D), many of them at their ends."""
    e = RANDOM.uniform(-1, 1, size=(len(sets), count, sets.generators.shape[2]))
    e[:, ::2] = np.sign(e[:, ::2])
    return sets.center[:, None] + e @ np.moveaxis(sets.generators, 1, 2)


def test_the_box_is_the_smallest_one() -> None:
    sets = some_sets()
    points = drawn(sets)
    assert (sets.box.low[:, None] <= points).all()
    assert (points <= sets.box.high[:, None]).all()
    corner = sets.center + np.abs(sets.generators).sum(axis=2)
    np.testing.assert_allclose(sets.box.high, corner, rtol=1e-9)


def test_sets_with_fewer_generators_contain_those_before() -> None:
    sets = some_sets(count=90)
    fewer = sets.reduced(kept=5)
    assert fewer.generators.shape == (3, 4, 20)
    assert inside(fewer, drawn(sets))
    assert sets.reduced(kept=30) is sets


def test_a_function_of_a_set_is_in_the_set_that_the_mean_value_theorem_gives() -> None:
    sets = some_sets()
    matrix = RANDOM.normal(size=(2, 4))

    def function(x: np.ndarray) -> np.ndarray:
        return np.asarray(np.sin(x @ matrix.T))

    at = sets.box
    middle, radius = at.middle @ matrix.T, at.width / 2 @ np.abs(matrix).T
    least = np.where(radius > np.pi, -1.0, np.minimum(np.cos(middle - radius), np.cos(middle + radius)) - radius)
    cosine = Interval(np.maximum(least, -1.0), np.ones_like(middle))
    low, high = (cosine.low[..., None] * matrix, cosine.high[..., None] * matrix)
    slopes = Interval(np.minimum(low, high), np.maximum(low, high))
    found = sets.replaced(slice(2), point(function(sets.center)), slopes, np.zeros((3, 2)))
    points = drawn(sets)
    assert inside(found, np.concatenate([function(points), points[:, :, 2:]], axis=2))


def test_linear_parts_are_exact_and_keep_what_depends_on_one_another() -> None:
    sets = some_sets()
    weights, bias = RANDOM.normal(size=(3, 4)), RANDOM.normal(size=3)
    found = sets.with_others(sets.linear(weights, bias, 1e-16))
    points = drawn(sets)
    both = np.concatenate([points, points @ weights.T + bias], axis=2)
    assert inside(found, both)
    # The difference of the numbers and of what they are made of is known to rounding.
    away = np.concatenate([-weights, np.eye(3)], axis=1)
    assert np.abs(away @ found.generators).sum(axis=2).max() < 1e-9


def test_other_numbers_take_the_place_of_some() -> None:
    sets = some_sets()
    rows = RANDOM.normal(size=(3, 2, 4))
    values = point(np.einsum("bmd,bd->bm", rows, sets.center))
    found = sets.replaced(slice(1, 3), values, point(rows), np.full((3, 2), 0.1))
    points = drawn(sets)
    changed = points.copy()
    changed[:, :, 1:3] = np.einsum("bmd,bpd->bpm", rows, points) + RANDOM.uniform(-0.1, 0.1, (3, len(points[0]), 2))
    assert inside(found, changed)


def test_errors_and_other_sets_come_behind() -> None:
    sets = some_sets()
    wide = sets.with_errors(np.full((3, 2), 0.5))
    assert wide.center.shape == (3, 6)
    points = np.concatenate([drawn(sets), RANDOM.uniform(-0.5, 0.5, (3, 200, 2))], axis=2)
    assert inside(wide, points)
    more = sets.followed_by(some_sets(rows=2, count=4))
    assert len(more) == 5
    assert inside(more.at(np.arange(3)), drawn(sets))


def test_a_set_is_within_another_if_all_of_its_points_are() -> None:
    outer = some_sets(rows=1, count=16)
    for share, expected in ((0.9, True), (1.01, False)):
        smaller = Sets(outer.center, share * outer.generators[:, :, ::-1])
        assert smaller.are_within(outer) is expected
    # 80 short generators, 2 long ones, and another center.
    away, mixed = outer.generators[0] @ RANDOM.uniform(-0.2, 0.2, 16), RANDOM.uniform(-1, 1, (16, 82))
    mixed *= np.where(np.arange(82) < 80, 1e-6, 0.3)
    inner = Sets(outer.center + away, outer.generators @ mixed)
    assert inner.are_within(outer)
    assert inside(outer, drawn(inner))
    both = inner.followed_by(Sets(outer.center + 100, outer.generators))
    assert not both.are_within(outer)
    assert both.at(slice(1)).are_within(outer)


def test_what_is_said_to_be_within_is_within() -> None:
    said = 0
    for size in np.geomspace(0.05, 1.0, 12):
        outer, inner = some_sets(1, 3, 6), some_sets(1, 3, 8)
        inner = Sets(outer.center + 0.3 * size * inner.center, size * inner.generators)
        within = inner.are_within(outer)
        said += within
        fits = inside(outer, drawn(inner, 2000), 0.0)
        assert fits or not within
        assert within or not inside(Sets(outer.center, 0.7 * outer.generators), drawn(inner, 2000), 0.0)
    assert 2 <= said <= 10


def test_a_set_in_the_corner_of_a_box_is_not_within_a_set_of_the_same_box() -> None:
    outer = Sets(np.zeros((1, 2)), np.array([[[1.0, 0.1], [1.0, -0.1]]]))
    corner = Sets.boxes(np.array([[0.5, -0.6]]), np.array([[0.6, -0.5]]))
    assert (corner.box.high <= outer.box.high).all()
    assert not corner.are_within(outer)
