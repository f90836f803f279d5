"""The CT-GRU: its equations by hand, and how its memories decay."""

import math

import torch
from torch import Tensor, nn

from helpers.cell_values import drawn, exact
from ncp_control.neurons import CTGRU


def test_ct_gru_by_hand() -> None:
    cell = CTGRU(2, 3, scales=4).double()
    inputs, state = drawn(cell)
    tau = exact([1, 10**0.5, 10, 10**1.5])
    memory = state.reshape(3, 3, 4)
    x = torch.cat([inputs, memory.sum(-1)], dim=1)

    def weights(layer: nn.Linear) -> Tensor:
        return torch.softmax(-((layer(x).reshape(3, 3, 4) - tau.log()) ** 2), dim=-1)

    r, s = weights(cell.retrieve), weights(cell.store)
    q = torch.tanh(cell.detect(torch.cat([inputs, (r * memory).sum(-1)], dim=1)))
    expected = ((1 - s) * memory + s * q[..., None]) * torch.exp(-0.7 / tau)
    found = cell.step(inputs, state, 0.7)
    torch.testing.assert_close(found, expected.reshape(3, 12), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(cell.motor(found), expected.sum(-1), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(cell.time_constants(inputs, state), (s * tau).sum(-1), rtol=1e-10, atol=1e-10)


def test_ct_gru_memory_decays_with_the_time_constants_of_its_scales() -> None:
    cell = CTGRU(2, 3).double()
    inputs, state = drawn(cell)
    written = cell.step(inputs, state, 0.0).reshape(3, 3, 8)
    for elapsed in (0.1, 2.0, 50.0):
        kept = cell.step(inputs, state, elapsed).reshape(3, 3, 8) / written
        expected = [math.exp(-elapsed / 10 ** (k / 2)) for k in range(8)]
        torch.testing.assert_close(kept, exact(expected).expand(3, 3, 8), rtol=1e-12, atol=1e-15)
