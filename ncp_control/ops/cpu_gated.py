"""Weights' gradients of the gated cells: the kernel leaves them to one matrix product over all rows and steps."""

from __future__ import annotations

from torch import Tensor

from ncp_control.ops.programs import Program

# Maps of the four a unit that weight_ih and weight_hh feed, in the weights' order (see kernels/gated.h).
MAPS = {"lstm": ([0, 1, 2, 3], [0, 1, 2, 3]), "gru": ([0, 1, 2], [0, 1, 3])}


def shape_of_maps(program: Program, inputs: Tensor) -> tuple[int, int, int, int]:
    """(B, T, U, 4)."""
    weight_hh = program.parameters[1]
    assert weight_hh is not None
    return inputs.shape[0], inputs.shape[1], weight_hh.shape[1], 4


def parameter_gradients(
    program: Program, inputs: Tensor, state: Tensor, reset: Tensor | None, states: Tensor, grad_maps: Tensor
) -> list[Tensor | None]:
    """Gradients of weight_ih (G U, I), weight_hh (G U, U), bias_ih and bias_hh (G U,).

    With the hidden state h before every step and d the gradients of the maps, they are rows and columns of::

        sum over rows and time of [x, h, 1] d^T

    :param inputs: x, (B, T, I)
    :param state: state before the first step, (B, N)
    :param states: states after every step, (B, T, N)
    :param grad_maps: d, (B, T, U, 4)
    """
    units, features = grad_maps.shape[2], inputs.shape[2]
    sources = inputs.new_ones(*inputs.shape[:2], features + units + 1)
    sources[..., :features] = inputs
    hidden = sources[..., features:-1]
    hidden[:, :1] = state[:, None, :units]
    hidden[:, 1:] = states[:, :-1, :units]
    if reset is not None:
        hidden.masked_fill_(reset[..., None], 0.0)
    product = sources.flatten(0, 1).t() @ grad_maps.flatten(0, 1).flatten(1)
    from_inputs, from_hidden = (product.view(-1, units, 4).permute(2, 1, 0)[maps] for maps in MAPS[program.kind])
    return [
        from_inputs[..., :features].flatten(0, 1),
        from_hidden[..., features:-1].flatten(0, 1),
        from_inputs[..., -1].flatten(),
        from_hidden[..., -1].flatten(),
    ]
