"""Liquid time-constant neurons with conductance synapses and gap junctions (the 2018 form, used by NCPs)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ncp_control.neurons.base import Currents, Guarantee
from ncp_control.neurons.ltc.kind import STRUCT, LTCSettings
from ncp_control.neurons.ode import ODECell, solver_caveat
from ncp_control.neurons.parameters import (
    EDGE,
    Range,
    check_init,
    check_time_constants,
    positive,
    raw_of,
    spread,
    value_of,
    with_room,
    within,
    written_class,
)
from ncp_control.neurons.program_form import ProgramForm, first_of_target
from ncp_control.ops.motor import MotorMap
from ncp_control.ops.program import Program
from ncp_control.wiring import Plan, Wiring

INITS: dict[str, dict[str, Range]] = {
    # the ranges of the ncps package
    "ncps": {
        "gleak": (0.001, 1.0), "vleak": (-0.2, 0.2), "cm": (0.4, 0.6), "gap": (0.001, 1.0), "E": (1.0, 1.0),
        "w": (0.001, 1.0), "sigma": (3.0, 8.0), "mu": (0.3, 0.8),
        "sensory_w": (0.001, 1.0), "sensory_sigma": (3.0, 8.0), "sensory_mu": (0.3, 0.8),
    },
    # the ranges of the authors' first code: all neurons have the same leak and the same capacitance
    "original": {
        "gleak": (1.0, 1.0), "vleak": (-0.2, 0.2), "cm": (0.5, 0.5), "gap": (0.01, 1.0), "E": (1.0, 1.0),
        "w": (0.01, 1.0), "sigma": (3.0, 8.0), "mu": (0.3, 0.8),
        "sensory_w": (0.01, 1.0), "sensory_sigma": (3.0, 8.0), "sensory_mu": (0.3, 0.8),
    },
    # the biophysical ranges of the parameter tables
    "biophysical": {
        "gleak": (0.1, 1.0), "vleak": (-1.0, 0.0), "cm": (0.1, 10.0), "gap": (0.0, 1.0), "E": (0.0, 1.0),
        "w": (0.0, 2.0), "sigma": (0.5, 5.0), "mu": (-2.0, 2.0),
        "sensory_w": (0.0, 2.0), "sensory_sigma": (0.5, 5.0), "sensory_mu": (-2.0, 2.0),
    },
    # for control: thresholds in the range of standardised inputs (about +-1) and of neurons (about +-0.5)
    "centred": {
        "gleak": (0.001, 1.0), "vleak": (-0.2, 0.2), "cm": (0.4, 0.6), "gap": (0.001, 1.0), "E": (1.0, 1.0),
        "w": (0.001, 1.0), "sigma": (3.0, 8.0), "mu": (-0.5, 0.5),
        "sensory_w": (0.001, 1.0), "sensory_sigma": (2.0, 4.0), "sensory_mu": (-1.0, 1.0),
    },
}  # fmt: skip


MAPS = ("affine", "linear", "none")


def register_map(cell: nn.Module, name: str, kind: str, size: int) -> None:
    """Gives `cell` the parameters `{name}_scale`, ones, and `{name}_shift`, zeros; None for one that `kind` lacks."""
    if kind not in MAPS:
        raise ValueError(f"unknown {name}_map {kind!r}: choose one of {', '.join(MAPS)}")
    cell.register_parameter(f"{name}_scale", nn.Parameter(torch.ones(size)) if kind != "none" else None)
    cell.register_parameter(f"{name}_shift", nn.Parameter(torch.zeros(size)) if kind == "affine" else None)


def apply_map(values: Tensor, scale: Tensor | None, shift: Tensor | None) -> Tensor:
    """Returns `values * scale + shift`, without the parts that are None."""
    if scale is None:
        return values
    return values * scale if shift is None else torch.addcmul(shift, values, scale)


LEAST_LEAK = 1e-3  # no bounded neuron leaks less
# No time constant of a bounded neuron lies outside these. With the least leak, no capacitance then comes near the
# smallest that `raw_of` can return, and none overflows while the conductances stay below 1e26.
SHORTEST, LONGEST = 1e-4, 1e12
PROGRAM = ProgramForm("ltc", STRUCT.indexes, STRUCT.parameters)
BOUNDED_PROGRAM = ProgramForm(
    "ltc", PROGRAM.indexes, tuple("cm_logit" if name == "cm_raw" else name for name in PROGRAM.parameters)
)


class LTCConstants(NamedTuple):
    """The effective parameters.

    :param slow: the conductance that is always open, `gleak + sum gap`, (N,)
    :param leak: the leak current into v = 0, `gleak * vleak`, (N,)
    :param cm: the capacitances, (N,)
    :param w: the maximal conductances of the synapses between neurons, (E,)
    :param sensory_w: the maximal conductances of the sensory synapses, (S,)
    :param gap: the conductances of the gap junctions, (G,)
    """

    slow: Tensor
    leak: Tensor
    cm: Tensor
    w: Tensor
    sensory_w: Tensor
    gap: Tensor


class LTC(ODECell):
    """Conductance-based liquid time-constant cell.

    For neuron j with chemical synapses from neurons and inputs i, and gap junctions to neurons k::

        a_ij = w_ij sigmoid(sigma_ij (v_i - mu_ij))
        cm_j dv_j/dt = gleak_j (vleak_j - v_j) + sum_i a_ij (E_ij - v_j) + sum_k gap_jk (v_k - v_j)

    so that `rate_j = (gleak_j + sum_i a_ij + sum_k gap_jk) / cm_j` is the inverse of the liquid time constant.
    Sensory synapses are computed once for a step of the sequence, the others at each of the `unfolds` solver steps.
    Parameters of synapses exist for existing synapses only. `w`, `gleak`, `cm` and `gap` are positive by construction:
    each is a softplus of its `*_raw`.

    :param inputs: number of input features I
    :param plan: a plan, a built wiring, or a number of fully connected neurons
    :param solver: "fused" (default), "euler", "rk4" or "dopri5"
    :param unfolds: solver steps for one step of the sequence
    :param init: "ncps" (default), "original", "biophysical" or "centred", see `INITS`
    :param time_constants: (shortest, longest) in units of `elapsed`; sets the capacitances so that the neurons' time
        constants, with every synapse half open, are spread evenly in the logarithm over that range
    :param bounded: keep the time constants within `time_constants` for good, whatever is learnt, and not only at the
        start. The capacitance of a neuron is then computed from its conductances: it lies between the two with which
        the time constant is `shortest` when all synapses are open and `longest` when all are closed. To leave room
        between these two, the leak is at least `shortest / (longest - shortest)` of what all synapses let in
    :param input_map: "affine" (a scale and a shift for each input), "linear" (a scale) or "none"
    :param output_map: the same for the outputs, which are the motor neurons
    """

    uses_gap_junctions = True
    absent = -torch.inf  # softplus makes it a conductance of zero
    belongs: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "neurons": ("gleak_raw", "vleak", "cm_raw", "cm_logit"),
        "synapses": ("w_raw", "mu", "sigma", "E"),
        "sensory": ("sensory_w_raw", "sensory_mu", "sensory_sigma", "sensory_E"),
        "gap_junctions": ("gap_raw",),
        "inputs": ("input_scale", "input_shift"),
        "motor": ("output_scale", "output_shift"),
    }
    source: Tensor
    target: Tensor
    sensory_source: Tensor
    sensory_target: Tensor
    gap_ends: Tensor
    start: Tensor
    sensory_start: Tensor
    input_scale: nn.Parameter | None
    input_shift: nn.Parameter | None
    output_scale: nn.Parameter | None
    output_shift: nn.Parameter | None

    def __init__(
        self,
        inputs: int,
        plan: Plan | Wiring | int,
        *,
        solver: str = "fused",
        unfolds: int = 6,
        init: str = "ncps",
        time_constants: Range | None = None,
        bounded: bool = False,
        input_map: str = "affine",
        output_map: str = "affine",
    ) -> None:
        super().__init__(inputs, plan, solver, unfolds)
        check_init(init, INITS)
        self.init = init
        self.time_constants_range = check_time_constants(time_constants)
        self.kept_range = kept_range(self.time_constants_range) if bounded else None
        self.input_map, self.output_map = input_map, output_map
        wiring = self.wiring
        self.add_indexes(
            source=wiring.synapses.source,
            target=wiring.synapses.target,
            sensory_source=wiring.sensory.source,
            sensory_target=wiring.sensory.target,
            gap_ends=wiring.gap_junctions,
            start=first_of_target(wiring.synapses.target, self.units),
            sensory_start=first_of_target(wiring.sensory.target, self.units),
        )
        self.sizes = (len(wiring.synapses), len(wiring.sensory), len(wiring.gap_junctions))
        self._draw(INITS[init])
        register_map(self, "input", input_map, self.inputs)
        register_map(self, "output", output_map, self.outputs)

    def _draw(self, ranges: dict[str, Range]) -> None:
        """Draws every parameter from its range with torch's generator."""
        wiring, units = self.wiring, self.units
        synapses, sensory = len(wiring.synapses), len(wiring.sensory)

        def draw(name: str, size: int) -> Tensor:
            low, high = ranges[name]
            return torch.empty(size).uniform_(low, high)

        self.gleak_raw = nn.Parameter(raw_of(draw("gleak", units)))
        self.vleak = nn.Parameter(draw("vleak", units))
        # Bounded neurons draw it, too, so that a seed draws the same numbers for all that follows.
        cm = nn.Parameter(raw_of(draw("cm", units)))
        if self.kept_range is None:
            self.cm_raw = cm
        self.w_raw = nn.Parameter(raw_of(draw("w", synapses)))
        self.mu = nn.Parameter(draw("mu", synapses))
        self.sigma = nn.Parameter(draw("sigma", synapses))
        self.E = nn.Parameter(torch.tensor(wiring.synapses.polarity, dtype=torch.get_default_dtype()))
        self.sensory_w_raw = nn.Parameter(raw_of(draw("sensory_w", sensory)))
        self.sensory_mu = nn.Parameter(draw("sensory_mu", sensory))
        self.sensory_sigma = nn.Parameter(draw("sensory_sigma", sensory))
        self.sensory_E = nn.Parameter(torch.tensor(wiring.sensory.polarity, dtype=torch.get_default_dtype()))
        self.gap_raw = nn.Parameter(raw_of(draw("gap", len(wiring.gap_junctions))))
        with torch.no_grad():
            if ranges["E"] != (1.0, 1.0):
                self.E.mul_(draw("E", synapses))
                self.sensory_E.mul_(draw("E", sensory))
            if self.time_constants_range is not None:
                half_open = self.gleak + 0.5 * self._incoming_w() + self._incoming_gap()
                capacitances = spread(self.time_constants_range, units) * half_open
                if self.kept_range is None:
                    self.cm_raw.copy_(raw_of(capacitances))
                else:
                    self.cm_logit = nn.Parameter(self._logit_of(capacitances, EDGE))

    @property
    def w(self) -> Tensor:
        """Maximal conductance of every synapse, (E,), positive."""
        return positive(self.w_raw)

    @property
    def sensory_w(self) -> Tensor:
        """Maximal conductance of every sensory synapse, (S,), positive."""
        return positive(self.sensory_w_raw)

    @property
    def gleak(self) -> Tensor:
        """Leak conductance of every neuron, (N,), positive."""
        own = positive(self.gleak_raw)
        return own if self.kept_range is None else own + LEAST_LEAK + leak_share(self.kept_range) * self._incoming_w()

    @property
    def cm(self) -> Tensor:
        """Membrane capacitance of every neuron, (N,), positive."""
        if self.kept_range is None:
            return positive(self.cm_raw)
        return within(self.cm_logit, self._capacitances())

    def _capacitances(self) -> tuple[Tensor, Tensor]:
        """Returns the least and the greatest capacitance of every bounded neuron, each (N,)."""
        assert self.kept_range is not None
        slow = self.gleak + self._incoming_gap()
        return self.kept_range[0] * (slow + self._incoming_w()), self.kept_range[1] * slow

    def _logit_of(self, cm: Tensor, edge: float) -> Tensor:
        """Returns the `cm_logit` that makes the capacitances `cm`; those near the ends or outside move inwards."""
        least, most = self._capacitances()
        return torch.logit(torch.log(cm / least) / torch.log(most / least), eps=edge)

    @property
    def gap(self) -> Tensor:
        """Conductance of every gap junction, (G,), positive."""
        return positive(self.gap_raw)

    def program(self) -> Program | None:
        """Returns a program for the fused and the explicit Euler solver; None otherwise and for a subclass."""
        if written_class(self) is not LTC or self.solver not in ("fused", "euler"):
            return None
        settings = LTCSettings(*self.sizes, self.unfolds, euler=int(self.solver == "euler"))
        if self.kept_range is None:
            return PROGRAM.read(self, settings)
        program = BOUNDED_PROGRAM.read(self, settings)
        _, vleak, _, *rest = program.parameters
        return program._replace(parameters=(raw_of(self.gleak), vleak, raw_of(self.cm), *rest))

    def constants(self) -> LTCConstants:
        """Returns the positive parameters, and the sums and products that need nothing else."""
        gleak = self.gleak
        return LTCConstants(gleak + self._incoming_gap(), gleak * self.vleak, self.cm, self.w, self.sensory_w, self.gap)

    def sense(self, constants: LTCConstants, inputs: Tensor) -> Tensor:
        """Returns, for every neuron, the sum of its sensory conductances and of their currents into v = 0.

        :param constants: what `constants` returned
        :param inputs: (..., I)
        :return: (..., 2N), first the conductances and then the currents
        """
        inputs = apply_map(inputs, self.input_scale, self.input_shift)
        source = inputs.index_select(-1, self.sensory_source)
        a = constants.sensory_w * torch.sigmoid(self.sensory_sigma * (source - self.sensory_mu))
        return torch.cat([self._sum(a, self.sensory_target), self._sum(a * self.sensory_E, self.sensory_target)], -1)

    def rate_and_drive(self, constants: LTCConstants, sensed: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the sum of all conductances, and of all currents into v = 0, over the capacitance, each (B, N)."""
        sensory_conductance, sensory_current = sensed.chunk(2, dim=-1)
        a = constants.w * torch.sigmoid(self.sigma * (state.index_select(-1, self.source) - self.mu))
        conductance = constants.slow + sensory_conductance + self._sum(a, self.target)
        current = constants.leak + sensory_current + self._sum(a * self.E, self.target)
        if len(constants.gap):
            first, second = self.gap_ends[:, 0], self.gap_ends[:, 1]
            current = current.index_add(-1, first, constants.gap * state.index_select(-1, second))
            current = current.index_add(-1, second, constants.gap * state.index_select(-1, first))
        return conductance / constants.cm, current / constants.cm

    def currents(self, inputs: Tensor, before: Tensor, after: Tensor) -> Currents:
        """Returns the currents in the ODE as the step begins: `a_ij (E_ij - v_j)` and `gap_jk (v_k - v_j)`."""
        inputs = apply_map(inputs, self.input_scale, self.input_shift)

        def through(source: Tensor, w: Tensor, mu: Tensor, sigma: Tensor, E: Tensor, target: Tensor) -> Tensor:
            return w * torch.sigmoid(sigma * (source - mu)) * (E - before[:, target])

        first, second = self.gap_ends[:, 0], self.gap_ends[:, 1]
        return Currents(
            through(
                inputs[:, self.sensory_source],
                self.sensory_w,
                self.sensory_mu,
                self.sensory_sigma,
                self.sensory_E,
                self.sensory_target,
            ),
            through(before[:, self.source], self.w, self.mu, self.sigma, self.E, self.target),
            self.gap * (before[:, second] - before[:, first]),
        )

    def cut_synapses(self, synapses: Sequence[int], sensory: Sequence[int], gap_junctions: Sequence[int]) -> None:
        """Sets the conductances of these synapses and gap junctions to 1e-8, the smallest there is.

        Bounded neurons keep their leak and, where the range allows it, their capacitance.
        """
        gleak, cm = self.gleak, self.cm
        self.w_raw[synapses] = -torch.inf
        self.sensory_w_raw[sensory] = -torch.inf
        self.gap_raw[gap_junctions] = -torch.inf
        if len(synapses) or len(sensory) or len(gap_junctions):
            self.hold(gleak, cm)

    def inherit(self, larger: LTC, neurons: Any) -> None:
        """Gives bounded neurons the leak and the capacitance that they have in a larger circuit."""
        if larger.sizes != self.sizes:
            self.hold(larger.gleak[neurons], larger.cm[neurons])

    @torch.no_grad()
    def hold(self, gleak: Tensor, cm: Tensor) -> None:
        """Gives bounded neurons their leak and capacitance again, (N,), after some of their synapses have gone."""
        if self.kept_range is not None:
            self.gleak_raw.copy_(raw_of(gleak - LEAST_LEAK - leak_share(self.kept_range) * self._incoming_w()))
            # A start keeps away from the limits, but here the capacitance shall stay what it was.
            self.cm_logit.copy_(self._logit_of(cm, 1e-6))

    def _sum(self, values: Tensor, target: Tensor) -> Tensor:
        """Adds up the values of synapses (..., E) for each target neuron, (..., N)."""
        return values.new_zeros(*values.shape[:-1], self.units).index_add(-1, target, values)

    def _incoming_w(self) -> Tensor:
        return self._sum(self.w, self.target) + self._sum(self.sensory_w, self.sensory_target)

    def _incoming_gap(self) -> Tensor:
        gap, total = self.gap, self.gleak_raw.new_zeros(self.units)
        for ends in self.gap_ends.unbind(1):
            total = total.index_add(0, ends, gap)
        return total

    def motor(self, states: Tensor) -> Tensor:
        """Returns the motor neurons, scaled and shifted by the output map."""
        return apply_map(super().motor(states), value_of(self, "output_scale"), value_of(self, "output_shift"))

    def motor_map(self) -> MotorMap | None:
        """Returns `motor` as the map that compiled backends know, or None for a cell that defines it otherwise."""
        if getattr(self.motor, "__func__", None) is not LTC.motor:
            return None
        maps = value_of(self, "output_scale"), value_of(self, "output_shift")
        return MotorMap(self.motor_start, self.outputs, *maps)

    def time_constant_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns the ends of `cm / (gleak + sum w + sum gap) <= tau <= cm / (gleak + sum gap)` (2018, Eq. 40)."""
        slow = self.gleak + self._incoming_gap()
        return self.cm / (slow + self._incoming_w()), self.cm / slow

    def state_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns the ends of `min(vleak, E) <= v <= max(vleak, E)` over the synapses into a neuron (2018, Eq. 50).

        The bounds also include zero, where every state starts. Neurons that gap junctions join, directly or through
        others, share the widest bounds among them.
        """
        low, high = self.vleak.clamp(max=0.0), self.vleak.clamp(min=0.0)
        for target, reversal in ((self.target, self.E), (self.sensory_target, self.sensory_E)):
            low = low.scatter_reduce(0, target, reversal, "amin")
            high = high.scatter_reduce(0, target, reversal, "amax")
        group = torch.tensor(joined(self.units, self.wiring.gap_junctions), device=low.device)
        low = low.scatter_reduce(0, group, low, "amin")[group]
        high = high.scatter_reduce(0, group, high, "amax")[group]
        return low, high

    @property
    def guarantee(self) -> Guarantee:
        """The bounds hold with the fused solver, because a sigmoid lies in (0, 1)."""
        caveat = solver_caveat(self.solver)
        if caveat:
            return Guarantee(False, caveat)
        return Guarantee(True, "every fused step is a weighted mean of the state, the leak and the reversal potentials")

    def config(self) -> dict[str, Any]:
        """Returns the settings as JSON values."""
        return {
            **super().config(),
            "init": self.init,
            "time_constants": self.time_constants_range,
            **({"bounded": True} if self.kept_range else {}),  # files of others are as earlier versions wrote them
            "input_map": self.input_map,
            "output_map": self.output_map,
        }


def kept_range(limits: Range | None) -> Range:
    """Returns the range in which a bounded cell keeps its time constants, with room for rounding."""
    if limits is None:
        raise ValueError("bounded=True needs the range of the time constants: give time_constants=(shortest, longest)")
    shortest, longest = with_room(limits)
    if limits[0] < SHORTEST or limits[1] > LONGEST or shortest >= longest:
        raise ValueError(
            f"with bounded=True the shortest time constant must be at least {SHORTEST:g} and shorter than the longest, "
            f"and that at most {LONGEST:g}, got {limits!r}"
        )
    return shortest, longest


def leak_share(limits: Range) -> float:
    """Returns the least leak of a bounded neuron, as a share of the conductance of all its synapses when open."""
    return limits[0] / (limits[1] - limits[0])


def joined(units: int, pairs: np.ndarray) -> list[int]:
    """Returns, for each neuron, the first neuron of the group that gap junctions join it to."""
    group = list(range(units))
    for first, second in pairs.tolist():
        # The lower number stays: the group is known by its first neuron.
        keep, drop = sorted((group[first], group[second]))
        group = [keep if member == drop else member for member in group]
    return group
