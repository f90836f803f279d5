# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""Liquid neurons with two weights per synapse, in Triton (neuron.py has the equations).

`layered/triton.py` has the circuit around the neurons.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

from ncp_control.neurons.dual.kind import DualSettings
from ncp_control.neurons.layered.triton import backward_layers, forward_layers
from ncp_control.ops.gpu.shared import LOG2E, NUMBERS, sigmoid_exp2, tanh

STRONGEST = tl.constexpr(0.9)  # BRAKE in neuron.py


class DualParameters(NamedTuple):
    """Pointers to the parameters, in the program's order; brake_raw is None if neurons have no brake.

    Weights are (2, synapses) and the bias is (2, N), those of f before those of g; log_tau has two numbers.
    """

    weight: Any
    sensory_weight: Any
    bias: Any
    brake_raw: Any
    log_tau: Any


PARAMETERS = DualParameters


class DualNeurons(NamedTuple):
    """The brake of each neuron, (N,), and the logarithms of the least and of the greatest time constant."""

    brake: Any
    low: Any
    high: Any


@triton.jit
def load_neurons(p, bias, neuron, real):
    """Reads the parameters of the neurons."""
    brake = 0.0 * bias[0]
    if p.brake_raw is not None:
        brake = STRONGEST * sigmoid_exp2(tl.load(p.brake_raw + neuron, real, 0.0) * -LOG2E)
    return DualNeurons(brake, tl.load(p.log_tau), tl.load(p.log_tau + 1))


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
    TERMS: tl.constexpr = 14 if p.dtype == tl.float64 else 8  # up to 1/2, the next term is below rounding
    is_small = tl.abs(p) <= 0.5  # NaN is not
    small = tl.where(is_small, p, 0.5)
    series = 1.0 + 0.0 * small
    for n in tl.static_range(TERMS, 1, -1):
        series = 1.0 - series * small / n
    return tl.where(is_small, small * series, 1.0 - k)


@triton.jit
def combine(z, v, t, n, SETTINGS: tl.constexpr):
    """Computes the new state from the maps and the state v, and what `split_back` reads."""
    m = tanh(z[0] - n.brake * v)
    s = sigmoid_exp2(z[1] * -LOG2E)
    rate = tl.exp2((n.high + (n.low - n.high) * s) * -LOG2E)
    k = tl.exp2(t * rate * -LOG2E)
    left = lost(t * rate, k)
    return v + left * (m - v), Kept(m, s, rate, k, left)


@triton.jit
def split_back(g, kept, v, t, n, SETTINGS: tl.constexpr):
    """Computes the gradients of the maps, and that of -t / tau, from the gradient g of the new state."""
    m, s, rate, k, left = kept
    d_power = g * k * (v - m)
    d_f = g * left * (1.0 - m * m)
    return (d_f, d_power * t * rate * (n.low - n.high) * s * (1.0 - s)), d_power


@triton.jit
def neurons_back(sums, d_z, d_power, kept, v, t):
    """Adds the gradients of the neurons' parameters, and returns that of t."""
    d_log = d_power * t * kept.rate
    low, high = sums.low + d_log * kept.s, sums.high + d_log * (1.0 - kept.s)
    return DualNeurons(sums.brake - d_z[0] * v, low, high), -d_power * kept.rate


@triton.jit
def state_back(g, d_z, kept, n):
    """Computes what flows back through the kept part of the state and through the brake."""
    return g * kept.k - n.brake * d_z[0]


@triton.jit(do_not_specialize=NUMBERS)
def forward(
    p, tables, inputs, state, elapsed, row_stride, time_stride, reset, mask, states, time, units, features,
    SETTINGS: tl.constexpr, TABLES: tl.constexpr, NEURONS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """Computes states (B, T, N), as `forward_layers` says."""
    forward_layers(
        p, tables, inputs, state, elapsed, row_stride, time_stride, reset, mask, states, time, units, features,
        load_neurons, combine, 2, SETTINGS, TABLES, NEURONS, FEATURES,
    )  # fmt: skip


@triton.jit(do_not_specialize=NUMBERS)
def backward(
    p, tables, inputs, state, elapsed, row_stride, time_stride, reset, mask, states, time, units, features,
    grad_states, grad_inputs, grad_state, grad_elapsed, grads, scratch, batch, size,
    SETTINGS: tl.constexpr, TABLES: tl.constexpr, NEURONS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """Computes all gradients, as `backward_layers` says."""
    zero = tl.full((NEURONS,), 0.0, inputs.dtype.element_ty)
    n, sums, grads = backward_layers(
        p, tables, inputs, state, elapsed, row_stride, time_stride, reset, mask, states, time, units, features,
        grad_states, grad_inputs, grad_state, grad_elapsed, grads, batch, size, DualNeurons(zero, zero, zero),
        load_neurons, combine, split_back, neurons_back, state_back, 2, SETTINGS, TABLES, NEURONS, FEATURES,
    )  # fmt: skip
    if p.brake_raw is not None:
        neuron = tl.arange(0, NEURONS)
        tl.store(grads + neuron, sums.brake * n.brake * (1.0 - n.brake / STRONGEST), neuron < units)
        grads += units
    tl.store(grads, tl.sum(sums.low, 0))
    tl.store(grads + 1, tl.sum(sums.high, 0))


def scratch_vectors(settings: DualSettings) -> int:
    """Vectors (N,) of scratch that each Triton program of the backward pass needs."""
    return 0
