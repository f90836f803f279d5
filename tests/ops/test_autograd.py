"""The autograd function of the compiled scan, on the CPU; tests/ops/gpu has the same for the GPU."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import ncp_control as nc
from helpers.cells import build
from ncp_control.ops import autograd
from ncp_control.ops.cpu.backend import available

pytestmark = pytest.mark.skipif(not available()[0], reason=available()[1])


def test_a_backward_pass_after_inference_mode():
    cell, inputs = build("ltc-wide"), torch.randn(2, 3, 5)
    with torch.inference_mode():
        nc.scan(cell, inputs, elapsed=0.123, backend="cpu")
    nc.scan(cell, inputs, elapsed=0.123, backend="cpu").sum().backward()
    assert cell.mu.grad.abs().sum() > 0


def test_a_cuda_graph_shares_no_number_with_what_is_kept(monkeypatch):
    """The tensors only pretend to be on a GPU, so that this runs where there is none."""
    place = (0.123, torch.float32, torch.device("cuda", 0))
    with FakeTensorMode():
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
        captured = autograd.scalar(*place)
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
        outside = autograd.scalar(*place)
        assert outside is not captured
        assert autograd.scalar(*place) is outside
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
        assert autograd.scalar(*place) is not outside
    del autograd._SCALARS[place]


@pytest.mark.parametrize("power", [1, 2])
def test_a_second_derivative_is_refused_and_never_left_out(power):
    """Where the loss is linear in the states, their gradient is constant; that of the parameters is not."""
    cell = build("ltc-wide")
    inputs = torch.randn(2, 3, 5, requires_grad=True)
    loss = nc.scan(cell, inputs, backend="cpu").pow(power).sum()
    (grad,) = torch.autograd.grad(loss, inputs, create_graph=True)
    assert torch.equal(grad, torch.autograd.grad(nc.scan(cell, inputs).pow(power).sum(), inputs)[0])
    with pytest.raises(RuntimeError, match='compiled scans have no second derivative; run the scan with backend="ref'):
        (grad.square().sum() + loss).backward()


def test_a_backward_pass_that_kernels_cannot_follow_is_refused():
    inputs = torch.randn(2, 3, 5, requires_grad=True)
    states = nc.scan(build("ltc-wide"), inputs, backend="cpu")
    with pytest.raises(RuntimeError, match="the backward pass of a compiled scan cannot run here: "):
        torch.autograd.grad(states, inputs, torch.ones(4, *states.shape), is_grads_batched=True, retain_graph=True)
    want = torch.autograd.grad(states, inputs, -torch.ones_like(states), retain_graph=True)[0]
    flipped = torch._neg_view(torch.ones_like(states))
    assert torch.equal(torch.autograd.grad(states, inputs, flipped, retain_graph=True)[0], want)
    with FakeTensorMode(allow_non_fake_inputs=True), pytest.raises(RuntimeError, match="cannot run here: a mode such"):
        torch.autograd.grad(states, inputs, torch.ones_like(states))


def test_modules_are_copied_and_saved_whole():
    rnn = nc.RNN(build("ltc-wide"))
    inputs = torch.randn(2, 3, 5)
    buffer = io.BytesIO()
    torch.save(rnn, buffer)
    buffer.seek(0)
    again = torch.load(buffer, weights_only=False)
    assert torch.equal(again(inputs)[0], rnn(inputs)[0])
    assert torch.equal(copy.deepcopy(rnn)(inputs)[0], rnn(inputs)[0])


@pytest.mark.parametrize("time", [1, 20, 40])
@pytest.mark.parametrize("name", ["ltc-wide", "cfc-default", "lstm", "ct-gru"])
def test_gradients_of_many_rows_add_up_whatever_the_length(name, time):
    """Short sequences of several blocks of rows share the sums of their lanes, long ones do not."""
    cell = build(name)
    inputs = torch.randn(300, time, cell.inputs)
    grads = {}
    for backend in ("cpu", "reference"):
        loss = nc.scan(cell, inputs, elapsed=0.3, backend=backend).square().mean()
        grads[backend] = torch.autograd.grad(loss, list(cell.parameters()), materialize_grads=True)
    for (key, _), own, reference in zip(cell.named_parameters(), grads["cpu"], grads["reference"], strict=True):
        torch.testing.assert_close(own, reference, rtol=1e-4, atol=1e-6, msg=key)
