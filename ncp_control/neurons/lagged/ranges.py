"""What is known about a LaggedMLP: its state is the last inputs."""

from __future__ import annotations

import numpy as np

from ncp_control.base.curves import TANH
from ncp_control.base.intervals import Interval, affine, between, joined, point
from ncp_control.base.slopes import rows_times
from ncp_control.neurons import LaggedMLP
from ncp_control.neurons.ranges import Elapsed, Known, Slopes, numbers


class KnownLaggedMLP(Known):
    """A LaggedMLP, whose state s is its last inputs, and whose outputs are `tanh(W s + b)`."""

    def __init__(self, cell: LaggedMLP, elapsed: Elapsed) -> None:
        super().__init__(cell, elapsed)
        self.lags = cell.lags
        self.weight, self.bias = numbers(cell.hidden.weight), numbers(cell.hidden.bias)

    def outer(self) -> Interval:
        """Returns infinite bounds: inputs can be anything."""
        return between(-np.inf, np.inf, self.size)

    def settled(self, states: Interval, features: Interval) -> Interval:
        """Returns the range of the inputs, once for every lag."""
        return Interval(*(np.tile(end, self.lags) for end in features))

    def after(self, states: Interval, features: Interval) -> Interval:
        """Returns the state without its oldest input and with the present one."""
        return joined(states.at(slice(self.features, None)), features)

    def slopes(self, states: Interval, features: Interval) -> Slopes:
        """Returns ones: every input moves on by one place."""
        older = self.size - self.features
        inputs = np.concatenate([np.zeros((older, self.features)), np.eye(self.features)])
        return Slopes(point(np.zeros((self.size, self.size))), point(np.eye(self.size, k=self.features)), point(inputs))

    def neurons(self, states: Interval) -> Interval:
        """Returns the outputs, which are all neurons."""
        return self.outputs(states)

    def outputs(self, states: Interval) -> Interval:
        """Returns the range of the tanh."""
        return TANH.values(affine(states, self.weight, self.bias))

    def output_slopes(self, states: Interval) -> Interval:
        """Returns `(1 - tanh^2) W`, (O, N)."""
        return rows_times(TANH.slopes(affine(states, self.weight, self.bias)), self.weight)
