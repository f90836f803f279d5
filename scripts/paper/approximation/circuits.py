"""Circuits without inputs that start from a point of another system and then have to follow it.

The proof of Theorem 3 of the LTC paper (its appendix S3) puts a system `dx/dt = F(x)` of n dimensions into a circuit of
N hidden units h and n output units u::

    F(x) = A f(gamma x + mu) nearly,    u(0) = x(0),     du/dt = A f(h),
                                        h(0) = gamma x(0) + mu,    dh/dt = gamma A f(h)

`construct` does the same: it draws gamma at random, puts thresholds where the system moves, and finds A by least
squares. As in the proof f is summed over synapses, which is what neurons with conductances do: a synapse from hidden
unit k pulls its target's potential v to E_k with a conductance w sigmoid(sigma_k (h_k - mu_k)). The least squares
include the leak of these conductances, sum w f_k v; the proof makes it small instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from ncp_control.neurons import LTC, NeuralLTC
from ncp_control.neurons.ode import ODECell
from ncp_control.neurons.parameters import raw_of
from ncp_control.rnn import RNN
from ncp_control.wiring import Wiring
from scripts.paper.approximation.attractors import Array

CONDUCTANCE = 3.0  # the sum over all synapses into a neuron, fully open
LEAK = 0.1
SLOPES = (1.0, 3.0)
CUT = -30.0  # the raw value of a conductance of 1e-8, which cuts off the input that every wiring must have


class Follower(nn.Module, ABC):
    """A circuit that computes u(0), u(1), ..., (B, steps + 1, n), from points x(0), (B, n).

    :param cell: the circuit, with one input that stays zero
    :param dimensions: the dimensions n of the system
    :param hidden: the number N of hidden units
    :param elapsed: the time between two samples, in the circuit's units
    """

    def __init__(self, cell: ODECell, dimensions: int, hidden: int, elapsed: float) -> None:
        super().__init__()
        self.rnn = RNN(cell)
        self.lift = nn.Linear(dimensions, hidden)
        self.dimensions, self.hidden, self.elapsed = dimensions, hidden, elapsed
        for name in ("sensory_w_raw", "sensory_mu", "sensory_sigma", "sensory_E", "gamma"):
            parameter = getattr(cell, name, None)
            if parameter is not None:
                parameter.requires_grad_(False)

    @property
    def cell(self) -> ODECell:
        """The circuit."""
        return cast(ODECell, self.rnn.cell)

    def first_state(self, start: Tensor) -> Tensor:
        """Returns the circuit's state at a point, (B, N), or (B, N + n) with output units."""
        lifted: Tensor = self.lift(start)
        return lifted

    @abstractmethod
    def read(self, states: Tensor) -> Tensor:
        """Reads u (..., n) from states."""

    def states(self, start: Tensor, steps: int) -> Tensor:
        """Runs the circuit from points (B, n) and returns all states, (B, steps + 1, units)."""
        first = self.first_state(start)
        nothing = start.new_zeros(len(start), steps, 1)
        _, _, states = self.rnn(nothing, first, elapsed=self.elapsed, states=True)
        return torch.cat([first[:, None], states], dim=1)

    def forward(self, start: Tensor, steps: int) -> Tensor:
        """Returns the circuit's rollouts, (B, steps + 1, n)."""
        return self.read(self.states(start, steps))


class ProofCircuit(Follower):
    """The proof's circuit: N hidden units with synapses onto each other and onto n output units, with conductances."""

    def __init__(self, dimensions: int, hidden: int, elapsed: float, solver: str = "fused", unfolds: int = 2) -> None:
        pairs = [(source, target) for source in range(hidden) for target in range(hidden + dimensions)]
        wiring = Wiring.from_edges(1, inter=hidden, motor=dimensions, sensory=[(0, 0)], synapses=pairs)
        cell = LTC(1, wiring, solver=solver, unfolds=unfolds, input_map="none", output_map="none")
        super().__init__(cell, dimensions, hidden, elapsed)

    def first_state(self, start: Tensor) -> Tensor:
        """Returns `h = gamma x + mu` and `u = x`."""
        return torch.cat([self.lift(start), start], dim=1)

    def read(self, states: Tensor) -> Tensor:
        """Returns the output units' states."""
        return states[..., self.hidden :]


class OneGateCircuit(Follower):
    """Eq. 1 to the letter: one sigmoid a neuron, synapses between all neurons, and a linear readout u.

    A neuron of Eq. 1 keeps one sign (Theorem 2), so it cannot itself be a u of both signs.
    """

    def __init__(self, dimensions: int, hidden: int, elapsed: float) -> None:
        cell = NeuralLTC(1, hidden, solver="rk4", unfolds=1, init="constant")
        super().__init__(cell, dimensions, hidden, elapsed)
        self.readout = nn.Linear(hidden, dimensions)
        nn.init.normal_(self.lift.weight)
        nn.init.zeros_(self.lift.bias)

    def read(self, states: Tensor) -> Tensor:
        """Returns `C h + d`."""
        read: Tensor = self.readout(states)
        return read


@torch.no_grad()
def construct(circuit: ProofCircuit, points: Array, slopes: Array, random: np.random.Generator, ridge: float) -> None:
    """Sets all weights as the proof does.

    :param points: points x where the system moves, (P, n)
    :param slopes: F(x) at these points, in the circuit's units of time, (P, n)
    :param random: draws gamma and the thresholds
    :param ridge: the penalty on the squares of A; a small one makes |A| and the reversal potentials large
    """
    cell, hidden = cast(LTC, circuit.cell), circuit.hidden
    gamma = random.normal(size=(hidden, circuit.dimensions))
    gamma /= np.linalg.norm(gamma, axis=1, keepdims=True)
    lifted = points @ gamma.T
    thresholds = lifted[random.integers(len(points), size=hidden), np.arange(hidden)]
    low, high = np.log(SLOPES).tolist()
    steepness = np.exp(random.uniform(low, high, hidden))
    f = 1 / (1 + np.exp(-steepness * (lifted - thresholds)))

    w = CONDUCTANCE / hidden
    potentials = np.concatenate([lifted, points], axis=1)
    lost = potentials * (w * f.sum(axis=1, keepdims=True) + LEAK)
    wanted = np.concatenate([slopes @ gamma.T, slopes], axis=1) + lost
    known = np.concatenate([f, np.ones((len(points), 1))], axis=1)
    squares = known.T @ known / len(points) + ridge * np.eye(hidden + 1)
    drive = np.linalg.solve(squares, known.T @ wanted / len(points))

    def put(parameter: Tensor, values: Array | float) -> None:
        parameter.copy_(torch.as_tensor(values, dtype=torch.float64).expand_as(parameter))

    def positive(parameter: Tensor, value: float) -> None:
        put(parameter, raw_of(torch.tensor(value, dtype=torch.float64)).item())

    source, target = cell.source.numpy(), cell.target.numpy()
    positive(cell.w_raw, w)
    positive(cell.gleak_raw, LEAK)
    positive(cell.cm_raw, 1.0)
    put(cell.mu, thresholds[source])
    put(cell.sigma, steepness[source])
    put(cell.E, (drive[:hidden] / w)[source, target])
    put(cell.vleak, drive[hidden] / LEAK)
    put(cell.sensory_w_raw, CUT)
    put(circuit.lift.weight, gamma)
    put(circuit.lift.bias, 0.0)
