"""Small models of the oscillators' dynamics."""

import torch

from helpers.oscillators import oscillators
from ncp_control.data import Rollouts
from ncp_control.dynamics import DynamicsModel

CELLS = ("ltc", "neuralltc", "cfc", "ctrnn", "neuralode", "ctgru", "lstm", "gru", "mlp")


def make_model(
    cell: str = "gru", units: int = 5, rollouts: Rollouts | None = None, **arguments: object
) -> DynamicsModel:
    torch.manual_seed(0)
    model = DynamicsModel.of(rollouts or oscillators(), cell, units, **arguments)  # type: ignore[arg-type]
    with torch.no_grad():  # a residual model starts from zeros, which would hide half of the equation
        model.readout.weight.normal_()
        model.readout.bias.normal_()
    return model
