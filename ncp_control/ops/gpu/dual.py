# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""Liquid neurons with two weights a synapse over existing synapses, in Triton (cells/dual_ltc.py has the equations).

`shared.py` says how a kernel runs, and `cfc.py` how layers update in their order: all neurons are computed at once, as
often as there are neurons in the longest chain of synapses that carry this step's states.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

from ncp_control.ops.gpu.shared import (
    LOG2E,
    NUMBERS,
    OLD_BY_SOURCE,
    OLD_BY_TARGET,
    SENSORY_BY_SOURCE,
    SENSORY_BY_TARGET,
    enter_step,
    fetch,
    leave_step,
    load_table,
    of_owners,
    place,
    sigmoid_exp2,
    state_before,
    tanh,
    total,
    totals,
)
from ncp_control.ops.gpu.tables import TABLES as TABLE_NAMES
from ncp_control.ops.program import DualSettings

SYNAPSES = place(DualSettings._fields, "synapses")
SENSORY = place(DualSettings._fields, "sensory")
CHAIN = tl.constexpr(len(DualSettings._fields))  # the longest chain of new synapses: `tables.py` appends it
NEW_BY_TARGET = place(TABLE_NAMES["dual"], "new_by_target")
NEW_BY_SOURCE = place(TABLE_NAMES["dual"], "new_by_source")
STRONGEST = tl.constexpr(0.9)  # BRAKE in cells/dual_ltc.py


class DualParameters(NamedTuple):
    """Pointers to the parameters, in the program's order; brake_raw is None where neurons have no brake.

    Weights are (2, synapses) and the bias is (2, N), those of f before those of g; log_tau has two numbers.
    """

    weight: Any
    sensory_weight: Any
    bias: Any
    brake_raw: Any
    log_tau: Any


PARAMETERS = DualParameters


class TwoMaps(NamedTuple):
    """One value for each linear map."""

    f: Any
    g: Any


@triton.jit
def load_maps(values, index, there, COUNT):
    """Reads values (2, COUNT) at an index of any shape, zero where `there` is false."""
    return TwoMaps(tl.load(values + index, there, 0.0), tl.load(values + COUNT + index, there, 0.0))


@triton.jit
def store_maps(values, index, there, COUNT, maps):
    """Stores maps where `load_maps` reads them."""
    tl.store(values + index, maps.f, there)
    tl.store(values + COUNT + index, maps.g, there)


@triton.jit
def add_maps(z, values, weight, table, TABLES: tl.constexpr, WHICH: tl.constexpr):
    """Adds to maps z (N,) what arrives through the synapses of a table from neurons or inputs with these values."""
    seen = fetch(values, table.other)
    f, g = totals(weight.f * seen, weight.g * seen, table, TABLES, WHICH)
    return TwoMaps(z.f + f, z.g + g)


class Kept(NamedTuple):
    """What the backward pass needs of a step: the target m, s, 1 / tau, the kept part k of the state, and `1 - k`."""

    m: Any
    s: Any
    rate: Any
    k: Any
    left: Any


@triton.jit
def lost(p, k):
    """`1 - k` with `k = exp(-p)`: up to 1/2 by its series, because the subtraction loses the digits of p."""
    TERMS: tl.constexpr = 14 if p.dtype == tl.float64 else 8
    is_small = tl.abs(p) <= 0.5  # NaN is not
    small = tl.where(is_small, p, 0.5)
    series = 1.0 + 0.0 * small
    for n in tl.static_range(TERMS, 1, -1):
        series = 1.0 - series * small / n
    return tl.where(is_small, small * series, 1.0 - k)


@triton.jit
def combine(z, v, t, c):
    """Computes the new state from the maps and the state v, and what `split_back` reads."""
    m = tanh(z.f - c.brake * v)
    s = sigmoid_exp2(z.g * -LOG2E)
    rate = tl.exp2((c.high + (c.low - c.high) * s) * -LOG2E)
    k = tl.exp2(t * rate * -LOG2E)
    left = lost(t * rate, k)
    return v + left * (m - v), Kept(m, s, rate, k, left)


@triton.jit
def split_back(g, kept, v, t, c):
    """Computes the gradients of the maps, and that of -t / tau, from the gradient g of the new state."""
    m, s, rate, k, left = kept
    d_power = g * k * (v - m)
    d_f = g * left * (1.0 - m * m)
    return TwoMaps(d_f, d_power * t * rate * (c.low - c.high) * s * (1.0 - s)), d_power


@triton.jit
def flow_back(d_z, weight, table):
    """Computes what flows back through every slot, (K, C), from the gradients of the targets' maps.

    :return: the flow, and the gradients as fetched for every slot
    """
    f, g = fetch(d_z.f, table.other), fetch(d_z.g, table.other)
    return weight.f * f + weight.g * g, TwoMaps(f, g)


