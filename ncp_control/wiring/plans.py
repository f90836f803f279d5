"""Plans: what to draw. `plan.build(inputs)` draws it with a generator of its own, the same wiring every time."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ncp_control.wiring.draw import deal, fill, signed
from ncp_control.wiring.edges import WiringError, is_whole, whole
from ncp_control.wiring.graph import Wiring, inter_layers


class Plan(ABC):
    """A frozen description of a random wiring.

    units: number of neurons. outputs: number of motor neurons among them, the last ones.
    Every synapse is excitatory (+1) or inhibitory (-1) with equal chance. Equal plans draw equal wirings, always;
    NumPy's global generator is neither read nor advanced.
    """

    units: int
    outputs: int

    @abstractmethod
    def build(self, inputs: int) -> Wiring:
        """The wiring for `inputs` input channels."""


@dataclass(frozen=True, init=False)
class FullyConnected(Plan):
    """Every input feeds every neuron; every neuron feeds every neuron, itself too.

    outputs: the last `outputs` neurons are motor, the others inter; None makes all of them motor.
    """

    units: int
    outputs: int
    seed: int

    def __init__(self, units: int, outputs: int | None = None, seed: int = 0) -> None:
        _assign_sizes(self, units, outputs, seed)

    def build(self, inputs: int) -> Wiring:
        inputs = whole(inputs, "inputs", least=1)
        rng = np.random.default_rng(self.seed)
        sensory = np.ones((inputs, self.units), dtype=bool)
        recurrent = np.ones((self.units, self.units), dtype=bool)
        synapses = signed(recurrent, rng)
        return Wiring(inputs, _inter_motor(self.units, self.outputs), signed(sensory, rng), synapses)


@dataclass(frozen=True, init=False)
class Random(Plan):
    """Synapses at random: round((1 - sparsity) I N) sensory and round((1 - sparsity) N N) recurrent ones.

    Still every input is used, every neuron can be reached from an input, and from every neuron a motor neuron can be
    reached. This takes at least I sensory and N - outputs recurrent synapses, and N of both together; these are drawn
    first, the others anywhere. A neuron may feed itself.

    outputs: as for `FullyConnected`. sparsity: the share of synapses left out, from 0 to below 1.
    """

    units: int
    outputs: int
    sparsity: float
    seed: int

    def __init__(self, units: int, outputs: int | None = None, sparsity: float = 0.5, seed: int = 0) -> None:
        _assign_sizes(self, units, outputs, seed)
        object.__setattr__(self, "sparsity", _share(sparsity))
        if self.sparsity >= 1:
            raise WiringError(f"sparsity {sparsity} leaves no synapse; it must be below 1")

    def build(self, inputs: int) -> Wiring:
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
        # Inputs feed the first `roots` neurons of this order; everyone else is fed by the neuron `roots` places
        # before, which makes `roots` chains; a neuron that ends its chain and is not motor feeds any later neuron.
        # Motor neurons come last, so that a chain is a way in and a way out at once. These recurrent synapses are the
        # greater of N - roots and N - outputs: they fit, since rounding cannot give more than I sensory synapses
        # while it gives fewer than N recurrent ones.
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
            _inter_motor(units, self.outputs),
            signed(fill(sensory, sensory_count, rng), rng),
            synapses,
        )


@dataclass(frozen=True, init=False)
class NCP(Plan):
    """A neural circuit policy: inputs -> inter (one or more layers) -> command (recurrent) -> motor.

    inter: neurons of the inter layer, or a tuple with one number for each inter layer.
    command, motor: neurons of these layers.
    sensory_fanout: distinct neurons of the first inter layer that each input feeds.
    inter_fanout: distinct neurons of the next layer (the last inter layer's next is command) that each inter neuron
        feeds; for several inter layers one number for all or a tuple.
    recurrent_command: distinct command -> command synapses in all; a neuron may feed itself.
    motor_fanin: distinct command neurons that feed each motor neuron.
    recurrent_inter: distinct synapses within each inter layer, like recurrent_command.

    A fan-out F of S neurons into a layer of T reaches the whole layer with exactly F synapses each if S F >= T; if not,
    each of the T - S F neurons left over draws one source more. Likewise for the fan-in of the motor neurons and the
    command neurons that they draw. Synapses among neurons do not depend on the number of inputs.
    """

    inter: tuple[int, ...]
    command: int
    motor: int
    sensory_fanout: int
    inter_fanout: tuple[int, ...]
    recurrent_command: int
    motor_fanin: int
    recurrent_inter: int
    seed: int
    units: int = field(init=False, repr=False, compare=False)
    outputs: int = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        inter: int | Sequence[int],
        command: int,
        motor: int,
        *,
        sensory_fanout: int,
        inter_fanout: int | Sequence[int],
        recurrent_command: int,
        motor_fanin: int,
        recurrent_inter: int = 0,
        seed: int = 0,
    ) -> None:
        sizes = _several(inter, "inter")
        fanouts = _several(inter_fanout, "inter_fanout")
        if not isinstance(inter_fanout, Sequence):
            fanouts *= len(sizes)
        if not sizes or len(fanouts) != len(sizes):
            raise WiringError(
                f"there are {len(sizes)} inter layers and {len(fanouts)} inter fan-outs; give one for each"
            )
        names = inter_layers(len(sizes))
        command = whole(command, "command", least=1)
        motor = whole(motor, "motor", least=1)
        targets = list(zip([*names, "command"], [*sizes, command], strict=True))
        _check_draw("sensory_fanout", sensory_fanout, *targets[0])
        for name, fanout, target in zip(names, fanouts, targets[1:], strict=True):
            _check_draw(f"inter_fanout of layer {name}", fanout, *target)
        _check_draw("motor_fanin", motor_fanin, "command", command)
        _check_recurrent("recurrent_command", recurrent_command, "command", command)
        for name, size in targets[:-1]:
            _check_recurrent("recurrent_inter", recurrent_inter, name, size)
        _assign(
            self,
            inter=sizes,
            command=command,
            motor=motor,
            sensory_fanout=int(sensory_fanout),
            inter_fanout=fanouts,
            recurrent_command=int(recurrent_command),
            motor_fanin=int(motor_fanin),
            recurrent_inter=int(recurrent_inter),
            seed=whole(seed, "seed"),
            units=sum(sizes) + command + motor,
            outputs=motor,
        )

    def build(self, inputs: int) -> Wiring:
        inputs = whole(inputs, "inputs", least=1)
        rng = np.random.default_rng(self.seed)
        sizes = [*self.inter, self.command, self.motor]
        ends = np.cumsum(sizes).tolist()
        layers = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        recurrent = np.zeros((self.units, self.units), dtype=bool)
        for source, target, fanout in zip(layers, layers[1:], self.inter_fanout, strict=False):
            recurrent[source, target] = deal(source.stop - source.start, target.stop - target.start, fanout, rng)
            fill(recurrent[source, source], self.recurrent_inter, rng)
        command, motor = layers[-2:]
        fill(recurrent[command, command], self.recurrent_command, rng)
        recurrent[command, motor] = deal(self.motor, self.command, self.motor_fanin, rng).T
        synapses = signed(recurrent, rng)
        sensory = np.zeros((inputs, self.units), dtype=bool)
        sensory[:, layers[0]] = deal(inputs, sizes[0], self.sensory_fanout, rng)
        layer_sizes = tuple(zip([*inter_layers(len(self.inter)), "command", "motor"], sizes, strict=True))
        return Wiring(inputs, layer_sizes, signed(sensory, rng), synapses)


@dataclass(frozen=True)
class AutoNCP(Plan):
    """An `NCP` from three numbers: neurons, motor neurons among them, and how sparse.

    With d = 1 - sparsity and rest = units - outputs (each number rounded down, and at least 1):
    command = 0.4 rest, inter = rest - command, sensory_fanout = inter d, inter_fanout = command d,
    recurrent_command = 2 command d, motor_fanin = command d.

    outputs: at most units - 2. sparsity: from 0 to 0.9.
    """

    units: int
    outputs: int
    sparsity: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        _assign(
            self,
            units=whole(self.units, "units", least=1),
            outputs=whole(self.outputs, "outputs", least=1),
            sparsity=_share(self.sparsity),
            seed=whole(self.seed, "seed"),
        )
        if self.outputs > self.units - 2:
            raise WiringError(
                f"{self.units} neurons cannot have {self.outputs} motor neurons, an inter and a command neuron among "
                f"them; take at least {self.outputs + 2} neurons"
            )
        if self.sparsity > 0.9:
            raise WiringError(f"sparsity must be from 0 to 0.9, got {self.sparsity:g}")

    @property
    def ncp(self) -> NCP:
        """The `NCP` that this plan stands for."""
        density = 1 - self.sparsity
        rest = self.units - self.outputs
        command = max(int(0.4 * rest), 1)
        inter = rest - command
        fan = max(int(command * density), 1)
        return NCP(
            inter,
            command,
            self.outputs,
            sensory_fanout=max(int(inter * density), 1),
            inter_fanout=fan,
            # A single command neuron has room for one recurrent synapse only.
            recurrent_command=min(max(int(2 * command * density), 1), command**2),
            motor_fanin=fan,
            seed=self.seed,
        )

    def build(self, inputs: int) -> Wiring:
        return self.ncp.build(inputs)


@dataclass(frozen=True)
class GapJunctions(Plan):
    """The wiring of `plan` and `count` gap junctions more, between random distinct pairs of neurons.

    Of the cells, an `LTC` has gap junctions; the others run on the synapses alone.

    within: the layer in which both neurons lie, such as "command"; None for any two neurons.
    Nest it to join several layers: GapJunctions(GapJunctions(plan, 4, "command"), 2, "motor").
    """

    plan: Plan
    count: int
    within: str | None = None
    seed: int = 0
    units: int = field(init=False, repr=False, compare=False)
    outputs: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.plan, Plan):
            raise WiringError(f"GapJunctions takes a plan such as AutoNCP(40, 16) first, got {self.plan!r}")
        _assign(
            self,
            count=whole(self.count, "the count of gap junctions"),
            seed=whole(self.seed, "seed"),
            units=self.plan.units,
            outputs=self.plan.outputs,
        )

    def build(self, inputs: int) -> Wiring:
        wiring = self.plan.build(inputs)
        if self.within is not None and self.within not in list(wiring.layers):
            raise WiringError(f"there is no layer {self.within!r} to join; the layers are {', '.join(wiring.layers)}")
        part = slice(0, wiring.units) if self.within is None else wiring.layers[self.within]
        free = np.zeros((wiring.units, wiring.units), dtype=bool)
        free[part, part] = True
        free = np.triu(free, k=1)
        free[wiring.gap_junctions[:, 0], wiring.gap_junctions[:, 1]] = False
        pairs = np.argwhere(free)
        if self.count > len(pairs):
            raise WiringError(
                f"{self.count} gap junctions do not fit: {self.within or 'the wiring'} has {part.stop - part.start} "
                f"neurons and {len(pairs)} pairs of them still to join"
            )
        drawn = np.random.default_rng(self.seed).choice(len(pairs), size=self.count, replace=False)
        return Wiring(
            wiring.inputs,
            wiring.layer_sizes,
            wiring.sensory,
            wiring.synapses,
            np.concatenate([wiring.gap_junctions, pairs[drawn]]),
            wiring.input_names,
            wiring.neuron_names,
        )


def _inter_motor(units: int, outputs: int) -> tuple[tuple[str, int], ...]:
    return (("motor", units),) if outputs == units else (("inter", units - outputs), ("motor", outputs))


def _assign(plan: Plan, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(plan, name, value)


def _assign_sizes(plan: Plan, units: int, outputs: int | None, seed: int) -> None:
    units = whole(units, "units", least=1)
    outputs = units if outputs is None else whole(outputs, "outputs", least=1)
    if outputs > units:
        raise WiringError(f"{units} neurons cannot have {outputs} motor neurons among them; take at least {outputs}")
    _assign(plan, units=units, outputs=outputs, seed=whole(seed, "seed"))


def _share(sparsity: object) -> float:
    if (is_whole(sparsity) or isinstance(sparsity, (float, np.floating))) and 0 <= sparsity <= 1:
        return float(sparsity)
    raise WiringError(f"sparsity is the share of synapses left out, a number from 0 to 1, got {sparsity!r}")


def _several(given: object, what: str) -> tuple[int, ...]:
    if isinstance(given, Sequence) and not isinstance(given, str):
        return tuple(whole(value, f"{what} (layer {number})", least=1) for number, value in enumerate(given, start=1))
    return (whole(given, what, least=1),)


def _check_draw(what: str, fan: object, layer: str, size: int) -> None:
    if whole(fan, what, least=1) > size:
        raise WiringError(f"{what} is {fan}, but layer {layer} has only {size} neurons; take {size} or fewer")


def _check_recurrent(what: str, count: object, layer: str, size: int) -> None:
    if whole(count, what) > size**2:
        raise WiringError(
            f"{what} is {count}, but the {size} neurons of layer {layer} have room for {size**2} synapses; take no more"
        )
