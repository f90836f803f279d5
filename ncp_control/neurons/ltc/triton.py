# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""Conductance-based liquid time-constant neurons in Triton (kernel.h has the equations and gradients).

`shared.py` says how a kernel runs. The backward pass computes each sigmoid twice, once in the table by target and once
in that by source, which is cheaper than to carry it across.

Dense 32 x 32 at 4096 x 128 has a floor of 1.5 ms forward and twice that backward on an H200 (two special functions for
a sigmoid, and two sigmoids for a synapse backward); by their instruction counts the kernels should take about 2 ms and
6 ms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

from ncp_control.neurons.ltc.kind import ON_GPU, LTCSettings
from ncp_control.ops.gpu.shared import (
    LN2,
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
    totals,
)
from ncp_control.ops.gpu.tables import EVERY_KIND

SYNAPSES = place(LTCSettings._fields, "synapses")
SENSORY = place(LTCSettings._fields, "sensory")
GAPS = place(LTCSettings._fields, "gaps")
UNFOLDS = place(LTCSettings._fields, "unfolds")
EULER = place(LTCSettings._fields, "euler")
GAP_TABLE = place((*EVERY_KIND, *ON_GPU.tables), "gaps")


class Synapses(NamedTuple):
    """Parameters of the synapses of a table, zero in empty slots: `s = sigmoid_exp2(slope (v - mu))`."""

    slope: Any
    mu: Any
    w: Any
    E: Any


@triton.jit
def load_synapses(edge, w_raw, mu, sigma, E):
    """Reads the parameters of every slot's synapse."""
    there = edge >= 0
    slope = tl.load(sigma + edge, there, 0.0) * -LOG2E
    w = tl.where(there, positive(tl.load(w_raw + edge, there, 0.0)), 0.0)
    return Synapses(slope, tl.load(mu + edge, there, 0.0), w, tl.load(E + edge, there, 0.0))


@triton.jit
def load_gaps(edge, gap_raw, G: tl.constexpr):
    """Reads the conductance of every slot; gap junction k is two edges, k and G + k."""
    there = edge >= 0
    return tl.where(there, positive(tl.load(gap_raw + edge % G, there, 0.0)), 0.0)


@triton.jit
def conduct(v, synapses, table, TABLES: tl.constexpr, WHICH: tl.constexpr):
    """Sums every owner's conductance and driven current, (N,), from values v (K, C) at its synapses' other ends."""
    # mu slope is the same in every step, which leaves the loop one multiply-add.
    a = synapses.w * sigmoid_exp2(v * synapses.slope - synapses.mu * synapses.slope)
    return totals(a, a * synapses.E, table, TABLES, WHICH)


class LTCParameters(NamedTuple):
    """Pointers to the parameters, in the program's order; None for one that the cell does without."""

    gleak_raw: Any
    vleak: Any
    cm_raw: Any
    gap_raw: Any
    w_raw: Any
    mu: Any
    sigma: Any
    E: Any
    sensory_w_raw: Any
    sensory_mu: Any
    sensory_sigma: Any
    sensory_E: Any
    input_scale: Any
    input_shift: Any


PARAMETERS = LTCParameters


class LTCCircuit(NamedTuple):
    """What a Triton program keeps in registers to move the state: parameters of neurons, and synapses by target."""

    gleak: Any
    slow: Any
    leak: Any
    cm: Any
    sensory_table: Any
    sensory: Any
    table: Any
    synapses: Any
    gap_table: Any
    gap: Any


@triton.jit
def load_circuit(p, tables, units, SETTINGS: tl.constexpr, TABLES: tl.constexpr, NEURONS: tl.constexpr):
    """Reads the circuit."""
    neuron = tl.arange(0, NEURONS)
    real = neuron < units
    # Beyond the last neuron a raw 0 is a capacitance of 0.69, so that nothing is divided by zero there.
    gleak = positive(tl.load(p.gleak_raw + neuron, real, 0.0))
    cm = positive(tl.load(p.cm_raw + neuron, real, 0.0))
    leak = gleak * tl.load(p.vleak + neuron, real, 0.0)
    sensory_table = load_table(tables, TABLES, SENSORY_BY_TARGET, NEURONS)
    sensory = load_synapses(sensory_table.edge, p.sensory_w_raw, p.sensory_mu, p.sensory_sigma, p.sensory_E)
    table = load_table(tables, TABLES, OLD_BY_TARGET, NEURONS)
    synapses = load_synapses(table.edge, p.w_raw, p.mu, p.sigma, p.E)
    slow, gap_table, gap = gleak, table, synapses.w
    if SETTINGS[GAPS] > 0:
        gap_table = load_table(tables, TABLES, GAP_TABLE, NEURONS)
        gap = load_gaps(gap_table.edge, p.gap_raw, SETTINGS[GAPS])
        slow = gleak + total(gap, gap_table, TABLES, GAP_TABLE)
    return LTCCircuit(gleak, slow, leak, cm, sensory_table, sensory, table, synapses, gap_table, gap)


