# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""Closed-form continuous-time neurons over existing synapses, in Triton (neuron.py has the equations).

`layered/triton.py` has the circuit around the neurons. A synapse costs a fetch and four multiplications: by their
instruction counts, dense 32 x 32 at 4096 x 128 takes 0.5 ms forward and 1.5 ms backward on an H200.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

from ncp_control.neurons.cfc.kind import MODE_NAMES, CfCSettings
from ncp_control.neurons.layered.triton import backward_layers, forward_layers
from ncp_control.ops.gpu.shared import LOG2E, NUMBERS, place, sigmoid_exp2, tanh

MODE = place(CfCSettings._fields, "mode")
NO_GATE = place(MODE_NAMES, "no_gate")
PURE = place(MODE_NAMES, "pure")


class CfCParameters(NamedTuple):
    """Pointers to the parameters, in the program's order; weights are (H, synapses), the bias is (H, N).

    The maps are f1, f2, a and b; pure mode has f1 alone. Only pure mode has w_tau and A; they are None in the others.
    """

    weight: Any
    sensory_weight: Any
    bias: Any
    w_tau: Any
    A: Any


PARAMETERS = CfCParameters


class CfCNeurons(NamedTuple):
    """One value of each parameter for each neuron, which only pure mode reads."""

    w_tau: Any
    A: Any


@triton.jit
def load_neurons(p, bias, neuron, real):
    """Reads the parameters of the neurons."""
    w_tau, A = bias[0], bias[0]  # values of the right shape and type for the modes that do not read them
    if p.w_tau is not None:
        w_tau, A = tl.load(p.w_tau + neuron, real, 0.0), tl.load(p.A + neuron, real, 0.0)
    return CfCNeurons(w_tau, A)


@triton.jit
def combine(z, v, t, n, SETTINGS: tl.constexpr):
    """Computes the new state from the maps, and what `split_back` reads: tanh(f1), tanh(f2), a, s; or f1, the decay."""
    if SETTINGS[MODE] == PURE:
        f1 = z[0]
        decay = tl.exp2((tl.abs(n.w_tau) + tl.abs(f1)) * t * -LOG2E)
        return n.A * (1.0 - decay * f1), (f1, decay)
    else:
        f1, f2, s = tanh(z[0]), tanh(z[1]), sigmoid_exp2((z[2] * t + z[3]) * -LOG2E)
        y = f1 + s * f2 if SETTINGS[MODE] == NO_GATE else f1 * (1.0 - s) + s * f2
        return y, (f1, f2, z[2], s)


@triton.jit
def sign(x):
    """-1, 0 or 1: the derivative of a magnitude, with 0 at its corner, as in torch."""
    return tl.where(x > 0.0, 1.0, tl.where(x < 0.0, -1.0, 0.0)).to(x.dtype)


@triton.jit
def split_back(g, kept, v, t, n, SETTINGS: tl.constexpr):
    """Computes the gradients of the maps, and those of t, of w_tau and of A, from the gradient g of the new state."""
    if SETTINGS[MODE] == PURE:
        f1, decay = kept
        power = g * n.A * f1 * decay
        d_f1 = power * t * sign(f1) - g * n.A * decay
        d_t = power * (tl.abs(n.w_tau) + tl.abs(f1))
        return (d_f1,), (d_t, power * t * sign(n.w_tau), g * (1.0 - decay * f1))
    else:
        f1, f2, a, s = kept
        if SETTINGS[MODE] == NO_GATE:
            d_f1 = g
            d_s = g * f2
        else:
            d_f1 = g * (1.0 - s)
            d_s = g * (f2 - f1)
        d_b = d_s * s * (1.0 - s)
        d_t = d_b * a
        return (d_f1 * (1.0 - f1 * f1), g * s * (1.0 - f2 * f2), d_b * t, d_b), (d_t, d_t, d_t)


@triton.jit
def neurons_back(sums, d_z, rest, kept, v, t):
    """Adds the gradients of the neurons' parameters, and returns that of t."""
    d_t, d_w_tau, d_A = rest
    return CfCNeurons(sums.w_tau + d_w_tau, sums.A + d_A), d_t


@triton.jit(do_not_specialize=NUMBERS)
def forward(
    p, tables, inputs, state, elapsed, row_stride, time_stride, reset, mask, states, time, units, features,
    SETTINGS: tl.constexpr, TABLES: tl.constexpr, NEURONS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """Computes states (B, T, N), as `forward_layers` says."""
    H: tl.constexpr = 1 if SETTINGS[MODE] == PURE else 4
    forward_layers(
        p, tables, inputs, state, elapsed, row_stride, time_stride, reset, mask, states, time, units, features,
        load_neurons, combine, H, SETTINGS, TABLES, NEURONS, FEATURES,
    )  # fmt: skip


@triton.jit(do_not_specialize=NUMBERS)
def backward(
    p, tables, inputs, state, elapsed, row_stride, time_stride, reset, mask, states, time, units, features,
    grad_states, grad_inputs, grad_state, grad_elapsed, grads, scratch, batch, size,
    SETTINGS: tl.constexpr, TABLES: tl.constexpr, NEURONS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """Computes all gradients, as `backward_layers` says."""
    H: tl.constexpr = 1 if SETTINGS[MODE] == PURE else 4
    zero = tl.full((NEURONS,), 0.0, inputs.dtype.element_ty)
    _, sums, grads = backward_layers(
        p, tables, inputs, state, elapsed, row_stride, time_stride, reset, mask, states, time, units, features,
        grad_states, grad_inputs, grad_state, grad_elapsed, grads, batch, size, CfCNeurons(zero, zero),
        load_neurons, combine, split_back, neurons_back, None, H, SETTINGS, TABLES, NEURONS, FEATURES,
    )  # fmt: skip
    if p.w_tau is not None:
        neuron = tl.arange(0, NEURONS)
        tl.store(grads + neuron, sums.w_tau, neuron < units)
        tl.store(grads + units + neuron, sums.A, neuron < units)


def scratch_vectors(settings: CfCSettings) -> int:
    """Vectors (N,) of scratch that each Triton program of the backward pass needs."""
    return 0
