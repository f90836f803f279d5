"""An MLP on the last few inputs, called as an RNN is: what a memory that is not learnt can do."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class LaggedMLP(nn.Module):
    """y_t = tanh(W [x_(t-K+1), ..., x_t] + b); the state is the last K - 1 inputs, zeros at a beginning.

    :param inputs: features I
    :param units: hidden units, which are its outputs
    :param lags: inputs that it sees at once, K
    """

    uses_elapsed = False

    def __init__(self, inputs: int, units: int, lags: int = 5) -> None:
        super().__init__()
        if not isinstance(units, int) or units < 1 or lags < 1:
            raise ValueError(f"an MLP on lags needs numbers of units and lags, got {units!r} and {lags!r}")
        self.inputs, self.outputs, self.lags = inputs, units, lags
        self.state_size = (lags - 1) * inputs
        self.hidden = nn.Linear(lags * inputs, units)

    def forward(
        self, inputs: Tensor, state: Tensor | None = None, elapsed: Any = 1.0, states: bool = False
    ) -> tuple[Tensor, ...]:
        """Outputs (B, T, U) and the last state (B, (K - 1) I), and with `states` all of them, (B, T, (K - 1) I)."""
        batch, steps, features = inputs.shape
        before = inputs.new_zeros(batch, self.state_size) if state is None else state
        seen = torch.cat([before.view(batch, self.lags - 1, features), inputs], dim=1)
        outputs = torch.tanh(self.hidden(stretches(seen, self.lags, steps)))
        last = seen[:, steps:].flatten(1)
        if not states:
            return outputs, last
        return outputs, last, stretches(seen[:, 1:], self.lags - 1, steps)

    def config(self) -> dict[str, Any]:
        """Settings as JSON values."""
        return {"lags": self.lags}


def stretches(values: Tensor, length: int, count: int) -> Tensor:
    """Each step t's values t .. t + length - 1 side by side, (B, count, length F)."""
    return torch.cat([values[:, k : k + count] for k in range(length)], dim=-1) if length else values[:, :count, :0]
