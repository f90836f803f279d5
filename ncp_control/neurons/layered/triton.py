# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""Circuits whose layers update in their order, in Triton: all of the kinds "cfc" and "dual" but their neurons.

`shared.py` says how a kernel runs. Synapses from earlier layers ("new" ones) carry this step's states. A kernel
computes all neurons at once, as many times as there are neurons in the longest chain of such synapses: each time one
more layer has its final state. The backward pass does the same in reverse.

A synapse has a weight for each of H linear maps of its kind, 1, 2 or 4 of them; a tuple of H tensors is called `maps`.
A kind brings functions for its neurons, where `n` is what the first returns, z are maps (N,), v is the state before a
step, t the elapsed time, and g the gradient of the state after the step:

- `load_neurons(p, bias, neuron, real)` reads the neurons' parameters
- `combine(z, v, t, n, SETTINGS)` returns the state after the step, and what else of it the backward pass reads, `kept`
- `split_back(g, kept, v, t, n, SETTINGS)` returns the gradients of z, and `rest`, which the next function reads
- `neurons_back(sums, d_z, rest, kept, v, t)` adds the gradients of the neurons' parameters to their sums, and returns
  them and the gradient of t, (N,)
- `state_back(g, d_z, kept, n)` returns what flows back to v without a synapse; a kind without such a path passes None
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

from ncp_control.neurons.dual.kind import DualSettings
from ncp_control.neurons.layered.kind import ON_GPU
from ncp_control.ops.gpu.shared import (
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
    state_before,
    total,
    totals,
)
from ncp_control.ops.gpu.tables import EVERY_KIND

# In the same places for both kinds.
SYNAPSES = place(DualSettings._fields, "synapses")
SENSORY = place(DualSettings._fields, "sensory")
NEW_BY_TARGET = place((*EVERY_KIND, *ON_GPU.tables), "new_by_target")
NEW_BY_SOURCE = place((*EVERY_KIND, *ON_GPU.tables), "new_by_source")
CHAIN = tl.constexpr(-1)  # the longest chain of new synapses: `tables.py` appends it


@triton.jit
def load_maps(values, index, there, COUNT, H: tl.constexpr):
    """Reads values (H, COUNT) at an index of any shape, zero where `there` is false."""
    first = tl.load(values + index, there, 0.0)
    if H == 1:
        return (first,)
    elif H == 2:
        return first, tl.load(values + COUNT + index, there, 0.0)
    else:
        second = tl.load(values + COUNT + index, there, 0.0)
        third = tl.load(values + 2 * COUNT + index, there, 0.0)
        return first, second, third, tl.load(values + 3 * COUNT + index, there, 0.0)


@triton.jit
def store_maps(values, index, there, COUNT, maps, H: tl.constexpr):
    """Stores maps where `load_maps` reads them."""
    tl.store(values + index, maps[0], there)
    if H > 1:
        tl.store(values + COUNT + index, maps[1], there)
    if H > 2:
        tl.store(values + 2 * COUNT + index, maps[2], there)
        tl.store(values + 3 * COUNT + index, maps[3], there)


@triton.jit
def zero_maps(like, H: tl.constexpr):
    """Zeros for every map, in the shape of `like`."""
    zero = tl.full(like.shape, 0.0, like.dtype)
    if H == 1:
        return (zero,)
    elif H == 2:
        return zero, zero
    else:
        return zero, zero, zero, zero


@triton.jit
def add_maps(z, values, weight, table, H: tl.constexpr, TABLES: tl.constexpr, WHICH: tl.constexpr):
    """Adds to maps z (N,) what arrives through the synapses of a table from neurons or inputs with these values."""
    seen = fetch(values, table.other)
    if H == 1:
        return (z[0] + total(weight[0] * seen, table, TABLES, WHICH),)
    else:
        first, second = totals(weight[0] * seen, weight[1] * seen, table, TABLES, WHICH)
        if H == 2:
            return z[0] + first, z[1] + second
        else:
            third, fourth = totals(weight[2] * seen, weight[3] * seen, table, TABLES, WHICH)
            return z[0] + first, z[1] + second, z[2] + third, z[3] + fourth


@triton.jit
def add_scaled(sums, maps, factor, H: tl.constexpr):
    """`sums + factor maps`, map by map."""
    first = sums[0] + maps[0] * factor
    if H == 1:
        return (first,)
    elif H == 2:
        return first, sums[1] + maps[1] * factor
    else:
        return first, sums[1] + maps[1] * factor, sums[2] + maps[2] * factor, sums[3] + maps[3] * factor


