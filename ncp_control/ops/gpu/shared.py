# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""Triton functions that the kernels of all kinds share: activations, tables of synapses, one step back in time.

A Triton program runs one row of the batch through its whole sequence: the state, the weights and, in the backward pass,
the sums of their gradients stay in registers. Synapses lie in tables of slots (see `tables.py`): by target, to sum what
arrives at a neuron, and again by source, to sum what flows back to it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

from ncp_control.ops.gpu.tables import EVERY_KIND, Shape
from ncp_control.ops.gpu.versions import triton_version

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
# Before 3.9 Triton cannot compile `gather` on two dimensions for all sizes: there long rows, and values whose rows are
# shorter than those of the index, are done on one dimension.
ON_ONE = tl.constexpr(triton_version() < (3, 9))
# Whole numbers that a kernel is not compiled anew for, whether they are 1, multiples of 16 or others.
NUMBERS = ["row_stride", "time_stride", "time", "units", "features", "batch", "size"]


def place(names: tuple[str, ...], name: str) -> Any:
    """The place of a name among `names`, as a constant that kernels can index a tuple with."""
    return tl.constexpr(names.index(name))


SENSORY_BY_TARGET = place(EVERY_KIND, "sensory_by_target")
OLD_BY_TARGET = place(EVERY_KIND, "old_by_target")
OLD_BY_SOURCE = place(EVERY_KIND, "old_by_source")
SENSORY_BY_SOURCE = place(EVERY_KIND, "sensory_by_source")
START = place(Shape._fields, "start")
DEPTH = place(Shape._fields, "depth")
COLUMNS = place(Shape._fields, "columns")
PARTS = place(Shape._fields, "parts")


@triton.jit
def sigmoid_exp2(x):
    """`1 / (1 + 2^x)`, the logistic function of `-x ln 2`."""
    return 1.0 / (1.0 + tl.exp2(x))


@triton.jit
def tanh(x):
    """The hyperbolic tangent."""
    return 2.0 * sigmoid_exp2(x * -2.0 * LOG2E) - 1.0


@triton.jit
def fraction(h):
    """A span of time `h` as s and r with `h = s / r`: h and 1 for a short span, 1/4 and `1 / (4 h)` for a long one.

    A fused step divides by `r + s rate`, which then overflows for no span and no rate, and stays below 2^126: what is
    divided by more counts as zero.
    """
    long = h > 0.25
    return tl.where(long, 0.25, h), 0.25 / tl.where(long, h, 0.25)


@triton.jit
def positive(x):
    """`log(1 + exp(x)) + 1e-8`, as in neurons/parameters.py.

    It is computed as `max(x, 0) + log(1 + u)` with `u = exp(-|x|)`, and the logarithm as `2 atanh(y)` with
    `y = u / (2 + u)`, by its series; above 20 it is x alone, as torch has it.
    """
    u = tl.exp2(tl.abs(x) * -LOG2E)
    y = u / (2.0 + u)
    series = 0.0 * y
    for k in tl.static_range(17, -1, -1):  # y <= 1/3, so the next term would be below what float64 resolves
        series = series * (y * y) + 1.0 / (2 * k + 1)
    return 1e-8 + (tl.maximum(x, 0.0) + tl.where(x > 20.0, 0.0, 2.0 * y * series))


class Table(NamedTuple):
    """Edges in slots, K deep and C columns wide. One neuron (or input) owns each column, such as the edges' target.

    :param edge: the number of the edge in each slot, (K, C); -1 in an empty slot
    :param other: the end of the edge that is not the owner, (K, C)
    :param owner: the owner of each column, (C,)
    :param first: each owner's first column, (N,)
    :param count: each owner's number of columns, (N,)
    """

    edge: Any
    other: Any
    owner: Any
    first: Any
    count: Any


