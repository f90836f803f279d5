"""What is known about cells whose layers move one after another."""

from __future__ import annotations

import numpy as np

from ncp_control.base.intervals import Interval, outward
from ncp_control.neurons.layered.neuron import LayeredCell
from ncp_control.neurons.ranges import Elapsed, Known, Slopes, as_interval, numbers

ROUNDINGS = 8  # of the closed form


class KnownLayered(Known):
    """A cell that reads the present state of the layers before a neuron's own, and the former one of all others.

    :ivar weights: those of all maps, (H, N, F + N), by inputs and then by states
    :ivar bias: those of all maps, (H, N)
    """

    def __init__(self, cell: LayeredCell, elapsed: Elapsed) -> None:
        super().__init__(cell, elapsed)
        sensory, recurrent = cell.constants()
        assert sensory is not None
        assert recurrent is not None
        matrices = [numbers(weights.values).transpose(1, 2, 0) for weights in (sensory, recurrent)]
        self.weights, self.bias = np.concatenate(matrices, axis=2), numbers(cell.bias)
        self.parts = cell.parts
        self.layer = np.repeat(np.arange(len(self.parts)), [part.stop - part.start for part in self.parts])

    def outer(self) -> Interval:
        """Returns the cell's own bounds, widened by rounding."""
        return outward(*as_interval(self.cell.state_bounds()), ROUNDINGS)

    def in_time(self, inputs: Interval, among: Interval) -> Slopes:
        """Returns slopes among the states (N, N) apart, by when a neuron reads which layer."""
        earlier = self.layer[None, :] < self.layer[:, None]
        same, before = (Interval(*(np.where(which, end, 0.0) for end in among)) for which in (earlier, ~earlier))
        return Slopes(same, before, inputs)
