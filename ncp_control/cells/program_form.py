"""How a cell describes itself to compiled backends: its index arrays and parameters, in the order a kernel reads."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from torch import Tensor, nn

from ncp_control.cells.base import Cell
from ncp_control.cells.computed import value_of
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
        self.parameters = [name.rpartition(".")[::2] for name in parameters]

    def read(self, cell: Cell, settings: Settings) -> Program:
        """Returns the program of `cell` with the values its buffers and parameters have now."""
        buffers, modules = cast("dict[str, Tensor]", cell._buffers), cast("dict[str, nn.Module]", cell._modules)
        indexes = tuple([buffers[name] for name in self.indexes])
        parameters = [value_of(modules[module] if module else cell, name) for module, name in self.parameters]
        return Program(self.kind, settings, indexes, tuple(parameters))


def first_of_target(target: Any, units: int) -> np.ndarray:
    """Returns where each neuron's synapses begin in a list sorted by target.

    :param target: the target of every synapse, sorted
    :param units: number of neurons N
    :return: (N + 1,); the synapses into neuron j are start[j] .. start[j + 1]
    """
    return np.searchsorted(np.asarray(target), np.arange(units + 1))
