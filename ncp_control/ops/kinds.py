"""Kinds of programs: what a compiled backend has to know about each kind of neuron.

A kind stands in the room of its neuron, in `kind.py`, above this floor. It is imported when a program of it is first
read, so that an exported program runs wherever `ncp_control.ops.operator` is imported, and nothing else.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from ncp_control.base.imports import KERNELS
from ncp_control.ops.program import Program, Settings

Shape = tuple[int, ...]
# Where the synapses into each neuron begin, and what each comes from: the first index tensors of a sparse kind.
EDGES = ("start", "source", "sensory_start", "sensory_source")


class Index(NamedTuple):
    """What an index tensor must hold.

    :param shape: its shape
    :param top: its values lie in 0 .. top - 1; those of a list of starts lie in 0 .. top, never fall, begin with 0 and
        end with top
    :param starts: whether it is a list of starts
    """

    shape: Shape
    top: int
    starts: bool = False


class Shapes(NamedTuple):
    """What the tensors of a program must be like, by the cell's names and in the program's order.

    :param indexes: the index tensors
    :param parameters: the shape of every parameter
    :param optional: the parameters that may be None, each with those that are then None too
    """

    indexes: dict[str, Index]
    parameters: Mapping[str, Shape]
    optional: Mapping[str, tuple[str, ...]]

    def forms(self) -> list[list[Shape | None]]:
        """The shapes of all parameters in every form that a cell can have, None for a missing parameter."""
        missing: list[tuple[str, ...]] = [(), *((name, *others) for name, others in self.optional.items())]
        return [[None if name in gone else shape for name, shape in self.parameters.items()] for gone in missing]


class CellStruct(NamedTuple):
    """The C++ struct of a kind, which Python fills: a number for each setting, then addresses.

    :param settings: fields of the kind's settings
    :param indexes: index tensors
    :param parameters: parameters; null for one that the cell does without
    :param gradients: what the backward kernel writes; null in the forward pass
    """

    settings: tuple[str, ...]
    indexes: tuple[str, ...]
    parameters: tuple[str, ...]
    gradients: tuple[str, ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of all fields, in order."""
        return (*self.settings, *self.indexes, *self.parameters, *self.gradients)


class Maps(Protocol):
    """How the gradients of a kind's weights follow from those of its linear maps, which its kernel writes."""

    def shape(self, program: Program, inputs: Tensor, state: Tensor) -> Shape:
        """Returns the shape of what the kernel writes."""

    def gradients(
        self, inputs: Tensor, state: Tensor, reset: Tensor | None, states: Tensor, grad_maps: Tensor
    ) -> list[Tensor | None]:
        """Computes the gradients of all parameters, in the program's order.

        :param inputs: (B, T, I)
        :param state: state before the first step, (B, N)
        :param states: states after every step, (B, T, N)
        :param grad_maps: what the kernel wrote
        """


class OnGPU(NamedTuple):
    """What the launch of a kind's Triton kernels needs, beside the kernels in `triton.py`.

    :param tables: the tables of synapses that this kind alone has
    :param slots: the slots that one warp is given in the forward pass, half as many as in the backward pass. With
        fewer, there are more warps, which wait for each other longer than they save work, as an H100 showed
    :param registers: the most registers of a thread of the backward pass
    """

    tables: tuple[str, ...]
    slots: int
    registers: int


class ProgramKind(NamedTuple):
    """One kind of program.

    :param settings: the class of its settings
    :param shapes: what its tensors must be like, from its settings, the number of input features and the state's size
    :param struct: the struct of its C++ kernels
    :param maps: for kernels that write the gradients of linear maps rather than those of parameters
    :param alone: up to this many synapses times rows times steps, one thread is faster than several
    :param gpu: None for a kind without Triton kernels
    """

    settings: type[Any]
    shapes: Callable[[Any, int, int], Shapes]
    struct: CellStruct
    maps: Maps | None = None
    alone: int = 100_000
    gpu: OnGPU | None = None


@functools.cache
def kind_of(name: str) -> ProgramKind:
    """Returns a kind by its name."""
    kind: ProgramKind = importlib.import_module(f"{KERNELS[name]}.kind").KINDS[name]
    return kind


@functools.lru_cache(maxsize=256)
def shapes_of(kind: str, settings: Settings, features: int, size: int) -> Shapes:
    """Returns what the tensors of a program must be like.

    :param kind: the program's kind
    :param settings: the program's settings
    :param features: number of input features I
    :param size: size of the state N
    """
    return kind_of(kind).shapes(settings, features, size)


def edges(settings: Settings, features: int, sources: int, size: int) -> dict[str, Index]:
    """Returns the index tensors of a sparse kind, those named in `EDGES`."""
    return {
        "start": Index((size + 1,), settings.synapses, starts=True),
        "source": Index((settings.synapses,), sources),
        "sensory_start": Index((size + 1,), settings.sensory, starts=True),
        "sensory_source": Index((settings.sensory,), features),
    }


def sparse_struct(settings: type[Any], parameters: str, more: tuple[str, ...] = ()) -> CellStruct:
    """Returns the struct of a kind whose kernel writes one gradient for each parameter.

    :param parameters: their names, with spaces between them
    :param more: index tensors after those of `EDGES`
    """
    names = tuple(parameters.split())
    return CellStruct(settings._fields, (*EDGES, *more), names, tuple(f"d_{name}" for name in names))


def dense_struct(settings: type[Any], parameters: str) -> CellStruct:
    """Returns the struct of a kind whose kernel writes the gradients of its linear maps."""
    return CellStruct(settings._fields, (), tuple(parameters.split()), ("d_maps",))
