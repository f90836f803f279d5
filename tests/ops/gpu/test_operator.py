"""The torch operator of the compiled scan, with the Triton kernels."""

from __future__ import annotations

import pytest
import torch

import ncp_control as nc
from helpers.cells import build
from helpers.scans import operator_arguments, sequences
from ncp_control.ops import operator
from ncp_control.ops.cpu import backend as cpu
from ncp_control.ops.gpu import launch

pytest.importorskip("triton")

KINDS = ["ltc-gaps-quick", "neural-ltc-quick", "cfc-default"]


@pytest.mark.parametrize("name", KINDS)
def test_the_operators_kernels_are_the_scan(name, interpreted, monkeypatch):
    cell = build(name)
    program = cell.program()
    tensors, weights = sequences(cell, 2, 2, torch.float32), torch.randn(2, 2, cell.state_size)
    want = nc.scan(cell, *tensors, backend="gpu")
    want_grads = torch.autograd.grad((want * weights).sum(), tensors[:3])
    lists = operator_arguments(program)
    given = [tensor.detach() for tensor in tensors]
    monkeypatch.setitem(operator.KERNELS, "cpu", launch)  # for CPU tensors in the interpreter
    states = operator.scan(*lists, *given)
    assert torch.equal(states, want)
    grads = operator.scan_backward(*lists, *given, states, weights)
    assert len(grads) == 3 + len(lists[-1])
    for grad, expected in zip(grads, want_grads, strict=False):
        assert torch.equal(grad, expected)


@pytest.mark.system
@pytest.mark.skipif(not cpu.available()[0], reason=cpu.available()[1])
def test_compilers_see_one_operator(interpreted):
    """Traced for the GPU; what then runs here, on CPU tensors, are the operator's kernels for the CPU."""
    rnn = nc.RNN(build("ltc-gaps-quick"), backend="gpu")
    inputs, reset = torch.randn(2, 3, 3), torch.rand(2, 3) < 0.3
    compiled = torch.compile(rnn, backend="aot_eager", fullgraph=True)
    assert torch.allclose(compiled(inputs, reset=reset)[0], rnn(inputs, reset=reset)[0], atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("name", KINDS)
def test_compilers_on_a_gpu(name):
    rnn = nc.RNN(build(name)).cuda()
    inputs = torch.randn(3, 7, 3, device="cuda", requires_grad=True)
    want = rnn(inputs)[0]
    (grad,) = torch.autograd.grad(want.square().sum(), inputs)
    got = torch.compile(rnn, backend="aot_eager", fullgraph=True)(inputs)[0]
    assert torch.equal(got, want)
    assert torch.equal(torch.autograd.grad(got.square().sum(), inputs)[0], grad)


@pytest.mark.gpu
@pytest.mark.parametrize("name", KINDS)
def test_compilers_and_strided_inputs_on_a_gpu(name):
    rnn = nc.RNN(build(name)).cuda()
    compiled = torch.compile(rnn, fullgraph=True)
    for inputs in (torch.randn(7, 4, 3).cuda().transpose(0, 1), torch.randn(4, 9, 3).cuda()[:, :-2]):
        leaf = inputs.requires_grad_()
        want, found = (torch.autograd.grad(run(leaf)[0].square().sum(), leaf)[0] for run in (rnn, compiled))
        torch.testing.assert_close(found, want)
