"""Every derivative of a solver step by autograd lies inside of what is certified."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.audited_cells import KNOWN, Case, cases, inside, one_solver_step, times_in
from ncp_control.base.intervals import Interval, exactly, point
from ncp_control.neurons import LTC, Cell
from ncp_control.neurons.ranges import Elapsed, Slopes, known_of

ROUNDED = 1e-9  # autograd and the certificate round differently, in float64
HAVE_SLOPES = [name for name in KNOWN if "ltc-euler" not in name]


def boxes(name: str, widths: tuple[float, ...]) -> Iterator[tuple[Case, Interval, Interval]]:
    """Cases with boxes of states and of features, of these widths as shares of all states and features there are."""
    generator = torch.Generator().manual_seed(5)
    for case in cases(name, torch.float64):
        whole = Interval(*(np.clip(end, -5, 5) for end in case.known.outer()))
        for width in widths:
            yield case, *(part_of(box, width, generator) for box in (whole, case.features))


def part_of(box: Interval, width: float, generator: torch.Generator) -> Interval:
    """A box that takes a share of another one's width, at a random place in it."""
    at = inside(box, (), torch.float64, generator).numpy()
    return Interval(*(at + width * (end - at) for end in box))


def derivatives(cell: Cell, states: Tensor, features: Tensor, elapsed: Tensor) -> tuple[Tensor, Tensor]:
    """The Jacobians of a step by the states (B, N, N) and by what the cell reads (B, N, F)."""
    before, inputs = states.clone().requires_grad_(), features.clone().requires_grad_()
    after = one_solver_step(cell).step(inputs, before, elapsed)
    # Rows do not depend on each other, so one gradient of a sum over rows has the derivatives of all of them.
    rows = [
        torch.autograd.grad(number.sum(), (before, inputs), retain_graph=True, materialize_grads=True)
        for number in after.unbind(1)
    ]
    by_states, by_features = zip(*rows, strict=True)
    return torch.stack(by_states, dim=1), torch.stack(by_features, dim=1)


def whole_step(slopes: Slopes) -> tuple[np.ndarray, np.ndarray]:
    """The derivatives (I - same)^-1 before and (I - same)^-1 inputs, for slopes that are points."""
    inverse = np.linalg.inv(np.eye(len(slopes.same.low)) - slopes.same.middle)
    return inverse @ slopes.before.middle, inverse @ slopes.inputs.middle


@pytest.mark.parametrize("name", HAVE_SLOPES)
def test_no_derivative_leaves_its_interval(name: str) -> None:
    generator = torch.Generator().manual_seed(6)
    for case, states, features in boxes(name, (0.0, 0.05, 0.5, 1.0)):
        slopes = case.known.slopes(states, features)
        if slopes is None:
            continue
        rows = 64
        elapsed = times_in(case.known.elapsed, (rows,), torch.float64, generator) / case.known.substeps
        found = derivatives(
            case.cell,
            inside(states, (rows,), torch.float64, generator),
            inside(features, (rows,), torch.float64, generator),
            elapsed,
        )
        # Where layers move one after another, a step's derivative is made of several: the magnitudes' sum is above it.
        inverse = np.linalg.inv(np.eye(case.known.size) - slopes.same.size)
        for by, values in zip((slopes.before, slopes.inputs), found, strict=True):
            most = (inverse @ by.size) * (1 + ROUNDED) + ROUNDED
            assert (np.abs(values.numpy()) <= most).all()
            if not slopes.same.size.any():
                size = ROUNDED * (1 + by.size)
                assert Interval(by.low - size, by.high + size).contains(values.numpy()).all()


@pytest.mark.parametrize("name", HAVE_SLOPES)
def test_at_a_point_the_derivatives_are_those_of_autograd(name: str) -> None:
    generator = torch.Generator().manual_seed(7)
    compared = 0
    for case, states, features in boxes(name, (0.0,)):
        time = times_in(case.known.elapsed, (1,), torch.float64, generator)
        with exactly():
            known = known_of(case.cell, Elapsed(float(time), float(time)))
            slopes = known.slopes(states, features)
        if slopes is None:
            continue
        found = derivatives(
            case.cell, torch.as_tensor(states.low)[None], torch.as_tensor(features.low)[None], time / known.substeps
        )
        at_point = Slopes(*(point(farther_end(part)) for part in slopes))
        for values, expected in zip(whole_step(at_point), found, strict=True):
            if isinstance(case.cell, LTC) and values.shape[0] == values.shape[1]:
                # A neuron's own state has two parts there, of which only the sum of the farther ends is known.
                np.fill_diagonal(values, expected[0].diagonal())
            np.testing.assert_allclose(values, expected[0].numpy(), rtol=1e-6, atol=1e-6)
        compared += 1
    assert compared


def farther_end(slopes: Interval) -> np.ndarray:
    """The end with the greater magnitude: an LTC's certificate gives the other as zero."""
    return np.where(np.abs(slopes.low) > np.abs(slopes.high), slopes.low, slopes.high)
