"""How a cell describes itself to compiled backends: its index arrays and parameters, in the order a kernel reads."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from torch import Tensor, nn

from ncp_control.neurons.base import Cell
from ncp_control.neurons.parameters import value_of
from ncp_control.ops.program import Program, Settings


class ProgramForm:
    """Reads a cell's program from its buffers and parameters, by their names.

    :param kind: the kernel's name
    :param indexes: names of the index buffers, in the kernel's order
    :param parameters: names of the parameters, in the kernel's order. A parameter that a cell does without is
        registered as None; one of a submodule is named as in the state dict, such as "detect.weight"; one that is
        pruned or parametrised is read as the attribute that torch makes of it
    """

    def __init__(self, kind: str, indexes: tuple[str, ...], parameters: tuple[str, ...]) -> None:
        self.kind = kind
        self.indexes = indexes
        self.parameters = parameters

    def read(self, cell: Cell, settings: Settings) -> Program:
        """Returns the program of `cell` with the values its buffers and parameters have now."""
        buffers, own = cast("dict[str, Tensor]", cell._buffers), cell._parameters
        indexes = tuple([buffers[name] for name in self.indexes])
        parameters = tuple([own[name] if name in own else _elsewhere(cell, name) for name in self.parameters])
        return Program(self.kind, settings, indexes, parameters, cell.motor_map())


def _elsewhere(cell: Cell, name: str) -> Tensor | None:
    """Returns a parameter of a submodule, or what is computed in a parameter's place."""
    module, _, last = name.rpartition(".")
    return value_of(cast("nn.Module", cell._modules[module]) if module else cell, last)


def first_of_target(target: Any, units: int) -> np.ndarray:
    """Returns where each neuron's synapses begin in a list sorted by target.

    :param target: the target of every synapse, sorted
    :param units: number of neurons N
    :return: (N + 1,); the synapses into neuron j are start[j] .. start[j + 1]
    """
    return np.searchsorted(np.asarray(target), np.arange(units + 1))
