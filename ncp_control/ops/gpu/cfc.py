# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""Closed-form continuous-time neurons over existing synapses, in Triton (cells/cfc.py has the equations).

As in `gpu_ltc.py`, a program runs one row, with weights, state and sums of gradients in registers. Synapses from
earlier layers carry this step's states: all neurons are computed at once, as often as the longest chain of such
synapses is deep, after which the last layer is right, too; the way back does the same. A synapse costs a fetch and four
multiplications: by their instruction counts, dense 32 x 32 at 4096 x 128 takes .5 ms forward and 1.5 ms backward on an
H200.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

from ncp_control.ops.gpu.ltc import (
    LOG2E,
    NUMBERS,
    enter_step,
    fetch,
    leave_step,
    load_table,
    of_owners,
    sigmoid_exp2,
    state_before,
    total,
    totals,
)


class Parameters(NamedTuple):
    """Pointers to the parameters, in the program's order; weights are (H, synapses), the bias is (H, N)."""

    weight: Any
    sensory_weight: Any
    bias: Any
    w_tau: Any
    A: Any


class Maps(NamedTuple):
    """One value for each linear map; pure mode has f1 alone, and repeats it."""

    f1: Any
    f2: Any
    a: Any
    b: Any


@triton.jit
def load_maps(values, index, there, COUNT, MODE: tl.constexpr):
    """Values (H, COUNT) at an index of any shape, zero where there is none."""
    f1 = tl.load(values + index, there, 0.0)
    f2, a, b = f1, f1, f1
    if MODE != 2:
        f2 = tl.load(values + COUNT + index, there, 0.0)
        a = tl.load(values + 2 * COUNT + index, there, 0.0)
        b = tl.load(values + 3 * COUNT + index, there, 0.0)
    return Maps(f1, f2, a, b)


@triton.jit
def store_maps(values, index, there, COUNT, maps, MODE: tl.constexpr):
    """Stores what `load_maps` reads."""
    tl.store(values + index, maps.f1, there)
    if MODE != 2:
        tl.store(values + COUNT + index, maps.f2, there)
        tl.store(values + 2 * COUNT + index, maps.a, there)
        tl.store(values + 3 * COUNT + index, maps.b, there)


@triton.jit
def add_maps(z, values, weight, table, PARTS: tl.constexpr, MODE: tl.constexpr):
    """Maps z (N,) with what arrives through the synapses of a table from neurons or inputs of these values added."""
    seen = fetch(values, table.other)
    if MODE == 2:
        f1 = z.f1 + total(weight.f1 * seen, table, PARTS)
        added = Maps(f1, f1, f1, f1)
    else:
        f1, f2 = totals(weight.f1 * seen, weight.f2 * seen, table, PARTS)
        a, b = totals(weight.a * seen, weight.b * seen, table, PARTS)
        added = Maps(z.f1 + f1, z.f2 + f2, z.a + a, z.b + b)
    return added


@triton.jit
def tanh(x):
    """The hyperbolic tangent."""
    return 2.0 * sigmoid_exp2(x * -2.0 * LOG2E) - 1.0


@triton.jit
def combine(z, t, w_tau, A, MODE: tl.constexpr):
    """The new state from the maps, and what its derivative needs: tanh(f1), tanh(f2), a, s; or f1 and the decay."""
    if MODE == 2:
        decay = tl.exp2((tl.abs(w_tau) + tl.abs(z.f1)) * t * -LOG2E)
        y = A * (1.0 - decay * z.f1)
        kept = Maps(z.f1, decay, decay, decay)
    else:
        f1, f2, s = tanh(z.f1), tanh(z.f2), sigmoid_exp2((z.a * t + z.b) * -LOG2E)
        y = f1 + s * f2 if MODE == 1 else f1 + s * (f2 - f1)
        kept = Maps(f1, f2, z.a, s)
    return y, kept


@triton.jit
def sign(x):
    """-1, 0 or 1."""
    return tl.where(x > 0.0, 1.0, tl.where(x < 0.0, -1.0, 0.0)).to(x.dtype)