@triton.jit
def sense(c, x, p, features, TABLES: tl.constexpr, FEATURES: tl.constexpr):
    """Computes the mapped inputs (I,), and the conductance and current (N,) that do not depend on the state."""
    feature = tl.arange(0, FEATURES)
    if p.input_scale is not None:
        x *= tl.load(p.input_scale + feature, feature < features, 0.0)
    if p.input_shift is not None:
        x += tl.load(p.input_shift + feature, feature < features, 0.0)
    conductance, current = conduct(
        fetch(x, c.sensory_table.other), c.sensory, c.sensory_table, TABLES, SENSORY_BY_TARGET
    )
    return x, c.slow + conductance, c.leak + current


@triton.jit
def unfold(c, v, h, G, Q, SETTINGS: tl.constexpr, TABLES: tl.constexpr):
    """One solver step.

    :return: the next state; with explicit Euler its derivative by the old state (without the synapses), and with the
        fused solver `1 / (r cm + s conductance)`; and its derivative by h
    """
    conductance, current = conduct(fetch(v, c.table.other), c.synapses, c.table, TABLES, OLD_BY_TARGET)
    conductance += G
    current += Q
    if SETTINGS[GAPS] > 0:
        current += total(c.gap * fetch(v, c.gap_table.other), c.gap_table, TABLES, GAP_TABLE)
    if SETTINGS[EULER]:
        C = 1.0 / c.cm
        after = v + h * C * (current - conductance * v)
        kept = 1.0 - h * C * conductance
        slope = C * (current - conductance * v)
    else:
        s, r = fraction(h)
        kept = 1.0 / (r * c.cm + s * conductance)
        after = v + s * kept * (current - conductance * v)
        slope = r * kept * (current - conductance * after)
    return after, kept, slope