@triton.jit
def load_table(tables, TABLES: tl.constexpr, WHICH: tl.constexpr, OWNERS: tl.constexpr):
    """Reads a `Table` from where `tables.py` put it."""
    K: tl.constexpr = TABLES[WHICH][DEPTH]
    C: tl.constexpr = TABLES[WHICH][COLUMNS]
    column, owner = tl.arange(0, C), tl.arange(0, OWNERS)
    slot = tl.arange(0, K)[:, None] * C + column[None, :]
    edges = tables + TABLES[WHICH][START]
    owners = edges + 2 * K * C
    ranges = owners + C
    return Table(
        tl.load(edges + slot),
        tl.load(edges + K * C + slot),
        tl.load(owners + column),
        tl.load(ranges + owner),
        tl.load(ranges + OWNERS + owner),
    )


@triton.jit
def fetch(values, index):
    """`values[index]`, (K, C), from values (N,)."""
    if ON_ONE and (values.shape[0] > 32 or values.shape[0] < index.shape[1]):
        return tl.reshape(tl.gather(values, tl.reshape(index, (index.shape[0] * index.shape[1],)), 0), index.shape)
    return tl.gather(tl.broadcast_to(values[None, :], (index.shape[0], values.shape[0])), index, 1)


@triton.jit
def of_owners(values, table):
    """The value of each column's owner, from values (N,), in shape (K, C)."""
    return fetch(values, tl.broadcast_to(table.owner[None, :], table.edge.shape))


@triton.jit
def total(values, table, TABLES: tl.constexpr, WHICH: tl.constexpr):
    """Sums the values of slots (K, C) for each owner. Empty slots count as zero, whatever they hold, such as NaN.

    An owner's columns lie side by side, at most TABLES[WHICH][PARTS] of them; that is 0 where column j belongs to
    owner j.
    """
    sums = tl.sum(tl.where(table.edge >= 0, values, 0.0), 0)
    if TABLES[WHICH][PARTS] > 0:
        part = tl.arange(0, TABLES[WHICH][PARTS])[:, None]
        there = part < table.count[None, :]
        sums = fetch(sums, tl.where(there, table.first[None, :] + part, 0))
        sums = tl.sum(tl.where(there, sums, 0.0), 0)
    return sums


@triton.jit
def totals(first, second, table, TABLES: tl.constexpr, WHICH: tl.constexpr):
    """`total` of both. Together they wait for the other warps once, instead of twice."""
    full = table.edge >= 0
    first, second = tl.split(tl.sum(tl.join(tl.where(full, first, 0.0), tl.where(full, second, 0.0)), 0))
    if TABLES[WHICH][PARTS] > 0:
        part = tl.arange(0, TABLES[WHICH][PARTS])[:, None]
        there = part < table.count[None, :]
        column = tl.where(there, table.first[None, :] + part, 0)
        first, second = tl.where(there, fetch(first, column), 0.0), tl.where(there, fetch(second, column), 0.0)
        first, second = tl.split(tl.sum(tl.join(first, second), 0))
    return first, second


@triton.jit
def store_slots(grads, edge, values):
    """Stores the value of every slot at its edge."""
    tl.store(grads + edge, values, edge >= 0)


@triton.jit
def state_before(state, states, reset, row, t, time, units, NEURONS: tl.constexpr):
    """Reads the state before step t of a row, (N,)."""
    neuron = tl.arange(0, NEURONS)
    before = state + row * units
    if t > 0:
        before = states + (row * time + t - 1) * units
    v = tl.load(before + neuron, neuron < units, 0.0)
    if reset is not None:
        v = tl.where(tl.load(reset + row * time + t) != 0, 0.0, v)
    return v


@triton.jit
def enter_step(g, grad_states, mask, at, units, NEURONS: tl.constexpr):
    """Adds a step's own gradient to g, the gradient of the state after it.

    :return: the part that goes back through the step, and the part that passes it by where a mask holds the state
    """
    neuron = tl.arange(0, NEURONS)
    g += tl.load(grad_states + at * units + neuron, neuron < units, 0.0)
    held = g * 0.0
    if mask is not None:
        moved = tl.load(mask + at) != 0
        held = tl.where(moved, 0.0, g)
        g = tl.where(moved, g, 0.0)
    return g, held


@triton.jit
def leave_step(g, held, reset, at):
    """Joins the two parts to the gradient of the state before a step, which is zero where the state was reset."""
    g += held
    if reset is not None:
        g = tl.where(tl.load(reset + at) != 0, 0.0, g)
    return g
