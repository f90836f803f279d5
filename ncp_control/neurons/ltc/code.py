"""Conductance-based liquid time-constant neurons as C."""

from __future__ import annotations

from typing import Any

import numpy as np

from ncp_control.neurons.code import CellPiece, array, check_form, edge_arrays, filled, solver, values_of
from ncp_control.neurons.ltc.neuron import LTC

ABOUT = """\
/* Synapse k leads from synapse_source[k] into the neuron j with synapse_start[j] <= k < synapse_start[j + 1], and so do
   sensory synapses and gap junctions. The row of a synapse is mu, -sigma, w and w E. It is open by the share
   s = 1 / (1 + exp(-sigma (v - mu))), and adds w s to the conductance of its neuron and w E s to the current. */
"""
# Minus sigma, because exp takes minus the argument of the sigmoid.
OPENED = """\
static controller_real opened(const controller_real *row, controller_real v) {
    return REAL(1.0) / (REAL(1.0) + exponential(row[1] * (v - row[0])));
}
"""
SENSE = """\
/* Gives the part of every neuron's conductance and current that stays the same through the unfolds, in turn. */
static void sense(const controller_real *x, controller_real *sensed) {
@MAPPED@    for (int j = 0; j < @UNITS@; j++) {
        controller_real conductance = slow[j], current = leak[j];
        for (int k = sensory_start[j]; k < sensory_start[j + 1]; k++) {
            const controller_real share = opened(sensory[k], @SEEN@[sensory_source[k]]);
            conductance += sensory[k][2] * share;
            current += sensory[k][3] * share;
        }
        sensed[2 * j] = conductance;
        sensed[2 * j + 1] = current;
    }
}
"""
MAPPED = """\
    controller_real mapped[@INPUTS@];
    for (int i = 0; i < @INPUTS@; i++) mapped[i] = x[i]@MAP@;
"""
PULL = """\
/* Gives the conductance of neuron j, and returns its current minus conductance times v. */
static controller_real pull(const controller_real *sensed, const controller_real *v, int j,
                            controller_real *conductance) {
    controller_real open = sensed[2 * j], current = sensed[2 * j + 1];
@SUMS@    *conductance = open;
    return current - open * v[j];
}
"""
SYNAPSES = """\
    for (int k = synapse_start[j]; k < synapse_start[j + 1]; k++) {
        const controller_real share = opened(synapse[k], v[synapse_source[k]]);
        open += synapse[k][2] * share;
        current += synapse[k][3] * share;
    }
"""
GAPS = "    for (int k = gap_start[j]; k < gap_start[j + 1]; k++) current += gap[k] * v[gap_source[k]];\n"
READ_OUT = """\
static void read_out(const controller_real *v, controller_real *y) {
    for (int i = 0; i < @OUTPUTS@; i++) y[i] = v[@MOTOR@ + i]@MAP@;
}
"""


def ltc_piece(cell: LTC) -> CellPiece:
    """Returns the C of an LTC in float64 with a solver of fixed step."""
    check_form("LTC", cell.solver)
    constants, units = cell.constants(), cell.units
    sensory = rows(constants.sensory_w, cell.sensory_mu, cell.sensory_sigma, cell.sensory_E)
    synapse = rows(constants.w, cell.mu, cell.sigma, cell.E)
    input_arrays, input_map = map_of("input", cell.input_scale, cell.input_shift)
    output_arrays, output_map = map_of("output", cell.output_scale, cell.output_shift)
    parts = [
        ABOUT,
        array("slow", constants.slow),
        array("leak", constants.leak),
        array("capacitance", constants.cm),
        edge_arrays("sensory", cell.sensory_source, cell.sensory_target, units),
        array("sensory", sensory),
    ]
    sums = ""
    if len(synapse):
        parts += [edge_arrays("synapse", cell.source, cell.target, units), array("synapse", synapse)]
        sums += SYNAPSES
    if len(constants.gap):
        parts.append(gap_arrays(cell.gap_ends.numpy(), values_of(constants.gap), units))
        sums += GAPS
    mapped = filled(MAPPED, inputs=cell.inputs, map=input_map) if input_map else ""
    parts += [
        input_arrays,
        OPENED,
        filled(SENSE, units=units, mapped=mapped, seen="mapped" if input_map else "x"),
        filled(PULL, sums=sums),
        solver(cell.solver, units, 2 * units, cell.unfolds, "capacitance"),
    ]
    if output_map:
        read = filled(READ_OUT, outputs=cell.outputs, motor=cell.motor_start, map=output_map)
        parts += [output_arrays, read]
    return CellPiece("\n".join(filter(None, parts)), outputs=None if output_map else cell.motor_start)


def rows(w: Any, mu: Any, sigma: Any, E: Any) -> Any:
    """Returns the row of every synapse, (E, 4)."""
    w, mu, sigma, E = map(values_of, (w, mu, sigma, E))
    return np.stack([mu, -sigma, w, w * E], axis=1)


def gap_arrays(ends: Any, gap: Any, units: int) -> str:
    """Returns the gap junctions as edges in both directions: gap_start, gap_source and gap."""
    target, source = np.concatenate([ends, ends[:, ::-1]]).T
    order = np.lexsort((source, target))  # by target, then by source
    edges = edge_arrays("gap", source[order], target[order], units)
    return edges + array("gap", np.concatenate([gap, gap])[order])


def map_of(name: str, scale: Any, shift: Any) -> tuple[str, str]:
    """Returns the arrays of a map of inputs or outputs, and what stands behind a value that it maps."""
    arrays = [(part, value) for part, value in (("scale", scale), ("shift", shift)) if value is not None]
    text = "".join(array(f"{name}_{part}", value) for part, value in arrays)
    signs = {"scale": "*", "shift": "+"}
    return text, "".join(f" {signs[part]} {name}_{part}[i]" for part, _ in arrays)
