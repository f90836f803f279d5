"""CT-GRU: a GRU whose memory decays on several fixed time scales at once (Mozer, Kazakov and Lindsey, 2017)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from ncp_control.neurons.base import Cell, Currents, Guarantee, dense_only, without_gaps
from ncp_control.neurons.ct_gru.kind import CTGRUSettings
from ncp_control.neurons.parameters import split_last, written_class
from ncp_control.neurons.program_form import ProgramForm
from ncp_control.ops.program import Program
from ncp_control.solvers import Span
from ncp_control.wiring import Plan, Wiring

LAYERS = ("retrieve", "detect", "store")
PROGRAM = ProgramForm("ctgru", (), tuple(f"{layer}.{name}" for layer in LAYERS for name in ("weight", "bias")))


class CTGRU(Cell):
    """Continuous-time GRU with M time scales `tau_k = 10^(k/2)`, k = 0 .. M-1, in units of elapsed time::

        r = softmax_k(-(R[x, h] - ln tau_k)^2)             which scales to read
        q = tanh(Q[x, sum_k r_k m_k])                      the event
        s = softmax_k(-(S[x, h] - ln tau_k)^2)             which scales to write
        m_k' = ((1 - s_k) m_k + s_k q) exp(-elapsed / tau_k),    h' = sum_k m_k'

    R and S have one row for each neuron and scale, as in the code and the parameter counts of the 2021 paper. The
    state is all memories m, (B, U M), neuron by neuron; the outputs are h of the motor neurons.

    :param inputs: number of input features I
    :param plan: a number of neurons U, or a plan or a wiring that is fully connected
    :param scales: number of time scales M
    """

    always_dense: ClassVar[bool] = True

    def __init__(self, inputs: int, plan: Plan | Wiring | int, *, scales: int = 8) -> None:
        super().__init__(inputs, plan)
        dense_only(self)
        if scales < 1:
            raise ValueError(f"scales must be a positive number, got {scales!r}")
        self.scales = scales
        fan_in = self.inputs + self.units
        self.retrieve = nn.Linear(fan_in, self.units * scales)
        self.detect = nn.Linear(fan_in, self.units)
        self.store = nn.Linear(fan_in, self.units * scales)
        for layer in (self.retrieve, self.detect, self.store):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    @property
    def state_size(self) -> int:
        """The number of memories, U M: one for each neuron and scale."""
        return self.units * self.scales

    @property
    def tau(self) -> Tensor:
        """The time scales, (M,)."""
        return 10 ** (torch.arange(self.scales, dtype=self.dtype, device=self.detect.weight.device) / 2)

    def program(self) -> Program | None:
        """Returns the program of a CT-GRU, and None for a subclass of one's own."""
        if written_class(self) is not CTGRU:
            return None
        return PROGRAM.read(self, CTGRUSettings(self.units**2, self.inputs * self.units, self.scales))

    def constants(self) -> Tensor:
        """Returns the time scales."""
        return self.tau

    def sense(self, constants: Tensor, inputs: Tensor) -> Tensor:
        """Returns the inputs' share of all three maps, (..., U (2 M + 1)), in the order R, Q, S."""
        layers = (self.retrieve, self.detect, self.store)
        return torch.cat([linear(inputs, a.weight[:, : self.inputs], a.bias) for a in layers], dim=-1)

    def _split(self, sensed: Tensor) -> list[Tensor]:
        many = self.units * self.scales
        return list(sensed.split([many, self.units, many], dim=-1))

    def _recurrent(self, layer: nn.Linear, h: Tensor) -> Tensor:
        return linear(h, layer.weight[:, self.inputs :])

    def _scale_weights(self, log_tau: Tensor, tau: Tensor) -> Tensor:
        """Returns how near `log_tau` (B, U M) is to the logarithm of each scale: softmax over scales, (B, U, M).

        With the nearest distance n, `n^2 - distance^2` is computed as a product: two squares that overflow would leave
        infinity less infinity.
        """
        distance = split_last(log_tau, self.units, self.scales) - torch.log(tau)
        fixed = distance.detach()  # a softmax does not depend on what is added to all, so n needs no gradient
        nearest = fixed.gather(-1, fixed.abs().argmin(-1, keepdim=True))
        return torch.softmax((nearest - distance) * (nearest + distance), dim=-1)

    def advance(self, constants: Tensor, sensed: Tensor, state: Tensor, elapsed: Span) -> Tensor:
        """Returns all memories one step later."""
        memory = split_last(state, self.units, self.scales)
        h = memory.sum(-1)
        sensed_r, sensed_q, sensed_s = self._split(sensed)
        r = self._scale_weights(sensed_r + self._recurrent(self.retrieve, h), constants)
        q = torch.tanh(sensed_q + self._recurrent(self.detect, (r * memory).sum(-1)))
        s = self._scale_weights(sensed_s + self._recurrent(self.store, h), constants)
        written = (1 - s) * memory + s * q[..., None]
        # (B, 1) has one dimension less than the memories, (B, U, M).
        span = elapsed[..., None] if isinstance(elapsed, Tensor) and elapsed.dim() else elapsed
        return (written * torch.exp(-span / constants)).flatten(-2)

    def motor(self, states: Tensor) -> Tensor:
        """Returns h of the motor neurons, (..., O)."""
        return super().motor(self.neurons(states))

    def neurons(self, states: Tensor) -> Tensor:
        """Returns h, the sum of each neuron's memories, (..., U)."""
        return split_last(states, self.units, self.scales).sum(-1)

    def currents(self, inputs: Tensor, before: Tensor, after: Tensor) -> Currents:
        """Returns every synapse's share of the argument of the event's tanh, with h read before the step."""
        h, weight = self.neurons(before), self.detect.weight
        sensory, synapses = (
            [torch.tensor(ends, device=inputs.device) for ends in (edges.source, edges.target)]
            for edges in (self.wiring.sensory, self.wiring.synapses)
        )
        return without_gaps(
            self.wiring,
            inputs[:, sensory[0]] * weight[sensory[1], sensory[0]],
            h[:, synapses[0]] * weight[synapses[1], self.inputs + synapses[0]],
        )

    def time_constants(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Returns the mean of the time scales, weighted as the neuron writes to them, (B, U)."""
        h = split_last(state, self.units, self.scales).sum(-1)
        tau = self.tau
        s = self._scale_weights(self._split(self.sense(tau, inputs))[2] + self._recurrent(self.store, h), tau)
        return (s * tau).sum(-1)

    def time_constant_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns the shortest and the longest scale."""
        tau = self.tau
        return tau[0].expand(self.units), tau[-1].expand(self.units)

    def state_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns `[-1, 1]` for every memory."""
        one = self.detect.bias.new_ones(self.state_size)
        return -one, one

    @property
    def guarantee(self) -> Guarantee:
        """The bounds hold, because a memory is a decaying mean of itself and a tanh."""
        return Guarantee(True, "every memory is a decaying weighted mean of itself and a tanh")

    def config(self) -> dict[str, Any]:
        """Returns the settings as JSON values."""
        return {"scales": self.scales}
