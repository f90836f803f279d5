"""Liquid neurons with two weights per synapse as C."""

from __future__ import annotations

from ncp_control.neurons.code import CellPiece, array, filled, literal, values_of
from ncp_control.neurons.dual.neuron import DualLTC
from ncp_control.neurons.layered.code import layer_arrays, layer_loop

# The rate 1 / tau is exp(span s - high), because log tau = high - span s.
COMBINED = """\
static controller_real combined(const controller_real *map, controller_real elapsed, controller_real before,
                                controller_real braking) {
    const controller_real towards = TANH(map[0] - braking);
    const controller_real rate = exponential(@SPAN@ * sigmoid(map[1]) - @HIGH@);
    return before + decayed(elapsed * rate) * (towards - before);
}
"""


def dual_piece(cell: DualLTC) -> CellPiece:
    """Returns the C of a DualLTC in float64."""
    parts, braking = [array("bias", values_of(cell.bias).T)], "REAL(0.0)"
    if cell.brake is not None:
        parts.append(array("brake", cell.brake))
        braking = "brake[j] * h[j]"
    low, high = values_of(cell.log_tau)
    combined = filled(COMBINED, span=literal(high - low), high=literal(high))
    parts += [*layer_arrays(cell), combined, layer_loop(cell, f", h[j], {braking}")]
    return CellPiece("\n".join(parts), outputs=cell.motor_start)
