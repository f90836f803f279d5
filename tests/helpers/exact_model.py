"""A model of the dynamics that is exact for the oscillators."""

import torch

from helpers.oscillators import MATRIX, oscillators
from ncp_control.data import Scaler
from ncp_control.dynamics.simulator import Simulator


class Exact(Simulator):
    """Predicts the oscillators exactly."""

    features, action_size, timed = 2, 0, False
    observation_names = ("x", "y")

    def __init__(self) -> None:
        super().__init__()
        train = Scaler.fit(oscillators())
        self.weight = torch.nn.Parameter(torch.tensor(MATRIX, dtype=torch.float64))
        self.register_buffer("mean", torch.tensor(train.mean))
        self.register_buffer("std", torch.tensor(train.std))

    def forward(self, observations, actions=None, state=None, ahead=None):  # type: ignore[no-untyped-def]
        return (observations.double() - 3) @ self.weight.T + 3, observations[:, -1]
