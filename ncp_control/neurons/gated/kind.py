"""The weights' gradients of the gated cells: one matrix product over all rows and steps, of what the kernel wrote."""

from __future__ import annotations

from torch import Tensor

from ncp_control.ops.program import CTGRUSettings, Program

KINDS = ("lstm", "gru", "ctgru")
# Which of a unit's four maps weight_ih and weight_hh feed, in the order of their rows (see kernels/gated.h).
MAPS = {"lstm": ([0, 1, 2, 3], [0, 1, 2, 3]), "gru": ([0, 1, 2], [0, 1, 3])}


def shape_of_maps(program: Program, inputs: Tensor, state: Tensor) -> tuple[int, ...]:
    """The shape of the gradients that the kernel writes: (B, T, U, 4), or (B, T, 2 U M + 2 U) for a CT-GRU."""
    if isinstance(program.settings, CTGRUSettings):
        memories = state.shape[1]
        return (inputs.shape[0], inputs.shape[1], 2 * (memories + memories // program.settings.scales))
    weight_hh = program.parameters[1]
    assert weight_hh is not None
    return (inputs.shape[0], inputs.shape[1], weight_hh.shape[1], 4)


def parameter_gradients(
    program: Program, inputs: Tensor, state: Tensor, reset: Tensor | None, states: Tensor, grad_maps: Tensor
) -> list[Tensor | None]:
    """Computes the gradients of all parameters, in the program's order.

    :param inputs: (B, T, I)
    :param state: state before the first step, (B, N)
    :param states: states after every step, (B, T, N)
    :param grad_maps: what the kernel wrote, in the shape of `shape_of_maps`
    """
    if isinstance(program.settings, CTGRUSettings):
        return _ctgru_gradients(program.settings.scales, inputs, state, reset, states, grad_maps)
    return _gate_gradients(program.kind, inputs, state, reset, states, grad_maps)


def _gate_gradients(
    kind: str, inputs: Tensor, state: Tensor, reset: Tensor | None, states: Tensor, grad_maps: Tensor
) -> list[Tensor | None]:
    """Gradients of weight_ih (G U, I), weight_hh (G U, U), bias_ih and bias_hh (G U,).

    With the hidden state h before every step and the gradients d of the maps, they are rows and columns of::

        sum over rows and time of [x, h, 1] d^T
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
    from_inputs, from_hidden = (product.view(-1, units, 4).permute(2, 1, 0)[maps] for maps in MAPS[kind])
    return [
        from_inputs[..., :features].flatten(0, 1),
        from_hidden[..., features:-1].flatten(0, 1),
        from_inputs[..., -1].flatten(),
        from_hidden[..., -1].flatten(),
    ]


def _ctgru_gradients(
    scales: int, inputs: Tensor, state: Tensor, reset: Tensor | None, states: Tensor, grad_maps: Tensor
) -> list[Tensor | None]:
    """Gradients of the weights (U M, I + U), (U, I + U), (U M, I + U) and of the biases of retrieve, detect and store.

    The kernel wrote the gradients d_R, d_S (U M) and d_Q (U) of the maps, and e (U) next to them. Then they are::

        [d_R, d_S] [x, h]^T    and    d_Q [x, e]^T,    summed over rows and time
    """
    memories, features = state.shape[1], inputs.shape[2]
    units = memories // scales
    sources = inputs.new_empty(*inputs.shape[:2], features + units)
    sources[..., :features] = inputs
    last = sources[..., features:]
    last[:, :1] = state.unflatten(-1, (units, scales)).sum(-1)[:, None]
    last[:, 1:] = states[:, :-1].unflatten(-1, (units, scales)).sum(-1)
    if reset is not None:
        last.masked_fill_(reset[..., None], 0.0)
    grads, rows = grad_maps.flatten(0, 1), sources.flatten(0, 1)
    biases = grads.sum(0)
    retrieve, store = (grads[:, : 2 * memories].t() @ rows).split(memories)
    last.copy_(grad_maps[..., -units:])
    detect = grads[:, 2 * memories : -units].t() @ rows
    bias_retrieve, bias_store, bias_detect, _ = biases.split([memories, memories, units, units])
    return [retrieve, bias_retrieve, detect, bias_detect, store, bias_store]