@triton.jit(do_not_specialize=NUMBERS)
def forward(
    p, tables, inputs, state, elapsed, row_stride, time_stride, reset, mask, states, time, units, features,
    SETTINGS: tl.constexpr, TABLES: tl.constexpr, NEURONS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """Computes states (B, T, N), with one Triton program for each row."""
    row = tl.program_id(0).to(tl.int64)  # rows times steps times neurons can pass 2^31
    neuron, feature = tl.arange(0, NEURONS), tl.arange(0, FEATURES)
    c = load_circuit(p, tables, units, SETTINGS, TABLES, NEURONS)
    v = tl.load(state + row * units + neuron, neuron < units, 0.0)
    for t in range(time):
        at = row * time + t
        if reset is not None:
            v = tl.where(tl.load(reset + at) != 0, 0.0, v)
        kept = v
        x = tl.load(inputs + at * features + feature, feature < features, 0.0)
        _, G, Q = sense(c, x, p, features, TABLES, FEATURES)
        h = tl.load(elapsed + row * row_stride + tl.cast(t, tl.int64) * time_stride) / SETTINGS[UNFOLDS]
        for _ in range(SETTINGS[UNFOLDS]):
            v = unfold(c, v, h, G, Q, SETTINGS, TABLES)[0]
        if mask is not None:
            v = tl.where(tl.load(mask + at) != 0, v, kept)
        tl.store(states + at * units + neuron, v, neuron < units)


class Sums(NamedTuple):
    """Sums over rows, steps and unfolds for the synapses of a table (see `flow_back`)."""

    qs: Any
    da: Any
    dz: Any
    dz_away: Any


@triton.jit
def flow_back(away, q, r, synapses, table, sums):
    """Takes gradients back through the synapses of a table, from `away = v - mu` (K, C).

    With z = sigma away, s = sigmoid(z), a = w s:  d a = q E + r,  d z = d a w s (1 - s).

    :param q: gradients of the targets' currents, (N,)
    :param r: gradients of the targets' conductances, (N,)
    :return: d z slope of every slot, and the sums with q s, d a s, d z and d z away added
    """
    s = sigmoid_exp2(away * synapses.slope)
    qs = fetch(q, table.other) * s
    da = qs * synapses.E + fetch(r, table.other) * s
    dz = da * synapses.w * (1.0 - s)
    return dz * synapses.slope, Sums(sums.qs + qs, sums.da + da, sums.dz + dz, sums.dz_away + dz * away)


@triton.jit
def store_synapses(grads, COUNT: tl.constexpr, edge, synapses, w_raw, sums):
    """Stores the gradients of w_raw, mu, sigma and E, one after the other."""
    opened = tl.load(w_raw + edge, edge >= 0, 0.0)
    store_slots(grads, edge, sums.da * sigmoid_exp2(opened * -LOG2E))
    store_slots(grads + COUNT, edge, synapses.slope * sums.dz * LN2)
    store_slots(grads + 2 * COUNT, edge, sums.dz_away)
    store_slots(grads + 3 * COUNT, edge, synapses.w * sums.qs)


@triton.jit(do_not_specialize=NUMBERS)
def backward(
    p, tables, inputs, state, elapsed, row_stride, time_stride, reset, mask, states, time, units, features,
    grad_states, grad_inputs, grad_state, grad_elapsed, grads, scratch, batch, size,
    SETTINGS: tl.constexpr, TABLES: tl.constexpr, NEURONS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """Computes gradients of inputs, state and elapsed, and each Triton program's share of those of the parameters.

    Program k takes rows k, k + programs, ...; its scratch holds the state and two derivatives of every unfold,
    (unfolds, 3, N). The shares, (programs, size), are yet to be summed over the programs.
    """
    L: tl.constexpr = SETTINGS[UNFOLDS]
    first = tl.program_id(0).to(tl.int64)
    neuron, feature = tl.arange(0, NEURONS), tl.arange(0, FEATURES)
    real, present = neuron < units, feature < features
    scratch += first * (3 * L * NEURONS) + neuron
    c = load_circuit(p, tables, units, SETTINGS, TABLES, NEURONS)
    table = load_table(tables, TABLES, OLD_BY_SOURCE, NEURONS)
    synapses = load_synapses(table.edge, p.w_raw, p.mu, p.sigma, p.E)
    sensory_table = load_table(tables, TABLES, SENSORY_BY_SOURCE, FEATURES)
    sensory = load_synapses(sensory_table.edge, p.sensory_w_raw, p.sensory_mu, p.sensory_sigma, p.sensory_E)
    zero = tl.full((NEURONS,), 0.0, c.cm.dtype)
    zeros = tl.full(table.edge.shape, 0.0, c.cm.dtype)
    sums = Sums(zeros, zeros, zeros, zeros)
    zeros = tl.full(sensory_table.edge.shape, 0.0, c.cm.dtype)
    sensory_sums = Sums(zeros, zeros, zeros, zeros)
    sum_r, sum_q, sum_cm = zero, zero, zero
    sum_gap = tl.full(c.gap_table.edge.shape, 0.0, c.cm.dtype)
    sum_scale = tl.full((FEATURES,), 0.0, c.cm.dtype)
    sum_shift = sum_scale
    # Each program has several rows, so that fewer shares of gradients are left to be summed.
    for row in range(first, batch, tl.num_programs(0)):
        g = zero
        for back in range(time):
            t = time - 1 - back
            at = row * time + t
            v = state_before(state, states, reset, row, t, time, units, NEURONS)
            g, held = enter_step(g, grad_states, mask, at, units, NEURONS)
            x = tl.load(inputs + at * features + feature, present, 0.0)
            mapped, G, Q = sense(c, x, p, features, TABLES, FEATURES)
            h = tl.load(elapsed + row * row_stride + tl.cast(t, tl.int64) * time_stride) / L
            for k in range(L):
                after, kept, slope = unfold(c, v, h, G, Q, SETTINGS, TABLES)
                tl.store(scratch + 3 * k * NEURONS, v)
                tl.store(scratch + (3 * k + 1) * NEURONS, kept)
                tl.store(scratch + (3 * k + 2) * NEURONS, slope)
                v = after
            tl.debug_barrier()
            d_G, d_Q, d_h = zero, zero, zero
            for back_k in range(L):
                k = L - 1 - back_k
                old = tl.load(scratch + 3 * k * NEURONS)
                own = tl.load(scratch + (3 * k + 1) * NEURONS)
                slope = tl.load(scratch + (3 * k + 2) * NEURONS)
                if SETTINGS[EULER]:
                    gc = g / c.cm
                    q = h * gc
                    r = -old * q
                else:
                    short, long = fraction(h)
                    gc = g * long * own
                    q = g * short * own
                    r = -v * q  # by the quotient rule with the state after the step, not with the one before
                    own *= long * c.cm  # the weight of the old state in the mean
                d_h += g * slope
                sum_cm += gc * (old - v)
                d_Q += q
                d_G += r
                away = of_owners(old, table) - synapses.mu
                flow, sums = flow_back(away, q, r, synapses, table, sums)
                # A slope is -sigma log2(e), so that -ln 2 makes it sigma.
                g = g * own - total(flow, table, TABLES, OLD_BY_SOURCE) * LN2
                if SETTINGS[GAPS] > 0:
                    owned_q = of_owners(q, c.gap_table)
                    sum_gap += owned_q * fetch(old, c.gap_table.other) + of_owners(r, c.gap_table)
                    g += total(c.gap * fetch(q, c.gap_table.other), c.gap_table, TABLES, GAP_TABLE)
                v = old
            tl.debug_barrier()
            sum_q += d_Q
            sum_r += d_G
            away = of_owners(mapped, sensory_table) - sensory.mu
            flow, sensory_sums = flow_back(away, d_Q, d_G, sensory, sensory_table, sensory_sums)
            d_x = total(flow, sensory_table, TABLES, SENSORY_BY_SOURCE) * -LN2
            sum_scale += d_x * x
            sum_shift += d_x
            if grad_inputs is not None:
                if p.input_scale is not None:
                    d_x *= tl.load(p.input_scale + feature, present, 0.0)
                tl.store(grad_inputs + at * features + feature, d_x, present)
            if grad_elapsed is not None:
                tl.store(grad_elapsed + at, tl.sum(d_h, 0) / L)
            g = leave_step(g, held, reset, at)
        tl.store(grad_state + row * units + neuron, g, real)

    grads += first * size
    gleak_raw, cm_raw = tl.load(p.gleak_raw + neuron, real, 0.0), tl.load(p.cm_raw + neuron, real, 0.0)
    d_gleak = sum_r + sum_q * tl.load(p.vleak + neuron, real, 0.0)
    tl.store(grads + neuron, d_gleak * sigmoid_exp2(gleak_raw * -LOG2E), real)
    tl.store(grads + units + neuron, sum_q * c.gleak, real)
    tl.store(grads + 2 * units + neuron, sum_cm * sigmoid_exp2(cm_raw * -LOG2E), real)
    grads += 3 * units
    if SETTINGS[GAPS] > 0:
        # a gap junction is two edges: the first stores its gradient, and the second adds to it
        edge = c.gap_table.edge
        again = edge - SETTINGS[GAPS]
        opened = tl.load(p.gap_raw + edge % SETTINGS[GAPS], edge >= 0, 0.0)
        values = sum_gap * sigmoid_exp2(opened * -LOG2E)
        tl.store(grads + edge, values, (edge >= 0) & (again < 0))
        tl.debug_barrier()  # another thread may have stored what this one adds to
        values += tl.load(grads + again, again >= 0, 0.0)
        tl.store(grads + again, values, again >= 0)
    grads += SETTINGS[GAPS]
    store_synapses(grads, SETTINGS[SYNAPSES], table.edge, synapses, p.w_raw, sums)
    grads += 4 * SETTINGS[SYNAPSES]
    store_synapses(grads, SETTINGS[SENSORY], sensory_table.edge, sensory, p.sensory_w_raw, sensory_sums)
    grads += 4 * SETTINGS[SENSORY]
    if p.input_scale is not None:
        tl.store(grads + feature, sum_scale, present)
        grads += features
    if p.input_shift is not None:
        tl.store(grads + feature, sum_shift, present)


def scratch_vectors(settings: LTCSettings) -> int:
    """Vectors (N,) of scratch that each Triton program of the backward pass needs."""
    return 3 * settings.unfolds
