"""Scans on a GPU in CUDA graphs, in streams of their own, and on a card that is not the current one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import ncp_control as nc
from helpers.cells import build

pytestmark = pytest.mark.gpu

KINDS = ["ltc-gaps-quick", "neural-ltc-quick", "cfc-default"]


def both(rnn: nc.RNN, inputs: Tensor) -> list[Tensor]:
    """The outputs, and the gradients of inputs and parameters."""
    leaf = inputs.detach().requires_grad_()
    outputs = rnn(leaf, elapsed=0.7)[0]
    return [outputs, *torch.autograd.grad(outputs.square().sum(), [leaf, *rnn.parameters()])]


@pytest.mark.parametrize("name", KINDS)
def test_a_captured_scan_reads_new_inputs_and_its_number_for_elapsed(name: str) -> None:
    rnn, inputs = nc.RNN(build(name)).cuda(), torch.randn(5, 7, 3, device="cuda")
    with torch.no_grad():
        rnn(inputs)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = rnn(inputs, elapsed=0.4321)[0]
        inputs.normal_()
        graph.replay()
        torch.testing.assert_close(captured, rnn(inputs, elapsed=0.4321)[0])


@pytest.mark.parametrize("name", KINDS)
def test_a_stream_of_its_own(name: str) -> None:
    rnn, inputs, stream = nc.RNN(build(name)).cuda(), torch.randn(64, 128, 3, device="cuda"), torch.cuda.Stream()
    want = both(rnn, inputs)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        found = both(rnn, inputs)
    torch.cuda.current_stream().wait_stream(stream)
    torch.testing.assert_close(found, want)


@pytest.mark.parametrize("name", KINDS)
def test_the_last_card(name: str) -> None:
    """Which is not the current one, where there are several."""
    device = f"cuda:{torch.cuda.device_count() - 1}"
    rnn, inputs = nc.RNN(build(name)), torch.randn(5, 7, 3)
    want = both(rnn, inputs)
    found = both(rnn.to(device), inputs.to(device))
    torch.testing.assert_close([each.cpu() for each in found], want, rtol=1e-4, atol=1e-5)
