"""The replicas that `torch.nn.DataParallel` makes of a network compute what the network does."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor
from torch.nn.parallel import DataParallel, replicate

import ncp_control as nc
from helpers.cells import build

CELLS = ["ltc-gaps-quick", "neural-ltc-quick", "neural-ode-sparse", "cfc-pure", "cfc-backbone"]
CELLS += ["ct-gru-one", "lstm-one", "gru-solitary", "lagged-mlp", "mixed-ltc"]


def copies(tensors: Sequence[Tensor], devices: Sequence[object], detach: bool = False) -> list[list[Tensor]]:
    """What torch's broadcast to GPUs returns, on the CPU."""
    return [[tensor.detach().clone() if detach else tensor.clone() for tensor in tensors] for _ in devices]


@pytest.mark.parametrize("name", CELLS)
def test_replicas_on_the_cpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("torch.nn.parallel.replicate")
    monkeypatch.setattr(module, "_broadcast_coalesced_reshape", copies)
    monkeypatch.setattr(module, "_get_device_index", lambda device, optional: device)
    torch.manual_seed(0)
    rnn = nc.RNN(build(name, torch.float64, 0.05), check_finite=True)
    inputs = torch.randn(4, 3, rnn.cell.inputs, dtype=torch.float64)
    wanted = rnn(inputs)[0]
    gradients = torch.autograd.grad(wanted.square().sum(), list(rnn.parameters()), allow_unused=True)
    replicas = replicate(rnn, ["cpu", "cpu"])
    found = torch.cat([replica(part)[0] for replica, part in zip(replicas, inputs.split(2), strict=True)])
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(replicas[0].initial_state(2), rnn.initial_state(2))
    again = torch.autograd.grad(found.square().sum(), list(rnn.parameters()), allow_unused=True)
    for one, other in zip(again, gradients, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.gpu
@pytest.mark.parametrize("name", CELLS)
def test_replicas_on_gpus(name: str) -> None:
    rnn = nc.RNN(build(name, torch.float64, 0.05)).cuda()
    inputs = torch.randn(4, 3, rnn.cell.inputs, dtype=torch.float64, device="cuda")
    devices = list(range(torch.cuda.device_count()))
    torch.testing.assert_close(DataParallel(rnn, devices)(inputs)[0], rnn(inputs)[0])
