"""Times and inputs as large and as small as float32 has them: finite states within the bounds, and finite gradients."""

from __future__ import annotations

import pytest
import torch

import ncp_control as nc
from helpers.cell_values import close_to
from helpers.cells import build, kept, names
from ncp_control import solvers
from ncp_control.neurons import MixedMemory

SPANS = (0.0, 1e-38, 1e-30, 1e-10, 1.0, 1e10, 1e30, 1e38)


def cells() -> list[str]:
    """Names of cells that claim bounds; tests/ops/cpu/test_extremes.py holds compiled ones to more than this."""
    own = {name: kept(name) for name in names(exact=True) if kept(name).program() is None}
    return [
        name
        for name, cell in own.items()
        if cell.guarantee.holds or not cell.uses_elapsed or isinstance(cell, MixedMemory)
    ]


@pytest.mark.parametrize("name", cells())
def test_no_time_and_no_input_takes_a_cell_out_of_its_bounds(name: str) -> None:
    cell = build(name)
    low, high = (bound.detach() for bound in close_to(cell.state_bounds()))
    inner, outer = low.clamp(-0.5), high.clamp(max=0.5)
    parameters = dict(cell.named_parameters())
    for scale in (1.0, 1e30):
        given = scale * torch.randn(5, 2, cell.inputs)
        start = inner + (outer - inner) * torch.rand(5, cell.state_size)
        for span in SPANS:
            inputs, state = given.clone().requires_grad_(), start.clone().requires_grad_()
            elapsed = torch.full((5, 2), span, requires_grad=True)
            states = nc.scan(cell, inputs, state, elapsed, backend="reference")
            assert ((states >= low) & (states <= high) & states.isfinite()).all(), (scale, span)
            wanted = {"inputs": inputs, "state": state, "elapsed": elapsed} | parameters
            grads = torch.autograd.grad(states.sum(), list(wanted.values()), materialize_grads=True)
            for key, grad in zip(wanted, grads, strict=True):
                assert grad.isfinite().all(), (scale, span, key)


@pytest.mark.parametrize("name", ["ltc-gaps", "neural-ltc-sigmoid", "neural-ltc-relu", "ctrnn-fused"])
def test_a_very_long_step_ends_where_a_long_one_does(name: str) -> None:
    cell = build(name, torch.float64)
    inputs, state = torch.randn(3, 1, cell.inputs, dtype=torch.float64), torch.zeros(3, cell.units, dtype=torch.float64)
    long = nc.scan(cell, inputs, state, 1e15, backend="reference")
    for backend in ("auto", "reference"):
        for span in (1e30, 1e200, 1e308, float("inf")):
            torch.testing.assert_close(nc.scan(cell, inputs, state, span, backend=backend), long)


@pytest.mark.parametrize("border", [0.5, 2.0])  # of two unfolds: at spans of 1/4 and 1 backends go another way
def test_where_a_span_begins_to_be_long_the_gradient_of_elapsed_has_no_jump(border: float) -> None:
    cell = build("neural-ltc-quick", torch.float64)
    inputs, state = torch.randn(2, 1, 3, dtype=torch.float64), torch.rand(2, 7, dtype=torch.float64)
    for backend in ("auto", "reference"):
        slopes = []
        for span in (border - 1e-7, border, border + 1e-7):
            elapsed = torch.tensor(span, dtype=torch.float64, requires_grad=True)
            states = nc.scan(cell, inputs, state, elapsed, backend=backend)
            slopes.append(torch.autograd.grad(states.sum(), elapsed)[0])
        torch.testing.assert_close(slopes, slopes[1:2] * 3, rtol=1e-5, atol=1e-8)


def test_the_adaptive_solver_says_why_it_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solvers, "MOST_STEPS", 30)
    cell = build("ltc-dopri5")
    for elapsed, reason in (
        (1e5, "so long that it would need more than 30 steps"),
        (float("nan"), "a NaN or infinity"),
    ):
        with pytest.raises(ArithmeticError, match=reason):
            nc.scan(cell, torch.zeros(2, 1, 2), elapsed=torch.tensor([0.1, elapsed]))
