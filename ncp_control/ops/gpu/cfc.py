# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""Closed-form continuous-time neurons over existing synapses, in Triton (cells/cfc.py has the equations).

`shared.py` says how a kernel runs. Synapses from earlier layers ("new" ones) carry this step's states: all neurons are
computed at once, and again, as often as there are neurons in the longest chain of such synapses; after that the last
layer is right, too. The backward pass does the same in reverse. A synapse costs a fetch and four multiplications: by
their instruction counts, dense 32 x 32 at 4096 x 128 takes 0.5 ms forward and 1.5 ms backward on an H200.
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
from ncp_control.ops.program import CFC_MODES, CfCSettings

SYNAPSES = place(CfCSettings._fields, "synapses")
SENSORY = place(CfCSettings._fields, "sensory")
MODE = place(CfCSettings._fields, "mode")
CHAIN = tl.constexpr(len(CfCSettings._fields))  # the longest chain of new synapses: `tables.py` appends it
NO_GATE = place(CFC_MODES, "no_gate")
PURE = place(CFC_MODES, "pure")
NEW_BY_TARGET = place(TABLE_NAMES["cfc"], "new_by_target")
NEW_BY_SOURCE = place(TABLE_NAMES["cfc"], "new_by_source")


class CfCParameters(NamedTuple):
    """Pointers to the parameters, in the program's order; weights are (H, synapses), the bias is (H, N).

    Only pure mode has w_tau and A; they are None in the others.
    """

    weight: Any
    sensory_weight: Any
    bias: Any
    w_tau: Any
    A: Any


PARAMETERS = CfCParameters


class Maps(NamedTuple):
    """One value for each linear map; pure mode has f1 alone and repeats it."""

    f1: Any
    f2: Any
    a: Any
    b: Any


@triton.jit
def load_maps(values, index, there, COUNT, SETTINGS: tl.constexpr):
    """Reads values (H, COUNT) at an index of any shape, zero where `there` is false."""
    f1 = tl.load(values + index, there, 0.0)
    f2, a, b = f1, f1, f1
    if SETTINGS[MODE] != PURE:
        f2 = tl.load(values + COUNT + index, there, 0.0)
        a = tl.load(values + 2 * COUNT + index, there, 0.0)
        b = tl.load(values + 3 * COUNT + index, there, 0.0)
    return Maps(f1, f2, a, b)


@triton.jit
def store_maps(values, index, there, COUNT, maps, SETTINGS: tl.constexpr):
    """Stores maps where `load_maps` reads them."""
    tl.store(values + index, maps.f1, there)
    if SETTINGS[MODE] != PURE:
        tl.store(values + COUNT + index, maps.f2, there)
        tl.store(values + 2 * COUNT + index, maps.a, there)
        tl.store(values + 3 * COUNT + index, maps.b, there)


@triton.jit
def add_maps(z, values, weight, table, TABLES: tl.constexpr, WHICH: tl.constexpr, SETTINGS: tl.constexpr):
    """Adds to maps z (N,) what arrives through the synapses of a table from neurons or inputs with these values."""
    seen = fetch(values, table.other)
    if SETTINGS[MODE] == PURE:
        f1 = z.f1 + total(weight.f1 * seen, table, TABLES, WHICH)
        added = Maps(f1, f1, f1, f1)
    else:
        f1, f2 = totals(weight.f1 * seen, weight.f2 * seen, table, TABLES, WHICH)
        a, b = totals(weight.a * seen, weight.b * seen, table, TABLES, WHICH)
        added = Maps(z.f1 + f1, z.f2 + f2, z.a + a, z.b + b)
    return added


@triton.jit
def combine(z, t, w_tau, A, SETTINGS: tl.constexpr):
    """Computes the new state from the maps, and what `split_back` reads: tanh(f1), tanh(f2), a, s; or f1, the decay."""
    if SETTINGS[MODE] == PURE:
        decay = tl.exp2((tl.abs(w_tau) + tl.abs(z.f1)) * t * -LOG2E)
        y = A * (1.0 - decay * z.f1)
        kept = Maps(z.f1, decay, decay, decay)
    else:
        f1, f2, s = tanh(z.f1), tanh(z.f2), sigmoid_exp2((z.a * t + z.b) * -LOG2E)
        y = f1 + s * f2 if SETTINGS[MODE] == NO_GATE else f1 * (1.0 - s) + s * f2
        kept = Maps(f1, f2, z.a, s)
    return y, kept


@triton.jit
def sign(x):
    """-1, 0 or 1."""
    return tl.where(x > 0.0, 1.0, tl.where(x < 0.0, -1.0, 0.0)).to(x.dtype)