@triton.jit
def flow_back(d_z, weight, table, H: tl.constexpr):
    """Computes what flows back through every slot, (K, C), from the gradients of the targets' maps.

    :return: the flow, and the gradients as fetched for every slot
    """
    first = fetch(d_z[0], table.other)
    if H == 1:
        return weight[0] * first, (first,)
    elif H == 2:
        second = fetch(d_z[1], table.other)
        return weight[0] * first + weight[1] * second, (first, second)
    else:
        flow = weight[0] * first
        second, third, fourth = fetch(d_z[1], table.other), fetch(d_z[2], table.other), fetch(d_z[3], table.other)
        flow += weight[1] * second + weight[2] * third + weight[3] * fourth
        return flow, (first, second, third, fourth)


class LayeredCircuit(NamedTuple):
    """What a Triton program keeps in registers to move the state: parameters of neurons, and weights by target."""

    bias: Any
    neurons: Any
    sensory_table: Any
    sensory: Any
    old_table: Any
    old: Any
    new_table: Any
    new: Any


@triton.jit
def load_circuit(
    p, tables, units, load_neurons, H: tl.constexpr,
    SETTINGS: tl.constexpr, TABLES: tl.constexpr, NEURONS: tl.constexpr,
):  # fmt: skip
    """Reads the circuit."""
    neuron = tl.arange(0, NEURONS)
    real = neuron < units
    bias = load_maps(p.bias, neuron, real, units, H)
    neurons = load_neurons(p, bias, neuron, real)
    sensory_table = load_table(tables, TABLES, SENSORY_BY_TARGET, NEURONS)
    old_table = load_table(tables, TABLES, OLD_BY_TARGET, NEURONS)
    sensory = load_maps(p.sensory_weight, sensory_table.edge, sensory_table.edge >= 0, SETTINGS[SENSORY], H)
    old = load_maps(p.weight, old_table.edge, old_table.edge >= 0, SETTINGS[SYNAPSES], H)
    new_table, new = old_table, old  # without a chain these only fill the places, and are not read
    if SETTINGS[CHAIN] > 1:
        new_table = load_table(tables, TABLES, NEW_BY_TARGET, NEURONS)
        new = load_maps(p.weight, new_table.edge, new_table.edge >= 0, SETTINGS[SYNAPSES], H)
    return LayeredCircuit(bias, neurons, sensory_table, sensory, old_table, old, new_table, new)


@triton.jit
def step(c, x, v, t, combine, H: tl.constexpr, SETTINGS: tl.constexpr, TABLES: tl.constexpr):
    """Computes the next state, and what `split_back` needs."""
    z = add_maps(c.bias, x, c.sensory, c.sensory_table, H, TABLES, SENSORY_BY_TARGET)
    z = add_maps(z, v, c.old, c.old_table, H, TABLES, OLD_BY_TARGET)
    y, kept = combine(z, v, t, c.neurons, SETTINGS)
    if SETTINGS[CHAIN] > 1:
        for _ in range(SETTINGS[CHAIN] - 1):
            all_maps = add_maps(z, y, c.new, c.new_table, H, TABLES, NEW_BY_TARGET)
            y, kept = combine(all_maps, v, t, c.neurons, SETTINGS)
    return y, kept


