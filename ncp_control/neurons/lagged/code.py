"""An MLP on the last few inputs as C."""

from __future__ import annotations

from ncp_control.neurons.code import CellPiece, array, filled
from ncp_control.neurons.lagged.neuron import LaggedMLP

BODY = """\
/* The state is the last @LAGS@ inputs, the oldest first. */
static void advance(const controller_real *x, controller_real *s) {
    for (int i = 0; i < @KEPT@; i++) s[i] = s[@INPUTS@ + i];
    for (int i = 0; i < @INPUTS@; i++) s[@KEPT@ + i] = x[i];
}

static void read_out(const controller_real *s, controller_real *y) {
    dense(hidden, hidden_bias, @UNITS@, @SEEN@, s, y);
    for (int i = 0; i < @UNITS@; i++) y[i] = TANH(y[i]);
}
"""


def lagged_piece(cell: LaggedMLP) -> CellPiece:
    """Returns the C of a LaggedMLP in float64."""
    seen = cell.state_size
    arrays = [array("hidden", cell.hidden.weight.flatten()), array("hidden_bias", cell.hidden.bias)]
    body = filled(BODY, lags=cell.lags, inputs=cell.inputs, units=cell.units, seen=seen, kept=seen - cell.inputs)
    return CellPiece("\n".join([*arrays, body]), uses_elapsed=False)