@triton.jit
def add_scaled(sums, maps, factor):
    """`sums + factor maps`, map by map."""
    return TwoMaps(sums.f + maps.f * factor, sums.g + maps.g * factor)


class DualCircuit(NamedTuple):
    """What a Triton program keeps in registers to move the state: parameters of neurons, and weights by target."""

    bias: Any
    brake: Any
    low: Any
    high: Any
    sensory_table: Any
    sensory: Any
    old_table: Any
    old: Any
    new_table: Any
    new: Any


@triton.jit
def load_circuit(p, tables, units, SETTINGS: tl.constexpr, TABLES: tl.constexpr, NEURONS: tl.constexpr):
    """Reads the circuit."""
    neuron = tl.arange(0, NEURONS)
    real = neuron < units
    bias = load_maps(p.bias, neuron, real, units)
    brake = 0.0 * bias.f
    if p.brake_raw is not None:
        brake = STRONGEST * sigmoid_exp2(tl.load(p.brake_raw + neuron, real, 0.0) * -LOG2E)
    low, high = tl.load(p.log_tau), tl.load(p.log_tau + 1)
    sensory_table, old_table = (
        load_table(tables, TABLES, SENSORY_BY_TARGET, NEURONS),
        load_table(tables, TABLES, OLD_BY_TARGET, NEURONS),
    )
    sensory = load_maps(p.sensory_weight, sensory_table.edge, sensory_table.edge >= 0, SETTINGS[SENSORY])
    old = load_maps(p.weight, old_table.edge, old_table.edge >= 0, SETTINGS[SYNAPSES])
    new_table, new = old_table, old
    if SETTINGS[CHAIN] > 1:
        new_table = load_table(tables, TABLES, NEW_BY_TARGET, NEURONS)
        new = load_maps(p.weight, new_table.edge, new_table.edge >= 0, SETTINGS[SYNAPSES])
    return DualCircuit(bias, brake, low, high, sensory_table, sensory, old_table, old, new_table, new)


@triton.jit
def step(c, x, v, t, SETTINGS: tl.constexpr, TABLES: tl.constexpr):
    """Computes the next state, and what `split_back` needs."""
    z = add_maps(c.bias, x, c.sensory, c.sensory_table, TABLES, SENSORY_BY_TARGET)
    z = add_maps(z, v, c.old, c.old_table, TABLES, OLD_BY_TARGET)
    y, kept = combine(z, v, t, c)
    if SETTINGS[CHAIN] > 1:
        for _ in range(SETTINGS[CHAIN] - 1):
            all_maps = add_maps(z, y, c.new, c.new_table, TABLES, NEW_BY_TARGET)
            y, kept = combine(all_maps, v, t, c)
    return y, kept