@triton.jit
def forward_layers(
    p, tables, inputs, state, elapsed, row_stride, time_stride, reset, mask, states, time, units, features,
    load_neurons, combine, H: tl.constexpr,
    SETTINGS: tl.constexpr, TABLES: tl.constexpr, NEURONS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """Computes states (B, T, N), with one Triton program for each row."""
    row = tl.program_id(0).to(tl.int64)  # rows times steps times neurons can pass 2^31
    neuron, feature = tl.arange(0, NEURONS), tl.arange(0, FEATURES)
    c = load_circuit(p, tables, units, load_neurons, H, SETTINGS, TABLES, NEURONS)
    v = tl.load(state + row * units + neuron, neuron < units, 0.0)
    for t in range(time):
        at = row * time + t
        if reset is not None:
            v = tl.where(tl.load(reset + at) != 0, 0.0, v)
        x = tl.load(inputs + at * features + feature, feature < features, 0.0)
        h = tl.load(elapsed + row * row_stride + tl.cast(t, tl.int64) * time_stride)
        y, _ = step(c, x, v, h, combine, H, SETTINGS, TABLES)
        if mask is not None:
            y = tl.where(tl.load(mask + at) != 0, y, v)
        v = y
        tl.store(states + at * units + neuron, v, neuron < units)


@triton.jit
def backward_layers(
    p, tables, inputs, state, elapsed, row_stride, time_stride, reset, mask, states, time, units, features,
    grad_states, grad_inputs, grad_state, grad_elapsed, grads, batch, size, zeros,
    load_neurons, combine, split_back, neurons_back, state_back, H: tl.constexpr,
    SETTINGS: tl.constexpr, TABLES: tl.constexpr, NEURONS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """Computes gradients of inputs, state and elapsed, and each Triton program's share of those of the parameters.

    Program k takes rows k, k + programs, ...; it needs no scratch. The shares, (programs, size), are yet to be summed
    over the programs.

    :param zeros: zeros, with the fields that `neurons_back` sums, (N,) each
    :return: the neurons' parameters, the sums of their gradients, and where their share is to be stored
    """
    program = tl.program_id(0).to(tl.int64)
    neuron, feature = tl.arange(0, NEURONS), tl.arange(0, FEATURES)
    real, present = neuron < units, feature < features
    c = load_circuit(p, tables, units, load_neurons, H, SETTINGS, TABLES, NEURONS)
    old_table = load_table(tables, TABLES, OLD_BY_SOURCE, NEURONS)
    sensory_table = load_table(tables, TABLES, SENSORY_BY_SOURCE, FEATURES)
    old = load_maps(p.weight, old_table.edge, old_table.edge >= 0, SETTINGS[SYNAPSES], H)
    sensory = load_maps(p.sensory_weight, sensory_table.edge, sensory_table.edge >= 0, SETTINGS[SENSORY], H)
    new_table, new = old_table, old
    if SETTINGS[CHAIN] > 1:
        new_table = load_table(tables, TABLES, NEW_BY_SOURCE, NEURONS)
        new = load_maps(p.weight, new_table.edge, new_table.edge >= 0, SETTINGS[SYNAPSES], H)
    sum_bias, sum_sensory = zero_maps(c.bias[0], H), zero_maps(sensory[0], H)
    sum_old, sum_new = zero_maps(old[0], H), zero_maps(new[0], H)
    sums = zeros
    # Each program has several rows, so that fewer shares of gradients are left to be summed.
    for row in range(program, batch, tl.num_programs(0)):
        g = tl.full((NEURONS,), 0.0, c.bias[0].dtype)
        for back in range(time):
            t = time - 1 - back
            at = row * time + t
            v = state_before(state, states, reset, row, t, time, units, NEURONS)
            g, held = enter_step(g, grad_states, mask, at, units, NEURONS)
            x = tl.load(inputs + at * features + feature, present, 0.0)
            h = tl.load(elapsed + row * row_stride + tl.cast(t, tl.int64) * time_stride)
            y, kept = step(c, x, v, h, combine, H, SETTINGS, TABLES)
            d_y = g
            d_z, rest = split_back(d_y, kept, v, h, c.neurons, SETTINGS)
            if SETTINGS[CHAIN] > 1:
                for _ in range(SETTINGS[CHAIN] - 1):
                    flow, _arrived = flow_back(d_z, new, new_table, H)
                    d_y = g + total(flow, new_table, TABLES, NEW_BY_SOURCE)
                    d_z, rest = split_back(d_y, kept, v, h, c.neurons, SETTINGS)
                flow, arrived = flow_back(d_z, new, new_table, H)
                sum_new = add_scaled(sum_new, arrived, of_owners(y, new_table), H)
            sums, d_t = neurons_back(sums, d_z, rest, kept, v, h)
            sum_bias = add_scaled(sum_bias, d_z, 1.0, H)
            flow, arrived = flow_back(d_z, sensory, sensory_table, H)
            sum_sensory = add_scaled(sum_sensory, arrived, of_owners(x, sensory_table), H)
            if grad_inputs is not None:
                tl.store(
                    grad_inputs + at * features + feature,
                    total(flow, sensory_table, TABLES, SENSORY_BY_SOURCE),
                    present,
                )
            if grad_elapsed is not None:
                tl.store(grad_elapsed + at, tl.sum(d_t, 0))
            flow, arrived = flow_back(d_z, old, old_table, H)
            sum_old = add_scaled(sum_old, arrived, of_owners(v, old_table), H)
            if state_back is None:
                g = total(flow, old_table, TABLES, OLD_BY_SOURCE)
            else:
                straight = state_back(d_y, d_z, kept, c.neurons)
                g = total(flow, old_table, TABLES, OLD_BY_SOURCE) + straight
            g = leave_step(g, held, reset, at)
        tl.store(grad_state + row * units + neuron, g, real)

    grads += program * size
    store_maps(grads, old_table.edge, old_table.edge >= 0, SETTINGS[SYNAPSES], sum_old, H)
    if SETTINGS[CHAIN] > 1:
        store_maps(grads, new_table.edge, new_table.edge >= 0, SETTINGS[SYNAPSES], sum_new, H)
    grads += H * SETTINGS[SYNAPSES]
    store_maps(grads, sensory_table.edge, sensory_table.edge >= 0, SETTINGS[SENSORY], sum_sensory, H)
    grads += H * SETTINGS[SENSORY]
    store_maps(grads, neuron, real, units, sum_bias, H)
    return c.neurons, sums, grads + H * units
