"""Neural circuit policies: layers from inputs over inter and command neurons to motor neurons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ncp_control.wiring.edges import WiringError, inter_layers, whole
from ncp_control.wiring.graph import Wiring
from ncp_control.wiring.plan import Plan, assign, checked_sparsity, deal, fill, signed


@dataclass(frozen=True, init=False)
class NCP(Plan):
    """A neural circuit policy: inputs -> inter (one or more layers) -> command (recurrent) -> motor.

    If S neurons with a fan-out of F feed a layer of T and S F >= T, every neuron of the layer is fed, and every source
    has exactly F synapses. If S F < T, each of the T - S F neurons left over draws one source more. The same holds for
    the fan-in of the motor neurons, which draw command neurons. Synapses between neurons do not depend on the number of
    inputs.

    :param inter: number of inter neurons, or a sequence with a number for each inter layer
    :param command: number of command neurons
    :param motor: number of motor neurons
    :param sensory_fanout: how many different neurons of the first inter layer each input feeds
    :param inter_fanout: how many different neurons of the next layer each inter neuron feeds, where command comes next
        after the last inter layer; one number, or a sequence with a number for each inter layer
    :param recurrent_command: how many synapses lead from command to command neurons in all; a neuron can feed itself
    :param motor_fanin: how many different command neurons feed each motor neuron
    :param recurrent_inter: how many synapses there are within each inter layer; a neuron can feed itself
    :param seed: seed of the synapses and the polarities
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
            fanouts *= len(sizes)  # one number serves all inter layers
        if not sizes or len(fanouts) != len(sizes):
            raise WiringError(
                f"there are {len(sizes)} inter layers and {len(fanouts)} inter fan-outs; give one for each"
            )
        names = inter_layers(len(sizes))
        command = whole(command, "command", least=1)
        motor = whole(motor, "motor", least=1)
        targets = list(zip([*names, "command"], [*sizes, command], strict=True))
        _check_fan("sensory_fanout", sensory_fanout, *targets[0])
        for name, fanout, target in zip(names, fanouts, targets[1:], strict=True):
            _check_fan(f"inter_fanout of layer {name}", fanout, *target)
        _check_fan("motor_fanin", motor_fanin, "command", command)
        _check_recurrent("recurrent_command", recurrent_command, "command", command)
        for name, size in targets[:-1]:
            _check_recurrent("recurrent_inter", recurrent_inter, name, size)
        assign(
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
        """Returns the wiring for that many inputs."""
        inputs = whole(inputs, "inputs", least=1)
        # In another order of the draws the same seed would make another wiring. The inputs come last, so that the
        # synapses between neurons do not depend on their number.
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
        # The motor neurons draw their sources, so the synapses are dealt the other way round.
        recurrent[command, motor] = deal(self.motor, self.command, self.motor_fanin, rng).T
        synapses = signed(recurrent, rng)
        sensory = np.zeros((inputs, self.units), dtype=bool)
        sensory[:, layers[0]] = deal(inputs, sizes[0], self.sensory_fanout, rng)
        layer_sizes = tuple(zip([*inter_layers(len(self.inter)), "command", "motor"], sizes, strict=True))
        return Wiring(inputs, layer_sizes, signed(sensory, rng), synapses)


@dataclass(frozen=True)
class AutoNCP(Plan):
    """An `NCP` from three numbers: the neurons, the motor neurons among them, and the sparsity.

    With d = 1 - sparsity and rest = units - outputs, where every number is rounded down but at least 1:
    command = 0.4 rest, inter = rest - command, sensory_fanout = inter d, inter_fanout = command d,
    recurrent_command = 2 command d, motor_fanin = command d.

    :param units: number of neurons
    :param outputs: number of motor neurons, at most units - 2
    :param sparsity: the share of synapses left out, from 0 to 0.9
    :param seed: seed of the synapses and the polarities
    """

    units: int
    outputs: int
    sparsity: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        assign(
            self,
            units=whole(self.units, "units", least=1),
            outputs=whole(self.outputs, "outputs", least=1),
            sparsity=checked_sparsity(self.sparsity),
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
        """Returns the wiring for that many inputs."""
        return self.ncp.build(inputs)


def _several(counts: object, what: str) -> tuple[int, ...]:
    """Returns one number, or a number for each layer, as a tuple of checked ints."""
    if isinstance(counts, Sequence) and not isinstance(counts, str):
        return tuple(whole(value, f"{what} (layer {number})", least=1) for number, value in enumerate(counts, start=1))
    return (whole(counts, what, least=1),)


def _check_fan(what: str, fan: object, layer: str, size: int) -> None:
    """Refuses a fan-out or a fan-in greater than the layer from which it draws."""
    if whole(fan, what, least=1) > size:
        raise WiringError(f"{what} is {fan}, but layer {layer} has only {size} neurons; take {size} or fewer")


def _check_recurrent(what: str, count: object, layer: str, size: int) -> None:
    """Refuses more recurrent synapses than there are pairs of neurons in the layer."""
    if whole(count, what) > size**2:
        raise WiringError(
            f"{what} is {count}, but the {size} neurons of layer {layer} have room for {size**2} synapses; take no more"
        )