@triton.jit(do_not_specialize=NUMBERS)
def forward(
    p, tables, inputs, state, elapsed, row_stride, time_stride, reset, mask, states, time, units, features,
    SETTINGS: tl.constexpr, TABLES: tl.constexpr, NEURONS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """Computes states (B, T, N), with one Triton program for each row."""
    row = tl.program_id(0).to(tl.int64)
    neuron, feature = tl.arange(0, NEURONS), tl.arange(0, FEATURES)
    c = load_circuit(p, tables, units, SETTINGS, TABLES, NEURONS)
    v = tl.load(state + row * units + neuron, neuron < units, 0.0)
    for t in range(time):
        at = row * time + t
        if reset is not None:
            v = tl.where(tl.load(reset + at) != 0, 0.0, v)
        x = tl.load(inputs + at * features + feature, feature < features, 0.0)
        h = tl.load(elapsed + row * row_stride + tl.cast(t, tl.int64) * time_stride)
        y, _ = step(c, x, v, h, SETTINGS, TABLES)
        if mask is not None:
            y = tl.where(tl.load(mask + at) != 0, y, v)
        v = y
        tl.store(states + at * units + neuron, v, neuron < units)


@triton.jit
def zero_maps(like):
    """Zeros for both maps, in the shape of `like`."""
    zero = tl.full(like.shape, 0.0, like.dtype)
    return TwoMaps(zero, zero)


@triton.jit(do_not_specialize=NUMBERS)
def backward(
    p, tables, inputs, state, elapsed, row_stride, time_stride, reset, mask, states, time, units, features,
    grad_states, grad_inputs, grad_state, grad_elapsed, grads, scratch, batch, size,
    SETTINGS: tl.constexpr, TABLES: tl.constexpr, NEURONS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """Computes gradients of inputs, state and elapsed, and each Triton program's share of those of the parameters.

    Program k takes rows k, k + programs, ...; it needs no scratch. The shares, (programs, size), are yet to be summed
    over the programs.
    """
    program = tl.program_id(0).to(tl.int64)
    neuron, feature = tl.arange(0, NEURONS), tl.arange(0, FEATURES)
    real, present = neuron < units, feature < features
    c = load_circuit(p, tables, units, SETTINGS, TABLES, NEURONS)
    old_table, sensory_table = (
        load_table(tables, TABLES, OLD_BY_SOURCE, NEURONS),
        load_table(tables, TABLES, SENSORY_BY_SOURCE, FEATURES),
    )
    old = load_maps(p.weight, old_table.edge, old_table.edge >= 0, SETTINGS[SYNAPSES])
    sensory = load_maps(p.sensory_weight, sensory_table.edge, sensory_table.edge >= 0, SETTINGS[SENSORY])
    new_table, new = old_table, old
    if SETTINGS[CHAIN] > 1:
        new_table = load_table(tables, TABLES, NEW_BY_SOURCE, NEURONS)
        new = load_maps(p.weight, new_table.edge, new_table.edge >= 0, SETTINGS[SYNAPSES])
    sum_bias, sum_sensory = zero_maps(c.brake), zero_maps(sensory.f)
    sum_old, sum_new = zero_maps(old.f), zero_maps(new.f)
    zero = tl.full((NEURONS,), 0.0, c.brake.dtype)
    sum_brake, sum_low, sum_high = zero, zero, zero
    for row in range(program, batch, tl.num_programs(0)):
        g = zero
        for back in range(time):
            t = time - 1 - back
            at = row * time + t
            v = state_before(state, states, reset, row, t, time, units, NEURONS)
            g, held = enter_step(g, grad_states, mask, at, units, NEURONS)
            x = tl.load(inputs + at * features + feature, present, 0.0)
            h = tl.load(elapsed + row * row_stride + tl.cast(t, tl.int64) * time_stride)
            y, kept = step(c, x, v, h, SETTINGS, TABLES)
            d_y = g
            d_z, d_power = split_back(d_y, kept, v, h, c)
            if SETTINGS[CHAIN] > 1:
                for _ in range(SETTINGS[CHAIN] - 1):
                    flow, _arrived = flow_back(d_z, new, new_table)
                    d_y = g + total(flow, new_table, TABLES, NEW_BY_SOURCE)
                    d_z, d_power = split_back(d_y, kept, v, h, c)
                flow, arrived = flow_back(d_z, new, new_table)
                sum_new = add_scaled(sum_new, arrived, of_owners(y, new_table))
            d_log = d_power * h * kept.rate
            sum_low += d_log * kept.s
            sum_high += d_log * (1.0 - kept.s)
            sum_brake -= d_z.f * v
            sum_bias = add_scaled(sum_bias, d_z, 1.0)
            flow, arrived = flow_back(d_z, sensory, sensory_table)
            sum_sensory = add_scaled(sum_sensory, arrived, of_owners(x, sensory_table))
            if grad_inputs is not None:
                tl.store(
                    grad_inputs + at * features + feature,
                    total(flow, sensory_table, TABLES, SENSORY_BY_SOURCE),
                    present,
                )
            if grad_elapsed is not None:
                tl.store(grad_elapsed + at, tl.sum(-d_power * kept.rate, 0))
            flow, arrived = flow_back(d_z, old, old_table)
            sum_old = add_scaled(sum_old, arrived, of_owners(v, old_table))
            straight = d_y * kept.k - c.brake * d_z.f  # what flows back without a synapse
            g = leave_step(total(flow, old_table, TABLES, OLD_BY_SOURCE) + straight, held, reset, at)
        tl.store(grad_state + row * units + neuron, g, real)

    grads += program * size
    store_maps(grads, old_table.edge, old_table.edge >= 0, SETTINGS[SYNAPSES], sum_old)
    if SETTINGS[CHAIN] > 1:
        store_maps(grads, new_table.edge, new_table.edge >= 0, SETTINGS[SYNAPSES], sum_new)
    grads += 2 * SETTINGS[SYNAPSES]
    store_maps(grads, sensory_table.edge, sensory_table.edge >= 0, SETTINGS[SENSORY], sum_sensory)
    grads += 2 * SETTINGS[SENSORY]
    store_maps(grads, neuron, real, units, sum_bias)
    grads += 2 * units
    if p.brake_raw is not None:
        tl.store(grads + neuron, sum_brake * c.brake * (1.0 - c.brake / STRONGEST), real)
        grads += units
    tl.store(grads, tl.sum(sum_low, 0))
    tl.store(grads + 1, tl.sum(sum_high, 0))


def scratch_vectors(settings: DualSettings) -> int:
    """Vectors (N,) of scratch that each Triton program of the backward pass needs."""
    return 0
