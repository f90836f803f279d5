# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""Conductance-based liquid time-constant neurons in Triton (ops/kernels/ltc.h has the equations and their backward).

A program runs one row through its whole sequence: the state, all that is known of each synapse and, in the backward
pass, the sums of its gradients stay in registers. Synapses lie in tables of slots (see `gpu.py`), by target to sum
conductances and again by source to sum what flows back; there each sigmoid is computed once more, which is cheaper
than carrying it across. The functions that all three kinds of cell share come first.

Dense 32 x 32 at 4096 x 128 has a floor of 1.5 ms forward and twice that backward on an H200 (two special functions a
sigmoid, and two sigmoids a synapse backward); by their instruction counts the kernels should take about 2 ms and 6 ms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
# Whole numbers for which a kernel is not compiled anew, whether they are 1, multiples of 16 or others.
NUMBERS = ["row_stride", "time_stride", "time", "units", "features", "batch", "size"]


@triton.jit
def sigmoid_exp2(x):
    """`1 / (1 + 2^x)`, the logistic function of `-x ln 2`."""
    return 1.0 / (1.0 + tl.exp2(x))


@triton.jit
def positive(x):
    """`log(1 + exp(x)) + 1e-8`, as cells/positive.py has it.

    That is `max(x, 0) + log(1 + u)`, `u = exp(-|x|)`, the logarithm by its series `2 atanh(y)`, `y = u / (2 + u)`.
    """
    u = tl.exp2(tl.abs(x) * -LOG2E)
    y = u / (2.0 + u)
    series = 0.0 * y
    for k in tl.static_range(17, -1, -1):
        series = series * (y * y) + 1.0 / (2 * k + 1)
    return 1e-8 + tl.maximum(x, 0.0) + 2.0 * y * series


class Table(NamedTuple):
    """Edges in slots: K deep, C columns, each column owned by one neuron or input (an edge's target, say).

    :param edge: which edge, (K, C); -1 in an empty slot
    :param other: its end that is not the owner, (K, C)
    :param owner: of each column, (C,)
    :param first: each owner's first column, (N,)
    :param count: how many it has, (N,)
    """

    edge: Any
    other: Any
    owner: Any
    first: Any
    count: Any


@triton.jit
def load_table(tables, SHAPE: tl.constexpr, OWNERS: tl.constexpr):
    """Reads a `Table` from where `gpu.py` put it."""
    K: tl.constexpr = SHAPE[1]
    C: tl.constexpr = SHAPE[2]
    column, owner = tl.arange(0, C), tl.arange(0, OWNERS)
    slot = tl.arange(0, K)[:, None] * C + column[None, :]
    edges = tables + SHAPE[0]
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
    """`values[index]`, (K, C), of values (N,)."""
    return tl.gather(tl.broadcast_to(values[None, :], (index.shape[0], values.shape[0])), index, 1)


@triton.jit
def of_owners(values, table):
    """Each column's owner's value, from values (N,), in a shape that broadcasts to (K, C)."""
    return fetch(values, tl.broadcast_to(table.owner[None, :], table.edge.shape))


@triton.jit
def total(values, table, PARTS: tl.constexpr):
    """Values of slots (K, C) summed for their owners, whose columns lie side by side, at most PARTS of them.

    PARTS is 0 where column j is owner j's.
    """
    sums = tl.sum(values, 0)
    if PARTS > 0:
        part = tl.arange(0, PARTS)[:, None]
        there = part < table.count[None, :]
        sums = fetch(sums, tl.where(there, table.first[None, :] + part, 0))
        sums = tl.sum(tl.where(there, sums, 0.0), 0)
    return sums


@triton.jit
def totals(one, other, table, PARTS: tl.constexpr):
    """`total` of both; together they wait for the other warps once instead of twice."""
    one, other = tl.split(tl.sum(tl.join(one, other), 0))
    if PARTS > 0:
        part = tl.arange(0, PARTS)[:, None]
        there = part < table.count[None, :]
        column = tl.where(there, table.first[None, :] + part, 0)
        one, other = tl.where(there, fetch(one, column), 0.0), tl.where(there, fetch(other, column), 0.0)
        one, other = tl.split(tl.sum(tl.join(one, other), 0))
    return one, other


@triton.jit
def store_slots(grads, edge, values):
    """Stores the value of every slot at its edge."""
    tl.store(grads + edge, values, edge >= 0)


@triton.jit
def state_before(state, states, reset, row, t, time, units, NEURONS: tl.constexpr):
    """The state that step t of a row starts from, (N,)."""
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
    """The gradient of the state after a step, cut in two: what goes into the step, and what a mask holds back."""
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
    """The gradient of the state before a step: together again, and zero where the state was reset."""
    g += held
    if reset is not None:
        g = tl.where(tl.load(reset + at) != 0, 0.0, g)
    return g