@triton.jit
def split_back(g, kept, t, w_tau, A, SETTINGS: tl.constexpr):
    """Computes the gradients of the maps, of t, of w_tau and of A, from the gradient g of the new state."""
    if SETTINGS[MODE] == PURE:
        f1, decay = kept.f1, kept.f2
        power = g * A * f1 * decay
        d_f1 = power * t * sign(f1) - g * A * decay
        d_z = Maps(d_f1, d_f1, d_f1, d_f1)
        d_t = power * (tl.abs(w_tau) + tl.abs(f1))
        d_w_tau = power * t * sign(w_tau)
        d_A = g * (1.0 - decay * f1)
    else:
        f1, f2, a, s = kept
        if SETTINGS[MODE] == NO_GATE:
            d_f1 = g
            d_s = g * f2
        else:
            d_f1 = g * (1.0 - s)
            d_s = g * (f2 - f1)
        d_b = d_s * s * (1.0 - s)
        d_z = Maps(d_f1 * (1.0 - f1 * f1), g * s * (1.0 - f2 * f2), d_b * t, d_b)
        d_t = d_b * a
        d_w_tau, d_A = d_t, d_t
    return d_z, d_t, d_w_tau, d_A


@triton.jit
def flow_back(d_z, weight, table, SETTINGS: tl.constexpr):
    """Computes what flows back through every slot, (K, C), from the gradients of the targets' maps.

    :return: the flow, and the gradients as fetched for every slot
    """
    f1 = fetch(d_z.f1, table.other)
    flow = weight.f1 * f1
    arrived = Maps(f1, f1, f1, f1)
    if SETTINGS[MODE] != PURE:
        arrived = Maps(f1, fetch(d_z.f2, table.other), fetch(d_z.a, table.other), fetch(d_z.b, table.other))
        flow += weight.f2 * arrived.f2 + weight.a * arrived.a + weight.b * arrived.b
    return flow, arrived


@triton.jit
def add_scaled(sums, maps, factor, SETTINGS: tl.constexpr):
    """`sums + factor maps`, map by map."""
    f1 = sums.f1 + maps.f1 * factor
    added = Maps(f1, f1, f1, f1)
    if SETTINGS[MODE] != PURE:
        added = Maps(f1, sums.f2 + maps.f2 * factor, sums.a + maps.a * factor, sums.b + maps.b * factor)
    return added


class CfCCircuit(NamedTuple):
    """What a Triton program keeps in registers to move the state: parameters of neurons, and weights by target."""

    bias: Any
    w_tau: Any
    A: Any
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
    bias = load_maps(p.bias, neuron, real, units, SETTINGS)
    w_tau, A = bias.f1, bias.f1
    if p.w_tau is not None:
        w_tau, A = tl.load(p.w_tau + neuron, real, 0.0), tl.load(p.A + neuron, real, 0.0)
    sensory_table, old_table = (
        load_table(tables, TABLES, SENSORY_BY_TARGET, NEURONS),
        load_table(tables, TABLES, OLD_BY_TARGET, NEURONS),
    )
    sensory = load_maps(p.sensory_weight, sensory_table.edge, sensory_table.edge >= 0, SETTINGS[SENSORY], SETTINGS)
    old = load_maps(p.weight, old_table.edge, old_table.edge >= 0, SETTINGS[SYNAPSES], SETTINGS)
    new_table, new = old_table, old
    if SETTINGS[CHAIN] > 1:
        new_table = load_table(tables, TABLES, NEW_BY_TARGET, NEURONS)
        new = load_maps(p.weight, new_table.edge, new_table.edge >= 0, SETTINGS[SYNAPSES], SETTINGS)
    return CfCCircuit(bias, w_tau, A, sensory_table, sensory, old_table, old, new_table, new)


