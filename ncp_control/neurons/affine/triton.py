# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""Neurons driven by one nonlinearity of an affine map, in Triton (kernel.h has the equations).

`shared.py` says how a kernel runs. A synapse is a fetch and a multiplication: by their instruction counts, dense
32 x 32 at 4096 x 128 takes 1 ms forward and 2 ms backward on an H200.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

from ncp_control.neurons.affine.kind import ACTIVATION_NAMES, AffineSettings
from ncp_control.ops.gpu.shared import (
    LOG2E,
    NUMBERS,
    OLD_BY_SOURCE,
    OLD_BY_TARGET,
    SENSORY_BY_SOURCE,
    SENSORY_BY_TARGET,
    enter_step,
    fetch,
    fraction,
    leave_step,
    load_table,
    of_owners,
    place,
    positive,
    sigmoid_exp2,
    state_before,
    store_slots,
    total,
)

SYNAPSES = place(AffineSettings._fields, "synapses")
SENSORY = place(AffineSettings._fields, "sensory")
UNFOLDS = place(AffineSettings._fields, "unfolds")
EULER = place(AffineSettings._fields, "euler")
LIQUID = place(AffineSettings._fields, "liquid")
MAGNITUDE = place(AffineSettings._fields, "magnitude")
ACTIVATION = place(AffineSettings._fields, "activation")
SIGMOID = place(ACTIVATION_NAMES, "sigmoid")
RELU = place(ACTIVATION_NAMES, "relu")
TANH = place(ACTIVATION_NAMES, "tanh")


class AffineParameters(NamedTuple):
    """Pointers to the parameters, in the program's order; None for one that the cell does without."""

    gamma: Any
    gamma_r: Any
    mu: Any
    tau_raw: Any
    A: Any


PARAMETERS = AffineParameters


class AffineCircuit(NamedTuple):
    """What a Triton program keeps in registers to move the state: parameters of neurons, and weights by target."""

    mu: Any
    leak: Any
    A: Any
    sensory_table: Any
    gamma: Any
    table: Any
    gamma_r: Any


@triton.jit
def load_weights(weights, edge):
    """Reads the weight of every slot, zero where it is empty."""
    return tl.load(weights + edge, edge >= 0, 0.0)


@triton.jit
def load_circuit(p, tables, units, TABLES: tl.constexpr, NEURONS: tl.constexpr):
    """Reads the circuit."""
    neuron = tl.arange(0, NEURONS)
    real = neuron < units
    mu = tl.load(p.mu + neuron, real, 0.0)
    # Cells without a tau do not leak, and those without an A are driven by f itself.
    leak, A = tl.full((NEURONS,), 0.0, mu.dtype), tl.full((NEURONS,), 1.0, mu.dtype)
    if p.tau_raw is not None:
        leak = 1.0 / positive(tl.load(p.tau_raw + neuron, real, 0.0))
    if p.A is not None:
        A = tl.load(p.A + neuron, real, 0.0)
    sensory_table, table = (
        load_table(tables, TABLES, SENSORY_BY_TARGET, NEURONS),
        load_table(tables, TABLES, OLD_BY_TARGET, NEURONS),
    )
    gamma, gamma_r = load_weights(p.gamma, sensory_table.edge), load_weights(p.gamma_r, table.edge)
    return AffineCircuit(mu, leak, A, sensory_table, gamma, table, gamma_r)


@triton.jit
def activate(z, SETTINGS: tl.constexpr):
    """`act(z)`."""
    if SETTINGS[ACTIVATION] == SIGMOID:
        f = sigmoid_exp2(z * -LOG2E)
    elif SETTINGS[ACTIVATION] == RELU:
        f = tl.where(z < 0.0, 0.0, z)
    elif SETTINGS[ACTIVATION] == TANH:
        f = 2.0 * sigmoid_exp2(z * -2.0 * LOG2E) - 1.0
    else:
        f = tl.where(z < -1.0, -1.0, tl.where(z > 1.0, 1.0, z))
    return f


