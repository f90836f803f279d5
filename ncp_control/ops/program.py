"""What a cell tells a compiled backend: its kind, its parameters and its synapses, in a fixed order."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Program(NamedTuple):
    """A cell in the form that a compiled backend reads.

    :param kind: which kernel, such as "ltc"
    :param settings: whole numbers, in the kernel's order; the first two count synapses and sensory synapses
    :param indexes: int64 index tensors, in the kernel's order
    :param parameters: parameters in the kernel's order; None for one that the cell does without
    """

    kind: str
    settings: tuple[int, ...]
    indexes: tuple[Tensor, ...]
    parameters: tuple[Tensor | None, ...]