class Synapses(NamedTuple):
    """What is known of the synapses of a table, zero in empty slots: `s = sigmoid_exp2(slope (v - mu))`."""

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
    """The conductance of every slot; gap junction k is two edges, k and G + k."""
    there = edge >= 0
    return tl.where(there, positive(tl.load(gap_raw + edge % G, there, 0.0)), 0.0)


@triton.jit
def conduct(v, synapses, table, PARTS: tl.constexpr):
    """Every owner's conductance and driven current, (N,), from the values v (K, C) at the synapses' other ends."""
    a = synapses.w * sigmoid_exp2(v * synapses.slope - synapses.mu * synapses.slope)
    return totals(a, a * synapses.E, table, PARTS)


class Parameters(NamedTuple):
    """Pointers to the parameters, in the program's order."""

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


class Circuit(NamedTuple):
    """What a program keeps in registers to move the state: parameters of neurons, synapses by target."""

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
    """Reads the circuit; settings are synapses, sensory synapses, gap junctions, unfolds, euler."""
    neuron = tl.arange(0, NEURONS)
    real = neuron < units
    gleak = positive(tl.load(p.gleak_raw + neuron, real, 0.0))
    cm = positive(tl.load(p.cm_raw + neuron, real, 0.0))
    leak = gleak * tl.load(p.vleak + neuron, real, 0.0)
    sensory_table = load_table(tables, TABLES[0], NEURONS)
    sensory = load_synapses(sensory_table.edge, p.sensory_w_raw, p.sensory_mu, p.sensory_sigma, p.sensory_E)
    table = load_table(tables, TABLES[1], NEURONS)
    synapses = load_synapses(table.edge, p.w_raw, p.mu, p.sigma, p.E)
    slow, gap_table, gap = gleak, table, synapses.w
    if SETTINGS[2] > 0:
        gap_table = load_table(tables, TABLES[4], NEURONS)
        gap = load_gaps(gap_table.edge, p.gap_raw, SETTINGS[2])
        slow = gleak + total(gap, gap_table, TABLES[4][3])
    return Circuit(gleak, slow, leak, cm, sensory_table, sensory, table, synapses, gap_table, gap)


@triton.jit
def sense(c, x, p, features, TABLES: tl.constexpr, FEATURES: tl.constexpr):
    """Mapped inputs (I,), and what neurons conduct whatever their state: conductance and current, (N,)."""
    feature = tl.arange(0, FEATURES)
    if p.input_scale is not None:
        x *= tl.load(p.input_scale + feature, feature < features, 0.0)
    if p.input_shift is not None:
        x += tl.load(p.input_shift + feature, feature < features, 0.0)
    # an empty slot sees 0, since its slope, 0, times infinity is not a number
    seen = tl.where(c.sensory_table.edge >= 0, fetch(x, c.sensory_table.other), 0.0)
    conductance, current = conduct(seen, c.sensory, c.sensory_table, TABLES[0][3])
    return x, c.slow + conductance, c.leak + current


@triton.jit
def unfold(c, v, h, G, Q, SETTINGS: tl.constexpr, TABLES: tl.constexpr):
    """One solver step: the next state, its derivative to the old one (synapses apart), and its derivative to h."""
    conductance, current = conduct(fetch(v, c.table.other), c.synapses, c.table, TABLES[1][3])
    conductance += G
    current += Q
    if SETTINGS[2] > 0:
        current += total(c.gap * fetch(v, c.gap_table.other), c.gap_table, TABLES[4][3])
    C = 1.0 / c.cm if SETTINGS[4] else 1.0 / (c.cm + h * conductance)
    after = v + h * C * (current - conductance * v)
    if SETTINGS[4]:
        own = 1.0 - h * C * conductance
        slope = C * (current - conductance * v)
    else:
        own = c.cm * C
        slope = C * (current - conductance * after)
    return after, own, slope


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
        kept = v
        x = tl.load(inputs + at * features + feature, feature < features, 0.0)
        _, G, Q = sense(c, x, p, features, TABLES, FEATURES)
        h = tl.load(elapsed + row * row_stride + t * time_stride) / SETTINGS[3]
        for _ in range(SETTINGS[3]):
            v = unfold(c, v, h, G, Q, SETTINGS, TABLES)[0]
        if mask is not None:
            v = tl.where(tl.load(mask + at) != 0, v, kept)
        tl.store(states + at * units + neuron, v, neuron < units)


class Sums(NamedTuple):
    """Sums over rows, steps and unfolds for the synapses of a table: see `flow_back`."""

    qs: Any
    da: Any
    dz: Any
    dz_away: Any


@triton.jit
def flow_back(away, q, r, synapses, table, sums):
    """From `away = v - mu` (K, C) and gradients q and r (N,) of the targets' currents and conductances.

    With z = sigma away, s = sigmoid(z), a = w s:  d a = q E + r,  d z = d a w s (1 - s).
    :return: d z slope of every slot, and the sums with q s, d a s, d z and d z away added
    """
    s = sigmoid_exp2(away * synapses.slope)
    qs = fetch(q, table.other) * s
    da = qs * synapses.E + fetch(r, table.other) * s
    dz = da * synapses.w * (1.0 - s)
    return dz * synapses.slope, Sums(sums.qs + qs, sums.da + da, sums.dz + dz, sums.dz_away + dz * away)


