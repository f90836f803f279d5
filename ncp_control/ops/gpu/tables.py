"""A cell's synapses in tables, as the Triton kernels read them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from ncp_control.ops.kinds import kind_of
from ncp_control.ops.program import Program


class Shape(NamedTuple):
    """Where a table lies and how large it is.

    :param start: the place of its first number
    :param depth: slots of a column, K
    :param columns: number of columns, C
    :param parts: the most columns of one owner; 0 where column j belongs to owner j
    """

    start: int
    depth: int
    columns: int
    parts: int


class SynapseTables(NamedTuple):
    """All tables of a cell: those of every kind, then those of its own kind.

    A table holds edges in slots, K deep and C columns wide; each column is owned by one neuron (or input). An owner
    with more than K edges has several columns, side by side.

    :param numbers: all tables, int32: for each the edges (K, C), -1 in an empty slot; their other ends (K, C); the
        owner of each column (C,); the first column of each owner, and its number of columns, each padded to a power of
        two
    :param shapes: the shape of each table
    :param settings: whole numbers that the kernel takes after the program's settings
    :param forward_warps: warps for each Triton program of the forward pass
    :param backward_warps: the same for the backward pass
    """

    numbers: Tensor
    shapes: tuple[Shape, ...]
    settings: tuple[int, ...]
    forward_warps: int
    backward_warps: int


# The tables that every kind has; a kind may have more (see `OnGPU` in `ops/kinds.py`). "Old" synapses carry states of
# the previous step; "new" ones, which cells have whose layers update in their order, carry those of this step.
EVERY_KIND = ("sensory_by_target", "old_by_target", "old_by_source", "sensory_by_source")
# Those that the forward pass reads.
FORWARD = ("sensory_by_target", "old_by_target", "gaps", "new_by_target")

_CACHE: Any = WeakTensorKeyDictionary()


def tables_of(program: Program, features: int, units: int) -> SynapseTables:
    """Returns the tables of a program; they are made once for its index tensors, and anew after a change in place."""
    key = (program.kind, *map(_mark, program.indexes))
    cached = _CACHE.get(program.indexes[0])
    if cached is None or cached[0] != key:
        cached = key, _make_tables(program, features, units)
        _CACHE[program.indexes[0]] = cached
    tables: SynapseTables = cached[1]
    return tables


def _mark(index: Tensor) -> tuple[int, ...]:
    """Tells an index tensor and its values from others; one made in inference mode does not count its changes."""
    return id(index), index.data_ptr(), 0 if index.is_inference() else index._version


def _make_tables(program: Program, features: int, units: int) -> SynapseTables:
    """Makes all tables of a program, and chooses the warps from their sizes."""
    start, source, sensory_start, sensory_source, *rest = (index.cpu().numpy() for index in program.indexes)
    target = np.repeat(np.arange(units), np.diff(start))
    sensory_target = np.repeat(np.arange(units), np.diff(sensory_start))
    edge, sensory_edge = np.arange(len(source)), np.arange(len(sensory_source))
    settings: tuple[int, ...] = ()
    new = source >= units
    old = ~new
    tables = {
        "sensory_by_target": _table(sensory_edge, sensory_target, sensory_source, units, features),
        "old_by_target": _table(edge[old], target[old], source[old], units, units),
        "old_by_source": _table(edge[old], source[old], target[old], units, units),
        "sensory_by_source": _table(sensory_edge, sensory_source, sensory_target, features, units),
    }
    gpu = kind_of(program.kind).gpu
    assert gpu is not None
    names = (*EVERY_KIND, *gpu.tables)
    if "gaps" in names:
        first, second = rest[0][:, 0], rest[0][:, 1]
        both = np.concatenate([first, second]), np.concatenate([second, first])
        tables["gaps"] = _table(np.arange(2 * len(first)), *both, units, units)
    if "new_by_target" in names:
        sender = source[new] - units
        tables["new_by_target"] = _table(edge[new], target[new], sender, units, units)
        tables["new_by_source"] = _table(edge[new], sender, target[new], units, units)
        settings = (_longest_chain(sender, target[new], units),)
    ordered = [tables[name] for name in names]
    starts = np.cumsum([0, *(len(table.numbers) for table in ordered)])
    shapes = tuple(Shape(int(at), *table.size) for at, table in zip(starts, ordered, strict=False))
    numbers = torch.from_numpy(np.concatenate([table.numbers for table in ordered]).astype(np.int32))
    moving = sum(tables[name].slots for name in names if name in FORWARD)
    flowing = sum(table.slots for table in ordered)
    warps = _warps(moving / gpu.slots), _warps(flowing / (2 * gpu.slots))
    return SynapseTables(numbers.to(program.indexes[0].device), shapes, settings, *warps)


def _warps(wanted: float) -> int:
    """A number of warps that a Triton program can have. Few warps wait less for each other, but need more registers."""
    return min(power_of_two(math.ceil(wanted)), 16)


class _Table(NamedTuple):
    """One table: its numbers, one after the other; its depth, columns and parts as in `Shape`; its number of slots."""

    numbers: np.ndarray
    size: tuple[int, int, int]
    slots: int


def _table(edge: np.ndarray, owner: np.ndarray, far: np.ndarray, owners: int, reachable: int) -> _Table:
    """Makes a table of edges.

    An empty slot names an end of its own column, so that no value from elsewhere, such as NaN, comes in through it.
    """
    width, reach = power_of_two(owners), power_of_two(reachable)
    counts = np.bincount(owner, minlength=owners)
    deep, wide, parts = _best_size(counts, width, reach)
    columns = -(-counts // deep) if parts else np.ones_like(counts)
    first = np.cumsum(columns) - columns
    order = np.argsort(owner, kind="stable")
    # The number of each edge among those of its owner, from which its column and its slot follow.
    rank = np.arange(len(order)) - (np.cumsum(counts) - counts)[owner[order]]
    column = first[owner[order]] + rank // deep
    heads = rank % deep == 0
    edges, ends, owner_of = np.full((deep, wide), -1), np.zeros((deep, wide), int), np.zeros(wide, int)
    edges[rank % deep, column] = edge[order]
    ends[:, column[heads]] = far[order][heads]
    ends[rank % deep, column] = far[order]
    owner_of[: columns.sum()] = np.repeat(np.arange(owners), columns)
    ranges = np.zeros((2, width), int)
    ranges[:, :owners] = first, columns
    numbers = np.concatenate([edges.ravel(), ends.ravel(), owner_of, ranges.ravel()])
    return _Table(numbers, (deep, wide, parts), deep * max(wide, reach) if len(edge) else 0)


def _best_size(counts: np.ndarray, width: int, reach: int) -> tuple[int, int, int]:
    """Depth, columns and parts of the table that costs least work.

    A shallow table wastes few slots on owners with few edges, but needs a second stage to sum each owner's columns.
    Triton spreads slots over threads as it does the values that they fetch, so fewer columns than there are values
    within reach save nothing.
    """
    deepest = power_of_two(int(counts.max(initial=1)))
    sizes = [(deepest, width, 0)]
    for deep in (deepest >> k for k in range(deepest.bit_length() - 1)):
        columns = -(-counts // deep)
        sizes.append((deep, power_of_two(int(columns.sum())), power_of_two(int(columns.max()))))

    def work(size: tuple[int, int, int]) -> int:
        deep, wide, parts = size
        slot, part = 12 + 2 * max(1, reach // 32), 2 + 4 * max(1, wide // 32)
        return slot * deep * max(wide, reach) + part * parts * max(width, wide)

    return min(sizes, key=work)


def _longest_chain(sender: np.ndarray, target: np.ndarray, units: int) -> int:
    """The number of neurons in the longest chain of synapses within one step."""
    level = np.ones(units, int)
    for _ in range(units):  # a chain has at most all neurons
        reached = level.copy()
        np.maximum.at(reached, target, level[sender] + 1)
        if (reached == level).all():
            break
        level = reached
    return int(level.max())


def power_of_two(count: int) -> int:
    """The smallest power of two that is at least `count`, and 1."""
    return 1 << max(count - 1, 0).bit_length()