@triton.jit
def step(c, x, v, t, SETTINGS: tl.constexpr, TABLES: tl.constexpr):
    """Computes the next state, and what `split_back` needs."""
    z = add_maps(c.bias, x, c.sensory, c.sensory_table, TABLES, SENSORY_BY_TARGET, SETTINGS)
    z = add_maps(z, v, c.old, c.old_table, TABLES, OLD_BY_TARGET, SETTINGS)
    y, kept = combine(z, t, c.w_tau, c.A, SETTINGS)
    if SETTINGS[CHAIN] > 1:
        for _ in range(SETTINGS[CHAIN] - 1):
            all_maps = add_maps(z, y, c.new, c.new_table, TABLES, NEW_BY_TARGET, SETTINGS)
            y, kept = combine(all_maps, t, c.w_tau, c.A, SETTINGS)
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
    """Zeros for every map, in the shape of `like`."""
    zero = tl.full(like.shape, 0.0, like.dtype)
    return Maps(zero, zero, zero, zero)


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
    H: tl.constexpr = 1 if SETTINGS[MODE] == PURE else 4
    program = tl.program_id(0).to(tl.int64)
    neuron, feature = tl.arange(0, NEURONS), tl.arange(0, FEATURES)
    real, present = neuron < units, feature < features
    c = load_circuit(p, tables, units, SETTINGS, TABLES, NEURONS)
    old_table, sensory_table = (
        load_table(tables, TABLES, OLD_BY_SOURCE, NEURONS),
        load_table(tables, TABLES, SENSORY_BY_SOURCE, FEATURES),
    )
    old = load_maps(p.weight, old_table.edge, old_table.edge >= 0, SETTINGS[SYNAPSES], SETTINGS)
    sensory = load_maps(p.sensory_weight, sensory_table.edge, sensory_table.edge >= 0, SETTINGS[SENSORY], SETTINGS)
    new_table, new = old_table, old
    if SETTINGS[CHAIN] > 1:
        new_table = load_table(tables, TABLES, NEW_BY_SOURCE, NEURONS)
        new = load_maps(p.weight, new_table.edge, new_table.edge >= 0, SETTINGS[SYNAPSES], SETTINGS)
    sum_bias, sum_sensory = zero_maps(c.A), zero_maps(sensory.f1)
    sum_old, sum_new = zero_maps(old.f1), zero_maps(new.f1)
    zero = tl.full((NEURONS,), 0.0, c.A.dtype)
    sum_w_tau, sum_A = zero, zero
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
            d_z, d_t, d_w_tau, d_A = split_back(g, kept, h, c.w_tau, c.A, SETTINGS)
            if SETTINGS[CHAIN] > 1:
                for _ in range(SETTINGS[CHAIN] - 1):
                    flow, _arrived = flow_back(d_z, new, new_table, SETTINGS)
                    d_y = g + total(flow, new_table, TABLES, NEW_BY_SOURCE)
                    d_z, d_t, d_w_tau, d_A = split_back(d_y, kept, h, c.w_tau, c.A, SETTINGS)
            sum_w_tau += d_w_tau
            sum_A += d_A
            sum_bias = add_scaled(sum_bias, d_z, 1.0, SETTINGS)
            if SETTINGS[CHAIN] > 1:
                flow, arrived = flow_back(d_z, new, new_table, SETTINGS)
                sum_new = add_scaled(sum_new, arrived, of_owners(y, new_table), SETTINGS)
            flow, arrived = flow_back(d_z, sensory, sensory_table, SETTINGS)
            sum_sensory = add_scaled(sum_sensory, arrived, of_owners(x, sensory_table), SETTINGS)
            if grad_inputs is not None:
                tl.store(
                    grad_inputs + at * features + feature,
                    total(flow, sensory_table, TABLES, SENSORY_BY_SOURCE),
                    present,
                )
            if grad_elapsed is not None:
                tl.store(grad_elapsed + at, tl.sum(d_t, 0))
            flow, arrived = flow_back(d_z, old, old_table, SETTINGS)
            sum_old = add_scaled(sum_old, arrived, of_owners(v, old_table), SETTINGS)
            g = leave_step(total(flow, old_table, TABLES, OLD_BY_SOURCE), held, reset, at)
        tl.store(grad_state + row * units + neuron, g, real)

    grads += program * size
    store_maps(grads, old_table.edge, old_table.edge >= 0, SETTINGS[SYNAPSES], sum_old, SETTINGS)
    if SETTINGS[CHAIN] > 1:
        store_maps(grads, new_table.edge, new_table.edge >= 0, SETTINGS[SYNAPSES], sum_new, SETTINGS)
    grads += H * SETTINGS[SYNAPSES]
    store_maps(grads, sensory_table.edge, sensory_table.edge >= 0, SETTINGS[SENSORY], sum_sensory, SETTINGS)
    grads += H * SETTINGS[SENSORY]
    store_maps(grads, neuron, real, units, sum_bias, SETTINGS)
    grads += H * units
    if p.w_tau is not None:
        tl.store(grads + neuron, sum_w_tau, real)
        tl.store(grads + units + neuron, sum_A, real)


def scratch_vectors(settings: CfCSettings) -> int:
    """Vectors (N,) of scratch that each Triton program of the backward pass needs."""
    return 0
