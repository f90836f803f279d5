"""The programs of LSTM and GRU: settings, shapes, C++ struct, and the weights' gradients.

The gradients of the weights are one matrix product over all rows and steps, of what the kernel wrote.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from ncp_control.ops.kinds import ProgramKind, Shapes, dense_struct
from ncp_control.ops.program import Program


class GatedSettings(NamedTuple):
    """Settings of the kinds "lstm" and "gru".

    :param synapses: number of connections among units
    :param sensory: number of connections from inputs
    """

    synapses: int
    sensory: int


def lstm_shapes(settings: GatedSettings, features: int, size: int) -> Shapes:
    """Returns what the tensors of an LSTM's program must be like."""
    return _shapes(4 * (size // 2), features, size // 2)


def gru_shapes(settings: GatedSettings, features: int, size: int) -> Shapes:
    """Returns what the tensors of a GRU's program must be like."""
    return _shapes(3 * size, features, size)


def _shapes(rows: int, features: int, units: int) -> Shapes:
    weights = {"weight_ih": (rows, features), "weight_hh": (rows, units)}
    return Shapes({}, weights | {"bias_ih": (rows,), "bias_hh": (rows,)}, {})


class GateMaps(NamedTuple):
    """The four maps of every unit, whose gradients the kernel writes: (B, T, U, 4).

    :param from_inputs: which of them the rows of weight_ih feed, in their order (see kernel.h)
    :param from_hidden: the same for weight_hh
    """

    from_inputs: list[int]
    from_hidden: list[int]

    def shape(self, program: Program, inputs: Tensor, state: Tensor) -> tuple[int, ...]:
        """Returns the shape of what the kernel writes."""
        weight_hh = program.parameters[1]
        assert weight_hh is not None
        return (inputs.shape[0], inputs.shape[1], weight_hh.shape[1], 4)

    def gradients(
        self, inputs: Tensor, state: Tensor, reset: Tensor | None, states: Tensor, grad_maps: Tensor
    ) -> list[Tensor | None]:
        """Computes the gradients of weight_ih (G U, I), weight_hh (G U, U), bias_ih and bias_hh (G U,).

        With the hidden state h before every step and the gradients d of the maps, they are rows and columns of::

            sum over rows and time of [x, h, 1] d^T
        """
        units, features = grad_maps.shape[2], inputs.shape[2]
        # The last column of ones makes the gradients of the biases.
        sources = inputs.new_ones(*inputs.shape[:2], features + units + 1)
        sources[..., :features] = inputs
        hidden = sources[..., features:-1]
        hidden[:, :1] = state[:, None, :units]
        hidden[:, 1:] = states[:, :-1, :units]
        if reset is not None:
            hidden.masked_fill_(reset[..., None], 0.0)
        product = sources.flatten(0, 1).t() @ grad_maps.flatten(0, 1).flatten(1)
        from_inputs, from_hidden = (product.view(-1, units, 4).permute(2, 1, 0)[maps] for maps in self)
        return [
            from_inputs[..., :features].flatten(0, 1),
            from_hidden[..., features:-1].flatten(0, 1),
            from_inputs[..., -1].flatten(),
            from_hidden[..., -1].flatten(),
        ]


STRUCT = dense_struct(GatedSettings, "weight_ih weight_hh bias_ih bias_hh")
ALONE = 1_000_000  # a gated unit's synapses are four products
KINDS = {
    "lstm": ProgramKind(GatedSettings, lstm_shapes, STRUCT, GateMaps([0, 1, 2, 3], [0, 1, 2, 3]), ALONE),
    "gru": ProgramKind(GatedSettings, gru_shapes, STRUCT, GateMaps([0, 1, 2], [0, 1, 3]), ALONE),
}
