"""What flows through every synapse: the share that each has in what its target does next."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ncp_control.cells import CTGRU, LTC, Cell, CfC, Held, MixedMemory
from ncp_control.cells.affine import AffineODECell
from ncp_control.cells.baselines import GatedCell
from ncp_control.cells.maps import apply_map

CANDIDATE = 2  # the gate of an LSTM (g) and of a GRU (n) that says what is to be remembered


class Currents(NamedTuple):
    """Signed: above zero pushes the target up.

    :param sensory: (T, S), in the wiring's order
    :param recurrent: (T, E)
    :param gap: (T, G), into the first of each gap junction's neurons
    """

    sensory: Tensor
    recurrent: Tensor
    gap: Tensor


@torch.no_grad()
def currents_of(cell: Cell, inputs: Tensor, before: Tensor, after: Tensor) -> Currents:
    """The currents of T steps, each from inputs (T, I) and the states before and after it, (T, M).

    - LTC: the current itself, `w sigmoid(sigma (v_i - mu)) (E - v_j)`, and `gap (v_k - v_j)`, as the step begins;
    - NeuralLTC, CT-RNN, Neural ODE: `gamma x_i`, the share in f's argument;
    - CfC: the share in the argument of its tanh, in the mean over both maps (in the linear f1 in pure mode);
    - LSTM, GRU: the share in the argument of the candidate's tanh; CT-GRU: in that of the event's;
    - mixed memory: those of the inner cell.
    """
    gap = before.new_zeros(len(before), len(cell.wiring.gap_junctions))
    if isinstance(cell, Held):
        return currents_of(cell.cell, inputs, cell.hold(before), after)
    if isinstance(cell, MixedMemory):
        size = cell.cell.state_size
        return currents_of(cell.cell, inputs, before[:, :size], after[:, :size])
    if isinstance(cell, LTC):
        return of_ltc(cell, inputs, before)
    if isinstance(cell, AffineODECell):
        return Currents(inputs[:, cell.sensory_source] * cell.gamma, before[:, cell.source] * cell.gamma_r, gap)
    if isinstance(cell, CfC) and not cell.backbone_widths:
        return of_cfc(cell, inputs, before, after, gap)
    source, sensory_source = (torch.tensor(ends.source) for ends in (cell.wiring.synapses, cell.wiring.sensory))
    target, sensory_target = (torch.tensor(ends.target) for ends in (cell.wiring.synapses, cell.wiring.sensory))
    if isinstance(cell, GatedCell):
        first = CANDIDATE * cell.units
        return Currents(
            inputs[:, sensory_source] * cell.weight_ih[first + sensory_target, sensory_source],
            before[:, source] * cell.weight_hh[first + target, source],
            gap,
        )
    if isinstance(cell, CTGRU):
        h = cell.neurons(before)
        weight = cell.detect.weight
        return Currents(
            inputs[:, sensory_source] * weight[sensory_target, sensory_source],
            h[:, source] * weight[target, cell.inputs + source],
            gap,
        )
    nothing = [before.new_zeros(len(before), len(ends)) for ends in (cell.wiring.sensory, cell.wiring.synapses)]
    return Currents(nothing[0], nothing[1], gap)


def of_ltc(cell: LTC, inputs: Tensor, before: Tensor) -> Currents:
    """Conductances times driving forces."""
    mapped = apply_map(inputs, cell.input_scale, cell.input_shift)

    def through(seen: Tensor, w: Tensor, mu: Tensor, sigma: Tensor, reversal: Tensor, target: Tensor) -> Tensor:
        return w * torch.sigmoid(sigma * (seen - mu)) * (reversal - before[:, target])

    one, other = cell.gap_ends[:, 0], cell.gap_ends[:, 1]
    return Currents(
        through(mapped[:, cell.sensory_source], cell.sensory_w, cell.sensory_mu, cell.sensory_sigma, cell.sensory_E,
                cell.sensory_target),
        through(before[:, cell.source], cell.w, cell.mu, cell.sigma, cell.E, cell.target),
        cell.gap * (before[:, other] - before[:, one]),
    )  # fmt: skip


def of_cfc(cell: CfC, inputs: Tensor, before: Tensor, after: Tensor, gap: Tensor) -> Currents:
    """Shares in the maps; a source in an earlier layer is read as it is after the step, as the step itself does."""
    seen = torch.cat([before, after], dim=1)[:, torch.as_tensor(cell.program_source)]
    weight = cell.weight[0] if cell.mode == "pure" else (cell.weight[0] + cell.weight[1]) / 2
    sensory = cell.sensory_weight[0] if cell.mode == "pure" else (cell.sensory_weight[0] + cell.sensory_weight[1]) / 2
    place = {pair: k for k, pair in enumerate(zip(cell.source.tolist(), cell.target.tolist(), strict=True))}
    wiring = cell.wiring.synapses
    order = [place[pair] for pair in zip(list(wiring.source), list(wiring.target), strict=True)]
    return Currents(inputs[:, cell.sensory_source] * sensory, (seen * weight)[:, order], gap)
