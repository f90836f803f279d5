"""The LSTM and the GRU as C."""

from __future__ import annotations

from ncp_control.neurons.code import CellPiece, array, filled, values_of
from ncp_control.neurons.gated.neuron import LSTM, GatedCell

ADVANCE_LSTM = """\
static controller_real gate(const controller_real *x, const controller_real *h, int row) {
    return bias[row] + dot(input_weight[row], x, @INPUTS@) + dot(weight[row], h, @UNITS@);
}

/* The state is h and then c. */
static void advance(const controller_real *x, controller_real *h) {
    controller_real next[@UNITS@], *c = h + @UNITS@;
    for (int j = 0; j < @UNITS@; j++) {
        const controller_real i = sigmoid(gate(x, h, j)), f = sigmoid(gate(x, h, @UNITS@ + j));
        const controller_real g = TANH(gate(x, h, 2 * @UNITS@ + j)), o = sigmoid(gate(x, h, 3 * @UNITS@ + j));
        c[j] = f * c[j] + i * g;
        next[j] = o * TANH(c[j]);
    }
    for (int j = 0; j < @UNITS@; j++) h[j] = next[j];
}
"""
ADVANCE_GRU = """\
static controller_real sensed(const controller_real *x, int row) {
    return input_bias[row] + dot(input_weight[row], x, @INPUTS@);
}

static controller_real remembered(const controller_real *h, int row) {
    return bias[row] + dot(weight[row], h, @UNITS@);
}

static void advance(const controller_real *x, controller_real *h) {
    controller_real next[@UNITS@];
    for (int j = 0; j < @UNITS@; j++) {
        const controller_real r = sigmoid(sensed(x, j) + remembered(h, j));
        const controller_real z = sigmoid(sensed(x, @UNITS@ + j) + remembered(h, @UNITS@ + j));
        const controller_real n = TANH(sensed(x, 2 * @UNITS@ + j) + r * remembered(h, 2 * @UNITS@ + j));
        next[j] = (REAL(1.0) - z) * n + z * h[j];
    }
    for (int j = 0; j < @UNITS@; j++) h[j] = next[j];
}
"""


def gated_piece(cell: GatedCell) -> CellPiece:
    """Returns the C of an LSTM or a GRU in float64."""
    arrays = [array("input_weight", cell.weight_ih), array("weight", cell.weight_hh)]
    if isinstance(cell, LSTM):
        template = ADVANCE_LSTM
        arrays.append(array("bias", values_of(cell.bias_ih) + values_of(cell.bias_hh)))
    else:
        template = ADVANCE_GRU
        arrays += [array("input_bias", cell.bias_ih), array("bias", cell.bias_hh)]
    advance = filled(template, inputs=cell.inputs, units=cell.units)
    return CellPiece("\n".join([*arrays, advance]), uses_elapsed=False, outputs=cell.motor_start)
