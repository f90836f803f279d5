"""The time constant that a neuron moves by, found from one step, for neurons that are slow or seen for a short time."""

from __future__ import annotations

import math

import pytest
import torch

import ncp_control as nc
from helpers.cells import SOLITARY

# (tau, elapsed): so little passes that `1 - exp(-elapsed / tau)`, subtracted in float32, has few digits or none
SLOW = pytest.mark.parametrize(("tau", "elapsed"), [(20.0, 1e-5), (20.0, 1e-6), (1e7, 1.0), (1e8, 1.0)])
DRIVE = 1.0  # the neuron moves towards tanh(DRIVE)


def slow_neuron(tau: float) -> nc.DualLTC:
    """A neuron by itself, as slow as it can be."""
    cell = nc.DualLTC(1, SOLITARY, time_constants=(0.05, tau), brake=False)
    with torch.no_grad():
        cell.bias.copy_(torch.tensor([[DRIVE], [-40.0]]))
    return cell


def implied(moved: float, elapsed: float) -> float:
    """The time constant by which a state comes from 0 to `moved` in a time."""
    return -elapsed / math.log1p(-moved / math.tanh(DRIVE))


def time_constants_of_a_step(tau: float, elapsed: float, backend: str, device: str = "cpu") -> tuple[float, float]:
    """The time constants that the first step implies, by the state and by the gradient of what it moves towards."""
    cell = slow_neuron(tau).to(device)
    state = nc.scan(cell, torch.zeros(1, 1, 1, device=device), elapsed=elapsed, backend=backend)
    (slope,) = torch.autograd.grad(state.sum(), [cell.bias])
    by_slope = slope[0].item() * math.tanh(DRIVE) / (1 - math.tanh(DRIVE) ** 2)
    return implied(state.item(), elapsed), implied(by_slope, elapsed)
