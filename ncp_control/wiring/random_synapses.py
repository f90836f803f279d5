"""The plan that draws a share of all synapses at random."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ncp_control.wiring.draw import fill, signed
from ncp_control.wiring.edges import WiringError, whole
from ncp_control.wiring.graph import Wiring
from ncp_control.wiring.plan import Plan, assign, assign_sizes, checked_sparsity, inter_and_motor


@dataclass(frozen=True, init=False)
class Random(Plan):
    """Random synapses: round((1 - sparsity) I N) sensory and round((1 - sparsity) N N) recurrent ones.

    Every input is used, every neuron can be reached from an input, and every neuron can reach a motor neuron. This
    takes at least I sensory synapses, N - outputs recurrent ones, and N in all. These are drawn first, and the others
    anywhere. A neuron can feed itself.

    :param units: number of neurons N
    :param outputs: number of motor neurons, the last ones; the others are inter neurons. None makes all of them motor
    :param sparsity: the share of synapses left out, from 0 to below 1
    :param seed: seed of the synapses and the polarities
    """

    units: int
    outputs: int
    sparsity: float
    seed: int

    def __init__(self, units: int, outputs: int | None = None, sparsity: float = 0.5, seed: int = 0) -> None:
        assign_sizes(self, units, outputs, seed)
        assign(self, sparsity=checked_sparsity(sparsity))
        if self.sparsity >= 1:
            raise WiringError(f"sparsity {sparsity} leaves no synapse; it must be below 1")

    def build(self, inputs: int) -> Wiring:
        """Returns the wiring for that many inputs; refuses a sparsity that leaves too few synapses."""
        inputs, units = whole(inputs, "inputs", least=1), self.units
        hidden = units - self.outputs
        sensory_count = round((1 - self.sparsity) * inputs * units)
        recurrent_count = round((1 - self.sparsity) * units**2)
        if sensory_count < inputs or recurrent_count < hidden or sensory_count + recurrent_count < units:
            enough = math.floor(1000 * (1 - 1 / units)) / 1000
            raise WiringError(
                f"sparsity {self.sparsity:g} leaves {sensory_count} sensory and {recurrent_count} recurrent synapses, "
                f"but {inputs} inputs and {units} neurons, {hidden} of them not motor, need at least {inputs} sensory "
                f"and {hidden} recurrent ones, {units} in all; a sparsity of {enough:g} or less will do"
            )
        rng = np.random.default_rng(self.seed)
        # The inputs feed the first `roots` neurons of this order. Each other neuron is fed by the neuron `roots` places
        # before it, so that there are `roots` chains. The last neuron of a chain, if it is not a motor neuron, feeds
        # some later neuron. Motor neurons come last, so that a chain leads in and out at once. The number of these
        # recurrent synapses is the greater of N - roots and N - outputs. They fit, because rounding cannot give more
        # than I sensory synapses where it gives fewer than N recurrent ones.
        order = np.concatenate([rng.permutation(hidden), hidden + rng.permutation(self.outputs)])
        roots = min(inputs, units)
        recurrent = np.zeros((units, units), dtype=bool)
        recurrent[order[:-roots], order[roots:]] = True
        for place in range(units - roots, hidden):
            recurrent[order[place], order[rng.integers(place + 1, units)]] = True
        sensory = np.zeros((inputs, units), dtype=bool)
        sensory[rng.permutation(inputs), order[np.arange(inputs) % roots]] = True
        synapses = signed(fill(recurrent, recurrent_count, rng), rng)
        return Wiring(
            inputs,
            inter_and_motor(units, self.outputs),
            signed(fill(sensory, sensory_count, rng), rng),
            synapses,
        )
