"""The CT-GRU as C."""

from __future__ import annotations

import numpy as np

from ncp_control.neurons.code import CellPiece, array, filled, values_of
from ncp_control.neurons.ct_gru.neuron import CTGRU

BODY = """\
/* Gives how near a linear map of [x, h] is to the logarithm of each time scale: a softmax over the scales. */
static void scale_weights(const controller_real (*weight)[@SEEN@], const controller_real *bias, int j,
                          const controller_real *seen, controller_real *share) {
    controller_real nearest = REAL(0.0), sum = REAL(0.0);
    for (int k = 0; k < @SCALES@; k++) {
        const int row = j * @SCALES@ + k;
        share[k] = bias[row] + dot(weight[row], seen, @SEEN@) - log_tau[k];
        if (k == 0 || FABS(share[k]) < FABS(nearest)) nearest = share[k];
    }
    for (int k = 0; k < @SCALES@; k++) {
        share[k] = exponential((nearest - share[k]) * (nearest + share[k]));
        sum += share[k];
    }
    for (int k = 0; k < @SCALES@; k++) share[k] /= sum;
}

/* The state m is every neuron's memories, neuron by neuron. */
static void advance(const controller_real *x, controller_real *m, controller_real elapsed) {
    controller_real seen[@SEEN@], read[@SEEN@], share[@SCALES@], decay[@SCALES@];
    for (int i = 0; i < @INPUTS@; i++) seen[i] = read[i] = x[i];
    for (int j = 0; j < @UNITS@; j++) {
        seen[@INPUTS@ + j] = REAL(0.0);
        for (int k = 0; k < @SCALES@; k++) seen[@INPUTS@ + j] += m[j * @SCALES@ + k];
    }
    for (int j = 0; j < @UNITS@; j++) {
        scale_weights(retrieve, retrieve_bias, j, seen, share);
        read[@INPUTS@ + j] = dot(share, m + j * @SCALES@, @SCALES@);
    }
    for (int k = 0; k < @SCALES@; k++) decay[k] = exponential(-elapsed / tau[k]);
    for (int j = 0; j < @UNITS@; j++) {
        const controller_real q = TANH(detect_bias[j] + dot(detect[j], read, @SEEN@));
        controller_real *memory = m + j * @SCALES@;
        scale_weights(store, store_bias, j, seen, share);
        for (int k = 0; k < @SCALES@; k++) {
            memory[k] = ((REAL(1.0) - share[k]) * memory[k] + share[k] * q) * decay[k];
        }
    }
}

static void read_out(const controller_real *m, controller_real *y) {
    for (int j = 0; j < @OUTPUTS@; j++) {
        y[j] = REAL(0.0);
        for (int k = 0; k < @SCALES@; k++) y[j] += m[(@MOTOR@ + j) * @SCALES@ + k];
    }
}
"""


def ct_gru_piece(cell: CTGRU) -> CellPiece:
    """Returns the C of a CT-GRU in float64."""
    tau = values_of(cell.tau)
    arrays = [array("tau", tau), array("log_tau", np.log(tau))]
    for name, layer in (("retrieve", cell.retrieve), ("detect", cell.detect), ("store", cell.store)):
        arrays += [array(name, layer.weight), array(f"{name}_bias", layer.bias)]
    body = filled(
        BODY,
        inputs=cell.inputs,
        units=cell.units,
        seen=cell.inputs + cell.units,
        scales=cell.scales,
        outputs=cell.outputs,
        motor=cell.motor_start,
    )
    return CellPiece("\n".join([*arrays, body]))