@triton.jit
def split_back(g, kept, t, w_tau, A, MODE: tl.constexpr):
    """Gradients of the maps, of t, of w_tau and of A, from the gradient g of the new state."""
    if MODE == 2:
        f1, decay = kept.f1, kept.f2
        power = g * A * f1 * decay
        d_f1 = power * t * sign(f1) - g * A * decay
        d_z = Maps(d_f1, d_f1, d_f1, d_f1)
        d_t = power * (tl.abs(w_tau) + tl.abs(f1))
        d_w_tau = power * t * sign(w_tau)
        d_A = g * (1.0 - decay * f1)
    else:
        f1, f2, a, s = kept
        if MODE == 1:
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
def flow_back(d_z, weight, table, MODE: tl.constexpr):
    """What flows back through every slot, (K, C), from the gradients of the targets' maps, and these, fetched."""
    f1 = fetch(d_z.f1, table.other)
    flow = weight.f1 * f1
    arrived = Maps(f1, f1, f1, f1)
    if MODE != 2:
        arrived = Maps(f1, fetch(d_z.f2, table.other), fetch(d_z.a, table.other), fetch(d_z.b, table.other))
        flow += weight.f2 * arrived.f2 + weight.a * arrived.a + weight.b * arrived.b
    return flow, arrived


@triton.jit
def add_scaled(sums, maps, factor, MODE: tl.constexpr):
    """`sums + maps factor`, map by map."""
    f1 = sums.f1 + maps.f1 * factor
    added = Maps(f1, f1, f1, f1)
    if MODE != 2:
        added = Maps(f1, sums.f2 + maps.f2 * factor, sums.a + maps.a * factor, sums.b + maps.b * factor)
    return added


class Circuit(NamedTuple):
    """What a program keeps in registers to move the state: neurons, and weights by target."""

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
    """Reads the circuit; settings are synapses, sensory synapses, mode, and the depth of a step."""
    MODE: tl.constexpr = SETTINGS[2]
    neuron = tl.arange(0, NEURONS)
    real = neuron < units
    bias = load_maps(p.bias, neuron, real, units, MODE)
    w_tau, A = bias.f1, bias.f1
    if p.w_tau is not None:
        w_tau, A = tl.load(p.w_tau + neuron, real, 0.0), tl.load(p.A + neuron, real, 0.0)
    sensory_table, old_table = load_table(tables, TABLES[0], NEURONS), load_table(tables, TABLES[1], NEURONS)
    sensory = load_maps(p.sensory_weight, sensory_table.edge, sensory_table.edge >= 0, SETTINGS[1], MODE)
    old = load_maps(p.weight, old_table.edge, old_table.edge >= 0, SETTINGS[0], MODE)
    new_table, new = old_table, old
    if SETTINGS[3] > 1:
        new_table = load_table(tables, TABLES[4], NEURONS)
        new = load_maps(p.weight, new_table.edge, new_table.edge >= 0, SETTINGS[0], MODE)
    return Circuit(bias, w_tau, A, sensory_table, sensory, old_table, old, new_table, new)


@triton.jit
def step(c, x, v, t, SETTINGS: tl.constexpr, TABLES: tl.constexpr):
    """The next state, and what its derivative needs."""
    MODE: tl.constexpr = SETTINGS[2]
    z = add_maps(c.bias, x, c.sensory, c.sensory_table, TABLES[0][3], MODE)
    z = add_maps(z, v, c.old, c.old_table, TABLES[1][3], MODE)
    y, kept = combine(z, t, c.w_tau, c.A, MODE)
    for _ in range(SETTINGS[3] - 1):
        y, kept = combine(add_maps(z, y, c.new, c.new_table, TABLES[4][3], MODE), t, c.w_tau, c.A, MODE)
    return y, kept


