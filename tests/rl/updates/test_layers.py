"""Layers with gradients by hand are held to autograd's."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import nn

from ncp_control.rl.updates.layers import Layers, layers_in


@pytest.mark.parametrize("relu_at_end", [False, True])
@pytest.mark.parametrize("sizes", [(3, 2), (5, 7, 1), (4, 6, 8, 3)])
def test_results_and_gradients_are_those_of_autograd(sizes: tuple[int, ...], relu_at_end: bool) -> None:
    torch.manual_seed(0)
    linear = [nn.Linear(*pair).double() for pair in pairwise(sizes)]
    parts = [part for layer in linear for part in (layer, nn.ReLU())]
    network = nn.Sequential(*(parts if relu_at_end else parts[:-1]))
    ours = Layers(linear, batch=9, relu_at_end=relu_at_end)
    for _ in range(2):  # the second time, nothing may be left of the first
        x = torch.randn(9, sizes[0], dtype=torch.float64, requires_grad=True)
        weights = torch.randn(9, sizes[-1], dtype=torch.float64)
        wanted = torch.autograd.grad((network(x) * weights).sum(), [x, *network.parameters()])
        with torch.no_grad():
            assert torch.allclose(ours.forward(x.detach()), network(x), rtol=1e-12)
            by_inputs = ours.backward(weights.clone())
        found = [by_inputs, *(parameter.grad for parameter in network.parameters())]
        for one, other in zip(found, wanted, strict=True):
            assert one is not None
            assert torch.allclose(one, other, rtol=1e-12)


def test_gradients_of_weights_are_left_alone_where_only_those_of_inputs_are_wanted() -> None:
    layer = nn.Linear(2, 3)
    ours = Layers([layer], batch=4)
    with torch.no_grad():
        ours.forward(torch.ones(4, 2))
        ours.backward(torch.ones(4, 3), to_weights=False)
    assert layer.weight.grad is None


def test_no_layers_hand_everything_through() -> None:
    ours, x = Layers([], batch=2, relu_at_end=True), torch.randn(2, 3)
    assert ours.forward(x) is x
    assert ours.backward(x) is x


@pytest.mark.parametrize(
    "network",
    [
        nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)),
        nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.ReLU()),
        nn.Sequential(nn.Linear(2, 3, bias=False)),
        nn.Sequential(nn.Linear(2, 3).double()),
        nn.Conv1d(1, 1, 1),
    ],
)
def test_other_networks_are_not_taken_for_layers(network: nn.Module) -> None:
    assert layers_in(network) is None
