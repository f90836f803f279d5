"""The autograd function of the compiled scan, on the CPU; tests/ops/gpu has the same for the GPU."""

from __future__ import annotations

import copy
import io

import pytest
import torch

import ncp_control as nc
from helpers.cells import build
from ncp_control.ops.cpu.backend import available

pytestmark = pytest.mark.skipif(not available()[0], reason=available()[1])


def test_a_backward_pass_after_inference_mode():
    cell, inputs = build("ltc-wide"), torch.randn(2, 3, 5)
    with torch.inference_mode():
        nc.scan(cell, inputs, elapsed=0.123, backend="cpu")
    nc.scan(cell, inputs, elapsed=0.123, backend="cpu").sum().backward()
    assert cell.mu.grad.abs().sum() > 0


def test_double_backward_is_refused():
    cell = build("ltc-wide")
    inputs = torch.randn(2, 3, 5, requires_grad=True)
    (grad,) = torch.autograd.grad(nc.scan(cell, inputs, backend="cpu").square().sum(), inputs, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


def test_modules_are_copied_and_saved_whole():
    rnn = nc.RNN(build("ltc-wide"))
    inputs = torch.randn(2, 3, 5)
    buffer = io.BytesIO()
    torch.save(rnn, buffer)
    buffer.seek(0)
    again = torch.load(buffer, weights_only=False)
    assert torch.equal(again(inputs)[0], rnn(inputs)[0])
    assert torch.equal(copy.deepcopy(rnn)(inputs)[0], rnn(inputs)[0])
