"""The last part of an LTC's initialisation "settled": thresholds, slopes and outputs fit the values that arise."""

from __future__ import annotations

from typing import Any

import torch

from ncp_control.solvers import integrate

SAMPLES, ROUNDS, UNFOLDS = 128, 8, 30
NARROWEST = 0.01  # the smallest spread that is divided by: a neuron that hardly moves says nothing
OUTPUT_SPREAD = 2.0


@torch.no_grad()
def settle(cell: Any) -> None:
    """Moves each threshold to where its source is, and scales outputs.

    The neurons get standardised random inputs, which stay constant, for a few steps of length one. Let m and s be the
    mean and the standard deviation of a neuron's state. Synapses from it then have `mu <- m + s mu` and
    `sigma <- sigma / s`, so that what was drawn is in units of the neuron's own spread. This changes the neurons behind
    it, so it is repeated. In the end the outputs, if there is a map for them, have mean 0 and standard deviation 2.

    Without it the states of a wiring's later layers vary by a few hundredths about a mean far from zero, so that a
    layer behind the motor neurons learns slowly.

    :param cell: an LTC whose parameters are drawn
    """
    drawn_mu, drawn_sigma = cell.mu.clone(), cell.sigma.clone()
    state = cell.vleak.new_zeros(SAMPLES, cell.units)
    constants = cell.constants()
    sensed = cell.sense(constants, torch.randn(SAMPLES, cell.inputs, dtype=state.dtype, device=state.device))
    for _ in range(ROUNDS):
        state = integrate("fused", lambda x: cell.rate_and_drive(constants, sensed, x), state, UNFOLDS / 6, UNFOLDS)
        mean, spread = state.mean(0), state.std(0).clamp(min=NARROWEST)
        cell.mu.copy_(mean[cell.source] + spread[cell.source] * drawn_mu)
        cell.sigma.copy_(drawn_sigma / spread[cell.source])
    if cell.output_scale is None:
        return
    motor = integrate("fused", lambda x: cell.rate_and_drive(constants, sensed, x), state, UNFOLDS / 6, UNFOLDS)
    motor = motor[:, cell.units - cell.outputs :]
    cell.output_scale.copy_(OUTPUT_SPREAD / motor.std(0).clamp(min=NARROWEST))
    if cell.output_shift is not None:
        cell.output_shift.copy_(-cell.output_scale * motor.mean(0))