@triton.jit
def slope_of(f, SETTINGS: tl.constexpr):
    """`act'(z)` from `f = act(z)`; zero at a corner, as in torch."""
    if SETTINGS[ACTIVATION] == SIGMOID:
        slope = f * (1.0 - f)
    elif SETTINGS[ACTIVATION] == RELU:
        slope = tl.where(f > 0.0, 1.0, 0.0).to(f.dtype)
    elif SETTINGS[ACTIVATION] == TANH:
        slope = 1.0 - f * f
    else:
        slope = tl.where(tl.abs(f) < 1.0, 1.0, 0.0).to(f.dtype)
    return slope


@triton.jit
def rate_at(c, f, SETTINGS: tl.constexpr):
    """The rate at f."""
    rate = c.leak
    if SETTINGS[LIQUID]:
        if SETTINGS[MAGNITUDE]:
            rate += tl.abs(f)
        else:
            rate += f
    return rate


@triton.jit
def rate_back(f, d_rate, SETTINGS: tl.constexpr):
    """The part of the gradient of the rate that goes to f."""
    if SETTINGS[LIQUID]:
        d_f = tl.where(f < 0.0, -d_rate, d_rate) if SETTINGS[MAGNITUDE] else d_rate
    else:
        d_f = tl.full(d_rate.shape, 0.0, d_rate.dtype)
    return d_f


@triton.jit
def sense(c, x, TABLES: tl.constexpr):
    """`mu + gamma x`, (N,)."""
    return c.mu + total(c.gamma * fetch(x, c.sensory_table.other), c.sensory_table, TABLES, SENSORY_BY_TARGET)


@triton.jit
def unfold(c, v, h, sensed, SETTINGS: tl.constexpr, TABLES: tl.constexpr):
    """One solver step: returns the next state, and f."""
    z = sensed + total(c.gamma_r * fetch(v, c.table.other), c.table, TABLES, OLD_BY_TARGET)
    f = activate(z, SETTINGS)
    rate = rate_at(c, f, SETTINGS)
    slope = c.A * f - rate * v
    if SETTINGS[EULER]:
        step = h * slope
    else:
        s, r = fraction(h)
        step = s * slope / (r + s * rate)
    return v + step, f


