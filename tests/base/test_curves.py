"""The ranges of activations and of their derivatives contain what torch computes, and are reached."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from ncp_control.base.curves import CURVES, PIECES, SILU, Curve, clipped, elu, pieces, tanh_line
from ncp_control.base.intervals import Interval

TORCH = {
    "sigmoid": (CURVES["sigmoid"], torch.sigmoid),
    "tanh": (CURVES["tanh"], torch.tanh),
    "relu": (CURVES["relu"], torch.relu),
    "hard_tanh": (CURVES["hard_tanh"], nn.functional.hardtanh),
    "hard_tanh-uneven": (clipped(-0.3, 2.0), lambda x: nn.functional.hardtanh(x, -0.3, 2.0)),
    "silu": (SILU, nn.functional.silu),
    "elu": (elu(1.0), nn.functional.elu),
    "elu-steep": (elu(2.5), lambda x: nn.functional.elu(x, 2.5)),
    "elu-flat": (elu(0.2), lambda x: nn.functional.elu(x, 0.2)),
}
CASES = pytest.mark.parametrize(("curve", "computed"), TORCH.values(), ids=list(TORCH))


def random_arguments(random: np.random.Generator, count: int = 300) -> tuple[Interval, torch.Tensor]:
    """Intervals, narrow and wide, and 200 numbers in each, with its ends, (200, count)."""
    middle, width = random.normal(scale=4, size=count), 10 ** random.uniform(-3, 1.5, count)
    low, high = (middle - width).astype(np.float32), (middle + width).astype(np.float32)
    share = np.linspace(0, 1, 200)[:, None]
    inside = np.clip((low + share * (high - low)).astype(np.float32), low, high)
    return Interval(low.astype(np.float64), high.astype(np.float64)), torch.as_tensor(inside)


@CASES
def test_values_lie_inside_and_the_range_is_reached(curve: Curve, computed) -> None:
    arguments, inside = random_arguments(np.random.default_rng(0))
    found = curve.values(arguments)
    assert found.contains(computed(inside)).all()
    values = computed(inside.double()).numpy()
    assert found.contains(values).all()
    reached = Interval(values.min(axis=0), values.max(axis=0))
    # between two of the 200 numbers, the lowest point of a curve can be missed by a little
    assert (reached.low - found.low <= 1e-4 * (1 + arguments.width**2)).all()
    assert (found.high - reached.high <= 1e-4).all()


@CASES
def test_derivatives_lie_inside_and_the_range_is_reached(curve: Curve, computed) -> None:
    arguments, inside = random_arguments(np.random.default_rng(1))
    at = inside.double().requires_grad_()
    slopes = torch.autograd.grad(computed(at).sum(), at)[0].numpy()
    found = curve.slopes(arguments)
    assert (slopes >= found.low - 1e-12).all()
    assert (slopes <= found.high + 1e-12).all()
    narrow = arguments.width < 10
    reached = Interval(slopes.min(axis=0), slopes.max(axis=0))
    assert (reached.low - found.low <= 0.05 * found.size)[narrow].all()
    assert (found.high - reached.high <= 0.05 * found.size)[narrow].all()


@CASES
def test_infinite_arguments_have_the_limits_as_values(curve: Curve, computed) -> None:
    arguments = Interval(np.array([-np.inf, 1.0]), np.array([1.0, np.inf]))
    values, slopes = curve.values(arguments), curve.slopes(arguments)
    far = torch.tensor([[-1e6, 1.0], [-30.0, 1e6], [-1.2785, 40.0], [1.0, 2.4]], dtype=torch.float64)
    assert values.contains(computed(far)).all()
    at = far.requires_grad_()
    assert slopes.contains(torch.autograd.grad(computed(at).sum(), at)[0]).all()


def test_a_tanh_is_its_line_and_a_rest_that_is_reached() -> None:
    arguments, inside = random_arguments(np.random.default_rng(2))
    slope, rest = tanh_line(arguments)
    values = (torch.tanh(inside.double()) - torch.as_tensor(slope) * inside).numpy()
    assert rest.contains(values).all()
    narrow = arguments.width < 10
    assert ((rest.width - np.ptp(values, axis=0))[narrow] <= 0.01).all()
    # Over a short way the line is nearly the tanh itself.
    short = arguments.width < 0.1
    assert short.any()
    assert (rest.width[short] < 1e-3).all()


def test_a_tanh_of_anything_has_a_flat_line_and_a_point_has_its_tangent() -> None:
    slope, rest = tanh_line(Interval(np.array([-np.inf, 0.0, 0.5]), np.array([2.0, np.inf, 0.5])))
    assert slope[:2].tolist() == [0, 0]
    np.testing.assert_allclose([rest.low[0], rest.high[0], rest.high[1]], [-1, np.tanh(2), 1], atol=1e-9)
    np.testing.assert_allclose(slope[2], 1 - np.tanh(0.5) ** 2)


def test_pieces_cover_an_interval_without_a_gap() -> None:
    arguments = Interval(np.array([-np.inf, -3.0, 2.0, 400.0]), np.array([np.inf, 1e6, 2.0, 500.0]))
    found = list(pieces(arguments))
    assert len(found) == PIECES
    np.testing.assert_array_equal(found[0].low, arguments.low)
    np.testing.assert_array_equal(found[-1].high, arguments.high)
    for one, other in pairwise(found):
        np.testing.assert_array_equal(one.high, other.low)
        assert (one.low <= one.high).all()
