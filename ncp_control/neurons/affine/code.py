"""ODE neurons with one weight for each synapse as C: NeuralLTC, CTRNN and NeuralODE."""

from __future__ import annotations

from ncp_control.neurons.affine.ctrnn import CTRNN
from ncp_control.neurons.affine.neural_ltc import NeuralLTC
from ncp_control.neurons.affine.neuron import AffineODECell
from ncp_control.neurons.code import CellPiece, array, check_form, edge_arrays, filled, solver

ABOUT = """\
/* Synapse k leads from synapse_source[k] into the neuron j with synapse_start[j] <= k < synapse_start[j + 1], with the
   weight synapse[k]; sensory synapses likewise. */
"""
ACTIVATIONS = {
    "sigmoid": "sigmoid(x)",
    "relu": "x < REAL(0.0) ? REAL(0.0) : x",
    "tanh": "TANH(x)",
    "hard_tanh": "clipped(x, REAL(-1.0), REAL(1.0))",
}
ACTIVATE = "static controller_real activate(controller_real x) {\n    return @ACTIVATION@;\n}\n"
SENSE = """\
static void sense(const controller_real *x, controller_real *sensed) {
    for (int j = 0; j < @UNITS@; j++) {
        controller_real sum = mu[j];
        for (int k = sensory_start[j]; k < sensory_start[j + 1]; k++) sum += sensory[k] * x[sensory_source[k]];
        sensed[j] = sum;
    }
}
"""
PULL = """\
/* Gives the rate of neuron j, and returns its drive minus rate times x. */
static controller_real pull(const controller_real *sensed, const controller_real *x, int j, controller_real *rate) {
    controller_real sum = sensed[j], f;
@SUMS@    f = activate(sum);
    *rate = @RATE@;
    return @PULL@;
}
"""
SYNAPSES = """\
    for (int k = synapse_start[j]; k < synapse_start[j + 1]; k++) sum += synapse[k] * x[synapse_source[k]];
"""


def affine_piece(cell: AffineODECell) -> CellPiece:
    """Returns the C of a NeuralLTC, a CTRNN or a NeuralODE in float64 with a solver of fixed step."""
    check_form(type(cell).__name__, cell.solver)
    units = cell.units
    parts = [
        ABOUT,
        array("mu", cell.mu),
        edge_arrays("sensory", cell.sensory_source, cell.sensory_target, units),
        array("sensory", cell.gamma),
    ]
    if len(cell.gamma_r):
        parts += [edge_arrays("synapse", cell.source, cell.target, units), array("synapse", cell.gamma_r)]
    rate, pull = "REAL(0.0)", "f"
    if isinstance(cell, NeuralLTC):
        parts += [array("leak", 1 / cell.tau), array("A", cell.A)]
        rate = "leak[j] + FABS(f)" if cell.signed else "leak[j] + f"
        pull = "f * A[j] - *rate * x[j]"
    elif isinstance(cell, CTRNN):
        parts.append(array("leak", 1 / cell.tau))
        rate, pull = "leak[j]", "f - leak[j] * x[j]"
    parts += [
        filled(ACTIVATE, activation=ACTIVATIONS[cell.activation]),
        filled(SENSE, units=units),
        filled(PULL, sums=SYNAPSES if len(cell.gamma_r) else "", rate=rate, pull=pull),
        solver(cell.solver, units, units, cell.unfolds),
    ]
    return CellPiece("\n".join(parts), outputs=cell.motor_start)
