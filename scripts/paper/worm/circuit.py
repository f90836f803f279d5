"""The worm's tap-withdrawal circuit as an LTC, and its responses to touch and tap, with and without some neurons.

Synapses and signs come from `ncp_control.wiring.tap_withdrawal`; conductances are in proportion to the contacts under
the microscope, as in Wicks et al. (1996). That leaves nine numbers open, see `Numbers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ncp_control.neurons import LTC, Cell, without_synapses
from ncp_control.neurons.parameters import raw_of
from ncp_control.rnn import RNN
from ncp_control.wiring import tap_withdrawal
from ncp_control.wiring.worm import CELLS, GAP_JUNCTIONS, INPUTS, SYNAPSES

WIRING = tap_withdrawal()
NAMES = WIRING.neuron_names
# A potential of 0 is the resting potential, some -35 mV, and 1 the reversal potential of excitatory synapses, 0 mV.
MILLIVOLT = 35.0
STEP = 0.01  # seconds a step
TIME_CONSTANT = 0.15  # seconds, for a membrane without synapses
LEAK = 0.05  # the leak conductance of a cell

SETTLE, BEFORE, TOUCH, AFTER = (round(seconds / STEP) for seconds in (4.0, 1.0, 0.5, 2.0))
RESPONSE = round(1.0 / STEP)  # a response is a mean over this time from the onset of touch
# The inputs that are on from the onset of touch, and those that are on for as long from a second before.
STIMULI: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "tail touch": (("tail",), ()),
    "head touch": (("head",), ()),
    "tap": (INPUTS, ()),
    "tap after tail touch": (INPUTS, ("tail",)),
}


@dataclass(frozen=True)
class Numbers:
    """The numbers that the anatomy leaves open, one for all neurons or synapses of a kind.

    These values give every direction in `experiments.EXPERIMENTS`; so do many others.

    :param chemical: the conductance of a synaptic contact, fully open
    :param electrical: the conductance of a contact in a gap junction
    :param threshold: the potential at which a synapse is half open, `mu`
    :param slope: the steepness of its opening, `sigma`
    :param inhibition: the reversal potential of inhibitory synapses
    :param forward: the leak potential of AVB, which keeps an untouched worm crawling forward
    :param backward: the leak potential of AVA
    :param gentle: the conductance of touched PLM, ALM and AVM, in multiples of the leak
    :param harsh: the conductance of touched PVD, which feels harsh touch but little of a tap
    """

    chemical: float = 0.008
    electrical: float = 0.015
    threshold: float = 0.35
    slope: float = 8.0
    inhibition: float = -0.6
    forward: float = 0.6
    backward: float = -0.4
    gentle: float = 10.0
    harsh: float = 0.5


@dataclass(frozen=True)
class Responses:
    """The responses of one circuit to every stimulus.

    :param states: states by stimulus from a second before the onset of touch, (B, T, N), in units of `MILLIVOLT`
    :param changes: each neuron's mean potential in the second after the onset less its potential at rest, (B, N), mV
    :param margin: the least distance of a state from its bounds, mV; negative outside
    """

    states: Tensor
    changes: Tensor
    margin: float

    def change(self, stimulus: str, neuron: str) -> float:
        """Returns the change of a neuron's potential at a stimulus, in mV."""
        return float(self.changes[list(STIMULI).index(stimulus), NAMES.index(neuron)])

    def rest(self, neuron: str) -> float:
        """Returns the potential of a neuron before any touch, in mV above its rest without synapses."""
        return MILLIVOLT * float(self.states[0, 0, NAMES.index(neuron)])

    def backward(self, stimulus: str) -> float:
        """Returns how much more REV rises than FWD, in mV; negative is forward."""
        return self.change(stimulus, "REV") - self.change(stimulus, "FWD")


