"""What all plans have in common. `plan.build(inputs)` draws with a generator of its own: the same wiring every time."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ncp_control.wiring.edges import Edges, WiringError, is_whole, whole
from ncp_control.wiring.graph import Wiring


class Plan(ABC):
    """A frozen description of a random wiring.

    Every synapse excites (+1) or inhibits (-1) with equal chance. Equal plans always draw equal wirings. NumPy's global
    generator is neither read nor advanced.

    :ivar units: number of neurons
    :ivar outputs: number of motor neurons among them, which are the last ones
    """

    units: int
    outputs: int

    @abstractmethod
    def build(self, inputs: int) -> Wiring:
        """Returns the wiring for that many inputs."""


def assign(plan: Plan, **values: object) -> None:
    """Sets attributes of a plan that is frozen, while it is made."""
    for name, value in values.items():
        object.__setattr__(plan, name, value)


def assign_sizes(plan: Plan, units: int, outputs: int | None, seed: int) -> None:
    """Checks and sets the units, outputs and seed of a plan; outputs of None makes all neurons motor neurons."""
    units = whole(units, "units", least=1)
    outputs = units if outputs is None else whole(outputs, "outputs", least=1)
    if outputs > units:
        raise WiringError(f"{units} neurons cannot have {outputs} motor neurons among them; take at least {outputs}")
    assign(plan, units=units, outputs=outputs, seed=whole(seed, "seed"))


def inter_and_motor(units: int, outputs: int) -> tuple[tuple[str, int], ...]:
    """Returns the layers of a plan without command neurons: all neurons that are not motor are inter neurons."""
    return (("motor", units),) if outputs == units else (("inter", units - outputs), ("motor", outputs))


def checked_sparsity(sparsity: object) -> float:
    """Returns the share of synapses left out as a float, and refuses one that is not from 0 to 1."""
    if (is_whole(sparsity) or isinstance(sparsity, (float, np.floating))) and 0 <= sparsity <= 1:
        return float(sparsity)
    raise WiringError(f"sparsity is the share of synapses left out, a number from 0 to 1, got {sparsity!r}")


Mask = npt.NDArray[np.bool_]


def deal(sources: int, targets: int, fanout: int, rng: np.random.Generator) -> Mask:
    """Draws `fanout` distinct targets for each source, and at least one source for each target.

    The targets are shuffled and dealt to the sources like cards. Then each source draws the rest of its targets from
    all that it does not have. If the sources could not take all targets, each target left over draws one source more.

    :return: (sources, targets)
    """
    mask = np.zeros((sources, targets), dtype=bool)
    deck = rng.permutation(targets)
    # Around the table: card k goes to player k mod S, in an order of the players that is shuffled, too.
    hands = np.arange(min(targets, sources * fanout)) % sources
    mask[rng.permutation(sources)[hands], deck[: len(hands)]] = True
    for row in mask:
        fill(row, fanout, rng)
    for target in deck[len(hands) :]:
        mask[rng.integers(sources), target] = True
    return mask


def fill(mask: Mask, count: int, rng: np.random.Generator) -> Mask:
    """Sets random entries of `mask` until `count` are set, and returns `mask` itself."""
    free = np.argwhere(~mask)
    drawn = free[rng.choice(len(free), size=count - int(mask.sum()), replace=False)]
    mask[tuple(drawn.T)] = True
    return mask


def signed(mask: Mask, rng: np.random.Generator) -> Edges:
    """Returns the synapses of `mask`, each +1 or -1 with equal chance."""
    target, source = np.nonzero(mask.T)  # in the order of `Edges`, so that a seed's k-th sign is that of synapse k
    return Edges(source, target, 2 * rng.integers(0, 2, size=len(source)) - 1)


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
            # Rounded down, so that the advice leaves enough synapses.
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


@dataclass(frozen=True)
class GapJunctions(Plan):
    """The wiring of another plan, with gap junctions added between random pairs of neurons that have none yet.

    Only an `LTC` has currents through gap junctions; the other cells use the synapses alone. Nest plans to add gap
    junctions in several layers: GapJunctions(GapJunctions(plan, 4, "command"), 2, "motor").

    :param plan: the other plan
    :param count: how many gap junctions to add
    :param within: the layer in which both neurons lie, such as "command"; None for any two neurons
    :param seed: seed of the gap junctions
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
        assign(
            self,
            count=whole(self.count, "the count of gap junctions"),
            seed=whole(self.seed, "seed"),
            units=self.plan.units,
            outputs=self.plan.outputs,
        )

    def build(self, inputs: int) -> Wiring:
        """Returns the wiring for that many inputs; refuses more gap junctions than there are free pairs of neurons."""
        wiring = self.plan.build(inputs)
        if self.within is not None and self.within not in list(wiring.layers):
            raise WiringError(f"there is no layer {self.within!r} to join; the layers are {', '.join(wiring.layers)}")
        part = slice(0, wiring.units) if self.within is None else wiring.layers[self.within]
        free = np.zeros((wiring.units, wiring.units), dtype=bool)
        free[part, part] = True
        free = np.triu(free, k=1)  # every pair once, and no neuron with itself
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
