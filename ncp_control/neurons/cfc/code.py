"""Closed-form continuous-time neurons as C."""

from __future__ import annotations

from ncp_control.neurons.cfc.neuron import CfC
from ncp_control.neurons.code import CellPiece, array, filled, values_of
from ncp_control.neurons.layered.code import layer_arrays, layer_loop

BACKBONE = """\
static void advance(const controller_real *x, controller_real *h, controller_real elapsed) {
    controller_real one[@ONE@], other[@OTHER@];
    for (int i = 0; i < @INPUTS@; i++) one[i] = x[i];
    for (int i = 0; i < @UNITS@; i++) one[@INPUTS@ + i] = h[i];
@BACKBONE@    for (int j = 0; j < @UNITS@; j++) {
        controller_real map[@MAPS@];
        for (int m = 0; m < @MAPS@; m++) map[m] = bias[j][m] + dot(maps[m * @UNITS@ + j], @LAST@, @WIDTH@);
        h[j] = combined(map, elapsed@NEURON@);
    }
}
"""
BACKBONE_LAYER = """\
    dense(backbone@PLACE@, backbone@PLACE@_bias, @ROWS@, @COLUMNS@, @FROM@, @TO@);
    for (int i = 0; i < @ROWS@; i++) @TO@[i] = REAL(1.7159) * TANH(REAL(0.666) * @TO@[i]);
"""
MIXED = """\
static controller_real combined(const controller_real *map, controller_real elapsed) {
    const controller_real f1 = TANH(map[0]), f2 = TANH(map[1]), s = sigmoid(map[2] * elapsed + map[3]);
    return @MIX@;
}
"""
PURE = """\
static controller_real combined(const controller_real *map, controller_real elapsed, int j) {
    return A[j] - A[j] * exponential(-elapsed * (w_tau[j] + FABS(map[0]))) * map[0];
}
"""
MIXES = {"default": "f1 * (REAL(1.0) - s) + s * f2", "no_gate": "f1 + s * f2"}


def cfc_piece(cell: CfC) -> CellPiece:
    """Returns the C of a CfC in float64."""
    parts = [array("bias", values_of(cell.bias).T)]
    combined, neuron = filled(MIXED, mix=MIXES.get(cell.mode)), ""
    if cell.mode == "pure":
        parts += [array("w_tau", cell.w_tau.abs()), array("A", cell.A)]
        combined, neuron = PURE, ", j"
    if cell.backbone_widths:
        arrays, body = _backbone(cell)
        parts += [*arrays, combined, filled(body, neuron=neuron)]
    else:
        parts += [*layer_arrays(cell), combined, layer_loop(cell, neuron)]
    return CellPiece("\n".join(parts), outputs=cell.motor_start)


def _backbone(cell: CfC) -> tuple[list[str], str]:
    """Returns the arrays of a cell with a backbone, and its `advance`."""
    arrays, lines = [array("maps", values_of(cell.get_parameter("head")))], ""
    names = ("one", "other")
    for place, layer in enumerate(cell.backbone):
        weight, bias = values_of(layer.get_parameter("weight")), layer.get_parameter("bias")
        arrays += [array(f"backbone{place}", weight.flatten()), array(f"backbone{place}_bias", bias)]
        ends = {"from": names[place % 2], "to": names[(place + 1) % 2]}
        lines += filled(BACKBONE_LAYER, place=place, rows=weight.shape[0], columns=weight.shape[1], **ends)
    widths = [cell.inputs + cell.units, *cell.backbone_widths]
    return arrays, filled(
        BACKBONE,
        backbone=lines,
        one=max(widths[::2]),
        other=max(widths[1::2]),
        inputs=cell.inputs,
        units=cell.units,
        maps=cell.maps,
        last=names[len(cell.backbone_widths) % 2],
        width=widths[-1],
    )
