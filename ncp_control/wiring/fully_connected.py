"""The plan in which everything feeds every neuron."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ncp_control.wiring.draw import signed
from ncp_control.wiring.edges import whole
from ncp_control.wiring.graph import Wiring
from ncp_control.wiring.plan import Plan, assign_sizes, inter_and_motor


@dataclass(frozen=True, init=False)
class FullyConnected(Plan):
    """Every input feeds every neuron, and every neuron feeds every neuron, itself included.

    :param units: number of neurons
    :param outputs: number of motor neurons, the last ones; the others are inter neurons. None makes all of them motor
    :param seed: seed of the polarities
    """

    units: int
    outputs: int
    seed: int

    def __init__(self, units: int, outputs: int | None = None, seed: int = 0) -> None:
        assign_sizes(self, units, outputs, seed)

    def build(self, inputs: int) -> Wiring:
        """Returns the wiring for that many inputs."""
        inputs = whole(inputs, "inputs", least=1)
        rng = np.random.default_rng(self.seed)
        sensory = np.ones((inputs, self.units), dtype=bool)
        recurrent = np.ones((self.units, self.units), dtype=bool)
        synapses = signed(recurrent, rng)
        return Wiring(inputs, inter_and_motor(self.units, self.outputs), signed(sensory, rng), synapses)