@triton.jit
def store_synapses(grads, COUNT: tl.constexpr, edge, synapses, w_raw, sums):
    """The gradients of w_raw, mu, sigma and E, one after the other."""
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
    """Gradients of inputs, state and elapsed, and of the parameters, (programs, size), to be summed over the programs.

    Program k takes rows k, k + programs, ...; its scratch holds an unfold's state and two derivatives, (unfolds, 3, N).
    """
    L: tl.constexpr = SETTINGS[3]
    first = tl.program_id(0).to(tl.int64)
    neuron, feature = tl.arange(0, NEURONS), tl.arange(0, FEATURES)
    real, present = neuron < units, feature < features
    scratch += first * (3 * L * NEURONS) + neuron
    c = load_circuit(p, tables, units, SETTINGS, TABLES, NEURONS)
    table = load_table(tables, TABLES[2], NEURONS)
    synapses = load_synapses(table.edge, p.w_raw, p.mu, p.sigma, p.E)
    sensory_table = load_table(tables, TABLES[3], FEATURES)
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
    for row in range(first, batch, tl.num_programs(0)):
        g = zero
        for back in range(time):
            t = time - 1 - back
            at = row * time + t
            v = state_before(state, states, reset, row, t, time, units, NEURONS)
            g, held = enter_step(g, grad_states, mask, at, units, NEURONS)
            x = tl.load(inputs + at * features + feature, present, 0.0)
            mapped, G, Q = sense(c, x, p, features, TABLES, FEATURES)
            h = tl.load(elapsed + row * row_stride + t * time_stride) / L
            for k in range(L):
                after, own, slope = unfold(c, v, h, G, Q, SETTINGS, TABLES)
                tl.store(scratch + 3 * k * NEURONS, v)
                tl.store(scratch + (3 * k + 1) * NEURONS, own)
                tl.store(scratch + (3 * k + 2) * NEURONS, slope)
                v = after
            tl.debug_barrier()
            d_G, d_Q, d_h = zero, zero, zero
            for back_k in range(L):
                k = L - 1 - back_k
                old = tl.load(scratch + 3 * k * NEURONS)
                own = tl.load(scratch + (3 * k + 1) * NEURONS)
                slope = tl.load(scratch + (3 * k + 2) * NEURONS)
                if SETTINGS[4]:
                    gc = g / c.cm
                    q = h * gc
                    r = -old * q
                else:
                    gc = g * own / c.cm
                    q = h * gc
                    r = -v * q
                d_h += g * slope
                sum_cm += gc * (old - v)
                d_Q += q
                d_G += r
                away = of_owners(old, table) - synapses.mu
                flow, sums = flow_back(away, q, r, synapses, table, sums)
                g = g * own - total(flow, table, TABLES[2][3]) * LN2
                if SETTINGS[2] > 0:
                    owned_q = of_owners(q, c.gap_table)
                    sum_gap += owned_q * fetch(old, c.gap_table.other) + of_owners(r, c.gap_table)
                    g += total(c.gap * fetch(q, c.gap_table.other), c.gap_table, TABLES[4][3])
                v = old
            tl.debug_barrier()
            sum_q += d_Q
            sum_r += d_G
            away = of_owners(mapped, sensory_table) - sensory.mu
            away = tl.where(sensory_table.edge >= 0, away, 0.0)
            flow, sensory_sums = flow_back(away, d_Q, d_G, sensory, sensory_table, sensory_sums)
            d_x = total(flow, sensory_table, TABLES[3][3]) * -LN2
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
    if SETTINGS[2] > 0:
        # of the two edges of a gap junction, the first stores and the second adds
        edge = c.gap_table.edge
        again = edge - SETTINGS[2]
        opened = tl.load(p.gap_raw + edge % SETTINGS[2], edge >= 0, 0.0)
        values = sum_gap * sigmoid_exp2(opened * -LOG2E)
        tl.store(grads + edge, values, (edge >= 0) & (again < 0))
        tl.debug_barrier()
        values += tl.load(grads + again, again >= 0, 0.0)
        tl.store(grads + again, values, again >= 0)
    grads += SETTINGS[2]
    store_synapses(grads, SETTINGS[0], table.edge, synapses, p.w_raw, sums)
    grads += 4 * SETTINGS[0]
    store_synapses(grads, SETTINGS[1], sensory_table.edge, sensory, p.sensory_w_raw, sensory_sums)
    grads += 4 * SETTINGS[1]
    if p.input_scale is not None:
        tl.store(grads + feature, sum_scale, present)
        grads += features
    if p.input_shift is not None:
        tl.store(grads + feature, sum_shift, present)


def scratch_vectors(settings: tuple[int, ...]) -> int:
    """Vectors (N,) of scratch for each program of the backward pass."""
    return 3 * settings[3]
