"""A cell's outputs as a part of its state, which compiled backends compute together with the states."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class MotorMap(NamedTuple):
    """The outputs `scale * states[..., start : start + size] + shift`.

    :param start: the first number of the state that is an output
    :param size: number of outputs O
    :param scale: (O,), or None
    :param shift: (O,), or None; None if there is no scale
    """

    start: int
    size: int
    scale: Tensor | None = None
    shift: Tensor | None = None

    def of(self, states: Tensor) -> Tensor:
        """Returns the outputs (..., O) of states (..., N)."""
        values = states.narrow(-1, self.start, self.size)
        if self.scale is None:
            return values
        return values * self.scale if self.shift is None else torch.addcmul(self.shift, values, self.scale)

    def back(
        self, states: Tensor, grad_states: Tensor | None, grad_outputs: Tensor
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Follows the outputs back to the states.

        :return: the gradient of the states, to which `grad_states` adds, and those of scale and shift
        """
        total = torch.zeros_like(states) if grad_states is None else grad_states.clone()
        place = total.narrow(-1, self.start, self.size)  # a view: what is added to it is added to the total
        if self.scale is None:
            place.add_(grad_outputs)
            return total, None, None
        place.addcmul_(grad_outputs, self.scale)
        values = states.narrow(-1, self.start, self.size)
        grad_shift = None if self.shift is None else grad_outputs.sum((0, 1))
        return total, (grad_outputs * values).sum((0, 1)), grad_shift