@triton.jit(do_not_specialize=NUMBERS)
def forward(
    p, tables, inputs, state, elapsed, row_stride, time_stride, reset, mask, states, time, units, features,
    SETTINGS: tl.constexpr, TABLES: tl.constexpr, NEURONS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """Computes states (B, T, N), with one Triton program for each row."""
    row = tl.program_id(0).to(tl.int64)  # rows times steps times neurons can pass 2^31
    neuron, feature = tl.arange(0, NEURONS), tl.arange(0, FEATURES)
    c = load_circuit(p, tables, units, TABLES, NEURONS)
    v = tl.load(state + row * units + neuron, neuron < units, 0.0)
    for t in range(time):
        at = row * time + t
        if reset is not None:
            v = tl.where(tl.load(reset + at) != 0, 0.0, v)
        kept = v
        sensed = sense(c, tl.load(inputs + at * features + feature, feature < features, 0.0), TABLES)
        h = tl.load(elapsed + row * row_stride + tl.cast(t, tl.int64) * time_stride) / SETTINGS[UNFOLDS]
        for _ in range(SETTINGS[UNFOLDS]):
            v = unfold(c, v, h, sensed, SETTINGS, TABLES)[0]
        if mask is not None:
            v = tl.where(tl.load(mask + at) != 0, v, kept)
        tl.store(states + at * units + neuron, v, neuron < units)


@triton.jit(do_not_specialize=NUMBERS)
def backward(
    p, tables, inputs, state, elapsed, row_stride, time_stride, reset, mask, states, time, units, features,
    grad_states, grad_inputs, grad_state, grad_elapsed, grads, scratch, batch, size,
    SETTINGS: tl.constexpr, TABLES: tl.constexpr, NEURONS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """Computes gradients of inputs, state and elapsed, and each Triton program's share of those of the parameters.

    Program k takes rows k, k + programs, ...; its scratch holds the state before every unfold and its f,
    (unfolds, 2, N). The shares, (programs, size), are yet to be summed over the programs.
    """
    L: tl.constexpr = SETTINGS[UNFOLDS]
    program = tl.program_id(0).to(tl.int64)
    neuron, feature = tl.arange(0, NEURONS), tl.arange(0, FEATURES)
    real, present = neuron < units, feature < features
    scratch += program * (2 * L * NEURONS) + neuron
    c = load_circuit(p, tables, units, TABLES, NEURONS)
    table, sensory_table = (
        load_table(tables, TABLES, OLD_BY_SOURCE, NEURONS),
        load_table(tables, TABLES, SENSORY_BY_SOURCE, FEATURES),
    )
    gamma_r, gamma = load_weights(p.gamma_r, table.edge), load_weights(p.gamma, sensory_table.edge)
    zero = tl.full((NEURONS,), 0.0, c.mu.dtype)
    sum_mu, sum_leak, sum_A = zero, zero, zero
    sum_gamma_r = tl.full(table.edge.shape, 0.0, c.mu.dtype)
    sum_gamma = tl.full(sensory_table.edge.shape, 0.0, c.mu.dtype)
    # Each program has several rows, so that fewer shares of gradients are left to be summed.
    for row in range(program, batch, tl.num_programs(0)):
        g = zero
        for back in range(time):
            t = time - 1 - back
            at = row * time + t
            v = state_before(state, states, reset, row, t, time, units, NEURONS)
            g, held = enter_step(g, grad_states, mask, at, units, NEURONS)
            x = tl.load(inputs + at * features + feature, present, 0.0)
            sensed = sense(c, x, TABLES)
            h = tl.load(elapsed + row * row_stride + tl.cast(t, tl.int64) * time_stride) / L
            for k in range(L):
                after, f = unfold(c, v, h, sensed, SETTINGS, TABLES)
                tl.store(scratch + 2 * k * NEURONS, v)
                tl.store(scratch + (2 * k + 1) * NEURONS, f)
                v = after
            tl.debug_barrier()
            d_sensed, d_h = zero, zero
            for back_k in range(L):
                k = L - 1 - back_k
                old = tl.load(scratch + 2 * k * NEURONS)
                f = tl.load(scratch + (2 * k + 1) * NEURONS)
                rate = rate_at(c, f, SETTINGS)
                if SETTINGS[EULER]:
                    gc = g
                    u = old
                    own = 1.0 - h * rate
                    q = h * gc
                    driven = h * f
                else:
                    s, r = fraction(h)
                    kept = 1.0 / (r + s * rate)
                    own = r * kept
                    gc = g * own
                    u = v  # by the quotient rule the state after the step, not the one before
                    q = s * kept * g
                    driven = s * f * kept
                d_h += gc * (c.A * f - u * rate)
                sum_A += driven * g  # q f, where q can be too small for a float
                sum_leak -= u * q
                d_f = c.A * q - rate_back(f, u * q, SETTINGS)
                d_z = d_f * slope_of(f, SETTINGS)
                d_sensed += d_z
                arrived = fetch(d_z, table.other)
                sum_gamma_r += arrived * of_owners(old, table)
                g = g * own + total(gamma_r * arrived, table, TABLES, OLD_BY_SOURCE)
                v = old
            tl.debug_barrier()
            sum_mu += d_sensed
            arrived = fetch(d_sensed, sensory_table.other)
            sum_gamma += arrived * of_owners(x, sensory_table)
            if grad_inputs is not None:
                d_x = total(gamma * arrived, sensory_table, TABLES, SENSORY_BY_SOURCE)
                tl.store(grad_inputs + at * features + feature, d_x, present)
            if grad_elapsed is not None:
                tl.store(grad_elapsed + at, tl.sum(d_h, 0) / L)
            g = leave_step(g, held, reset, at)
        tl.store(grad_state + row * units + neuron, g, real)

    grads += program * size
    store_slots(grads, sensory_table.edge, sum_gamma)
    store_slots(grads + SETTINGS[SENSORY], table.edge, sum_gamma_r)
    grads += SETTINGS[SYNAPSES] + SETTINGS[SENSORY]
    tl.store(grads + neuron, sum_mu, real)
    grads += units
    if p.tau_raw is not None:
        tau_raw = tl.load(p.tau_raw + neuron, real, 0.0)
        tl.store(grads + neuron, -sum_leak * c.leak * c.leak * sigmoid_exp2(tau_raw * -LOG2E), real)
        grads += units
    if p.A is not None:
        tl.store(grads + neuron, sum_A, real)


def scratch_vectors(settings: AffineSettings) -> int:
    """Vectors (N,) of scratch that each Triton program of the backward pass needs."""
    return 2 * settings.unfolds
