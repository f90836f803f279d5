"""The program of a CTGRU: its settings, the shapes of its tensors, its C++ struct, and the weights' gradients."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from ncp_control.ops.kinds import ProgramKind, Shapes, dense_struct
from ncp_control.ops.program import Program


class CTGRUSettings(NamedTuple):
    """Settings of the kind "ctgru".

    :param synapses: number of connections among units
    :param sensory: number of connections from inputs
    :param scales: number of time scales
    """

    synapses: int
    sensory: int
    scales: int


def shapes(settings: CTGRUSettings, features: int, size: int) -> Shapes:
    """Returns what the tensors of a program must be like."""
    units = size // settings.scales
    layers = {"retrieve": size, "detect": units, "store": size}
    parameters: dict[str, tuple[int, ...]] = {}
    for layer, rows in layers.items():
        parameters |= {f"{layer}.weight": (rows, features + units), f"{layer}.bias": (rows,)}
    return Shapes({}, parameters, {})


class MemoryMaps:
    """The maps of every unit, whose gradients the kernel writes: (B, T, 2 U M + 2 U)."""

    def shape(self, program: Program, inputs: Tensor, state: Tensor) -> tuple[int, ...]:
        """Returns the shape of what the kernel writes."""
        assert isinstance(program.settings, CTGRUSettings)
        memories = state.shape[1]
        return (inputs.shape[0], inputs.shape[1], 2 * (memories + memories // program.settings.scales))

    def gradients(
        self, inputs: Tensor, state: Tensor, reset: Tensor | None, states: Tensor, grad_maps: Tensor
    ) -> list[Tensor | None]:
        """Computes the gradients of the weights (U M, I + U), (U, I + U), (U M, I + U) and biases of the three layers.

        The kernel wrote the gradients d_R, d_S (U M) and d_Q (U) of the maps, and e (U) next to them. Then they are::

            [d_R, d_S] [x, h]^T    and    d_Q [x, e]^T,    summed over rows and time
        """
        memories, features = state.shape[1], inputs.shape[2]
        units = grad_maps.shape[-1] // 2 - memories
        scales = memories // units
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
        # The state's columns are done with, and take e in the place of h.
        last.copy_(grad_maps[..., -units:])
        detect = grads[:, 2 * memories : -units].t() @ rows
        bias_retrieve, bias_store, bias_detect, _ = biases.split([memories, memories, units, units])
        return [retrieve, bias_retrieve, detect, bias_detect, store, bias_store]


STRUCT = dense_struct(CTGRUSettings, "retrieve retrieve_bias detect detect_bias store store_bias")
KINDS = {"ctgru": ProgramKind(CTGRUSettings, shapes, STRUCT, MemoryMaps())}