@triton.jit(do_not_specialize=NUMBERS)
def forward(
    p, tables, inputs, state, elapsed, row_stride, time_stride, reset, mask, states, time, units, features,
    SETTINGS: tl.constexpr, TABLES: tl.constexpr, NEURONS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """States (B, T, N), one program a row."""
    row = tl.program_id(0).to(tl.int64)
    neuron, feature = tl.arange(0, NEURONS), tl.arange(0, FEATURES)
    c = load_circuit(p, tables, units, SETTINGS, TABLES, NEURONS)
    v = tl.load(state + row * units + neuron, neuron < units, 0.0)
    for t in range(time):
        at = row * time + t
        if reset is not None:
            v = tl.where(tl.load(reset + at) != 0, 0.0, v)
        x = tl.load(inputs + at * features + feature, feature < features, 0.0)
        h = tl.load(elapsed + row * row_stride + t * time_stride)
        y, _ = step(c, x, v, h, SETTINGS, TABLES)
        if mask is not None:
            y = tl.where(tl.load(mask + at) != 0, y, v)
        v = y
        tl.store(states + at * units + neuron, v, neuron < units)


@triton.jit
def zero_maps(like):
    """Zeros of a shape, for every map."""
    zero = tl.full(like.shape, 0.0, like.dtype)
    return Maps(zero, zero, zero, zero)


@triton.jit(do_not_specialize=NUMBERS)
def backward(
    p, tables, inputs, state, elapsed, row_stride, time_stride, reset, mask, states, time, units, features,
    grad_states, grad_inputs, grad_state, grad_elapsed, grads, scratch, batch, size,
    SETTINGS: tl.constexpr, TABLES: tl.constexpr, NEURONS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """Gradients of inputs, state and elapsed, and of the parameters, (programs, size), to be summed over the programs.

    Program k takes rows k, k + programs, ...; there is no scratch.
    """
    MODE: tl.constexpr = SETTINGS[2]
    H: tl.constexpr = 1 if SETTINGS[2] == 2 else 4
    program = tl.program_id(0).to(tl.int64)
    neuron, feature = tl.arange(0, NEURONS), tl.arange(0, FEATURES)
    real, present = neuron < units, feature < features
    c = load_circuit(p, tables, units, SETTINGS, TABLES, NEURONS)
    old_table, sensory_table = load_table(tables, TABLES[2], NEURONS), load_table(tables, TABLES[3], FEATURES)
    old = load_maps(p.weight, old_table.edge, old_table.edge >= 0, SETTINGS[0], MODE)
    sensory = load_maps(p.sensory_weight, sensory_table.edge, sensory_table.edge >= 0, SETTINGS[1], MODE)
    new_table, new = old_table, old
    if SETTINGS[3] > 1:
        new_table = load_table(tables, TABLES[5], NEURONS)
        new = load_maps(p.weight, new_table.edge, new_table.edge >= 0, SETTINGS[0], MODE)
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
            h = tl.load(elapsed + row * row_stride + t * time_stride)
            y, kept = step(c, x, v, h, SETTINGS, TABLES)
            d_z, d_t, d_w_tau, d_A = split_back(g, kept, h, c.w_tau, c.A, MODE)
            for _ in range(SETTINGS[3] - 1):
                flow, _arrived = flow_back(d_z, new, new_table, MODE)
                d_y = g + total(flow, new_table, TABLES[5][3])
                d_z, d_t, d_w_tau, d_A = split_back(d_y, kept, h, c.w_tau, c.A, MODE)
            sum_w_tau += d_w_tau
            sum_A += d_A
            sum_bias = add_scaled(sum_bias, d_z, 1.0, MODE)
            if SETTINGS[3] > 1:
                flow, arrived = flow_back(d_z, new, new_table, MODE)
                sum_new = add_scaled(sum_new, arrived, of_owners(y, new_table), MODE)
            flow, arrived = flow_back(d_z, sensory, sensory_table, MODE)
            sum_sensory = add_scaled(sum_sensory, arrived, of_owners(x, sensory_table), MODE)
            if grad_inputs is not None:
                tl.store(grad_inputs + at * features + feature, total(flow, sensory_table, TABLES[3][3]), present)
            if grad_elapsed is not None:
                tl.store(grad_elapsed + at, tl.sum(d_t, 0))
            flow, arrived = flow_back(d_z, old, old_table, MODE)
            sum_old = add_scaled(sum_old, arrived, of_owners(v, old_table), MODE)
            g = leave_step(total(flow, old_table, TABLES[2][3]), held, reset, at)
        tl.store(grad_state + row * units + neuron, g, real)

    grads += program * size
    store_maps(grads, old_table.edge, old_table.edge >= 0, SETTINGS[0], sum_old, MODE)
    if SETTINGS[3] > 1:
        store_maps(grads, new_table.edge, new_table.edge >= 0, SETTINGS[0], sum_new, MODE)
    grads += H * SETTINGS[0]
    store_maps(grads, sensory_table.edge, sensory_table.edge >= 0, SETTINGS[1], sum_sensory, MODE)
    grads += H * SETTINGS[1]
    store_maps(grads, neuron, real, units, sum_bias, MODE)
    grads += H * units
    if p.w_tau is not None:
        tl.store(grads + neuron, sum_w_tau, real)
        tl.store(grads + units + neuron, sum_A, real)


def scratch_vectors(settings: tuple[int, ...]) -> int:
    """Vectors (N,) of scratch for each program of the backward pass."""
    return 0