@torch.no_grad()
def worm(numbers: Numbers | None = None, signs: Mapping[tuple[str, str], int] | None = None) -> LTC:
    """Builds the circuit.

    :param numbers: the nine numbers; by default the values in `Numbers`
    :param signs: polarities that replace the wiring's, by source and target
    """
    numbers, signs = numbers or Numbers(), signs or {}
    cell = LTC(WIRING.inputs, WIRING, input_map="none", output_map="none")
    leak = LEAK * torch.tensor([float(CELLS[name]) for name in NAMES])
    set_positive(cell.gleak_raw, leak)
    set_positive(cell.cm_raw, TIME_CONSTANT / STEP * leak)
    cell.vleak.zero_()
    cell.vleak[NAMES.index("AVB")], cell.vleak[NAMES.index("AVA")] = numbers.forward, numbers.backward

    contacts = {(one.source, one.target): one for one in SYNAPSES}
    ends = [(NAMES[a], NAMES[b]) for a, b, _ in WIRING.synapses]
    set_positive(cell.w_raw, numbers.chemical * torch.tensor([float(contacts[pair].contacts) for pair in ends]))
    polarity = [signs.get(pair, contacts[pair].polarity) for pair in ends]
    cell.E.copy_(torch.tensor([1.0 if sign > 0 else numbers.inhibition for sign in polarity]))
    cell.mu.fill_(numbers.threshold)
    cell.sigma.fill_(numbers.slope)

    gaps = {frozenset((one.source, one.target)): one.contacts for one in GAP_JUNCTIONS}
    joined = [frozenset((NAMES[a], NAMES[b])) for a, b in WIRING.gap_junctions]
    set_positive(cell.gap_raw, numbers.electrical * torch.tensor([float(gaps[pair]) for pair in joined]))

    touched = [NAMES[target] for target in WIRING.sensory.target]
    felt = torch.tensor([numbers.harsh if name == "PVD" else numbers.gentle for name in touched])
    set_positive(cell.sensory_w_raw, felt * leak[WIRING.sensory.target.tolist()])
    cell.sensory_E.fill_(1.0)
    # Closed at 0 and open at 1, except for one part in twenty thousand.
    cell.sensory_mu.fill_(0.5)
    cell.sensory_sigma.fill_(20.0)
    return cell


def set_positive(raw: Tensor, value: Tensor) -> None:
    """Sets a parameter that is positive by construction."""
    raw.copy_(raw_of(value))


def without(cell: Cell, neurons: Iterable[str]) -> Cell:
    """Returns the circuit without some neurons, as if a laser had killed them: all their synapses are cut."""
    gone = [NAMES.index(name) for name in neurons]
    wiring = cell.wiring
    return without_synapses(
        cell,
        np.flatnonzero(np.isin(wiring.synapses.source, gone) | np.isin(wiring.synapses.target, gone)).tolist(),
        np.flatnonzero(np.isin(wiring.sensory.target, gone)).tolist(),
        np.flatnonzero(np.isin(wiring.gap_junctions, gone).any(1)).tolist(),
    )


def stimuli() -> Tensor:
    """Returns the inputs of every stimulus, (B, T, I), from a second before the onset of touch."""
    inputs = torch.zeros(len(STIMULI), BEFORE + TOUCH + AFTER, len(INPUTS))
    for row, (touched, touched_before) in zip(inputs, STIMULI.values(), strict=True):
        for begin, names in ((BEFORE, touched), (0, touched_before)):
            for name in names:
                row[begin : begin + TOUCH, INPUTS.index(name)] = 1.0
    return inputs


@torch.no_grad()
def respond(cell: Cell) -> Responses:
    """Lets the circuit come to rest, then gives it every stimulus."""
    rnn = RNN(cell)
    _, rest = rnn(torch.zeros(1, SETTLE, len(INPUTS)))
    inputs = stimuli()
    _, _, states = rnn(inputs, rest.expand(len(inputs), -1), states=True)
    # The state at rest comes first, so that each trace begins with the state that the first input meets.
    states = torch.cat([rest.expand(len(inputs), 1, -1), states[:, :-1]], 1)
    changes = states[:, BEFORE : BEFORE + RESPONSE].mean(1) - rest
    low, high = cell.state_bounds()
    margin = torch.minimum(states - low, high - states).min()
    return Responses(states, MILLIVOLT * changes, MILLIVOLT * float(margin))
