"""The wiring itself: an immutable, checked graph that cells, views and files share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ncp_control.wiring.edges import (
    Edges,
    IntArray,
    WiringError,
    check_names,
    default_names,
    inter_layers,
    numbered,
    read_only,
    resolve,
    synapses_by_layer,
    whole,
)
from ncp_control.wiring.text import read_circuit, read_json, summary, write_json


@dataclass(frozen=True, eq=False, repr=False)
class Wiring:
    """Which input and which neuron feeds which neuron, and with which sign.

    Neurons are numbered inter, command, motor; the motor neurons, which come last, are the outputs. Every motor neuron
    can be reached from some input. Wirings are equal, and hash equal, if their content is, names included.

    :param inputs: number of inputs I
    :param layer_sizes: (name, size) of each layer in update order: "inter" (or "inter1", "inter2", ...), "command",
        "motor". The sizes add up to N
    :param sensory: synapses from inputs (0..I-1) to neurons (0..N-1)
    :param synapses: synapses from neurons to neurons; a neuron can feed itself
    :param gap_junctions: (G, 2), read-only; sorted pairs a < b of neurons that a two-way conductance joins
    :param input_names: a distinct name for each input, by default "input0", "input1", ...
    :param neuron_names: a distinct name for each neuron, by default "inter0" (or "inter1.0"), "command0", "motor0", ...
    """

    inputs: int
    layer_sizes: tuple[tuple[str, int], ...]
    sensory: Edges
    synapses: Edges
    gap_junctions: IntArray = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))
    input_names: tuple[str, ...] = ()
    neuron_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        inputs = whole(self.inputs, "inputs", least=1)
        layer_sizes = checked_layers(self.layer_sizes)
        input_names = tuple(self.input_names) or numbered("input", inputs)
        neuron_names = tuple(self.neuron_names) or tuple(
            name for layer, size in layer_sizes for name in default_names(layer, size)
        )
        for key, value in (
            ("inputs", inputs),
            ("layer_sizes", layer_sizes),
            ("input_names", input_names),
            ("neuron_names", neuron_names),
        ):
            object.__setattr__(self, key, value)  # a frozen class refuses plain assignments
        check_names(input_names, inputs, neuron_names, self.units)
        check_ends("sensory synapse", self.sensory, ("input", inputs), ("neuron", self.units))
        check_ends("synapse", self.synapses, ("neuron", self.units), ("neuron", self.units))
        object.__setattr__(self, "gap_junctions", checked_pairs(self.gap_junctions, neuron_names))
        check_reached(self.sensory, self.synapses, self.gap_junctions, self.motor, neuron_names)

    @classmethod
    def from_edges(
        cls,
        inputs: int | Sequence[str],
        *,
        inter: int | Sequence[str] | Sequence[int | Sequence[str]] = 0,
        command: int | Sequence[str] = 0,
        motor: int | Sequence[str],
        sensory: Iterable[Sequence[int | str]] = (),
        synapses: Iterable[Sequence[int | str]] = (),
        gap_junctions: Iterable[Sequence[int | str]] = (),
    ) -> Wiring:
        """Makes a wiring from a circuit that is written down by hand::

            Wiring.from_edges(["touch"], inter=["AVD"], motor=["REV"],
                              sensory=[("touch", "AVD")], synapses=[("AVD", "REV"), ("AVD", "AVD", -1)])

        :param inputs: how many inputs, or a name for each
        :param inter: how many inter neurons, or a name for each; for several layers a sequence with either for each
        :param command: how many command neurons, or a name for each
        :param motor: how many motor neurons, or a name for each
        :param sensory: synapses from inputs, as (source, target) or (source, target, polarity). Each end is a name or a
            number, where neurons are numbered through all layers; the polarity is +1 unless it is given
        :param synapses: synapses between neurons, in the same form
        :param gap_junctions: pairs (a, b) of neurons, each a name or a number
        """
        return cls(**read_circuit(inputs, inter, command, motor, sensory, synapses, gap_junctions))

    @property
    def units(self) -> int:
        """Number of neurons, N."""
        return sum(size for _, size in self.layer_sizes)

    @property
    def outputs(self) -> int:
        """Number of motor neurons."""
        return self.layer_sizes[-1][1]

    @property
    def layers(self) -> dict[str, slice]:
        """The neurons of each layer, in update order."""
        slices, start = {}, 0
        for name, size in self.layer_sizes:
            slices[name] = slice(start, start + size)
            start += size
        return slices

    @property
    def motor(self) -> slice:
        """The motor neurons, which always come last."""
        return self.layers["motor"]

    def neuron(self, which: int | str) -> int:
        """Returns the number of a neuron, given its name or its number; refuses one that does not exist."""
        return resolve(which, "neuron", self.neuron_names)

    @property
    def existing_synapses(self) -> int:
        """The number of all synapses: those from inputs and those between neurons."""
        return len(self.sensory) + len(self.synapses)

    @property
    def density(self) -> float:
        """Existing over all synapses that so many inputs and neurons can have: (sensory + recurrent) / (I N + N N).

        It measures sparsity against a fully connected circuit; `allowed_synapses` counts what the layers allow.
        """
        return self.existing_synapses / (self.inputs * self.units + self.units**2)

    @property
    def allowed_synapses(self) -> int:
        """How many synapses the layers allow: all those between two layers, or within one, that any synapse joins.

        For an `AutoNCP` they lead from inputs to inter neurons, from these to command neurons, among these, and on to
        motor neurons. For neurons without such an order they are all.
        """
        sizes = np.array([size for _, size in self.layer_sizes])
        joined = synapses_by_layer(self.layers, self.sensory, self.synapses) > 0
        return int((joined * np.outer([self.inputs, *sizes], sizes)).sum())

    @property
    def fan_in(self) -> IntArray:
        """The number of synapses into each neuron, from inputs and from neurons, (N,)."""
        return np.bincount(np.concatenate([self.sensory.target, self.synapses.target]), minlength=self.units)

    @property
    def fan_out(self) -> IntArray:
        """The number of synapses from each neuron, (N,)."""
        return np.bincount(self.synapses.source, minlength=self.units)

    @property
    def sensory_fan_out(self) -> IntArray:
        """The number of synapses from each input, (I,)."""
        return np.bincount(self.sensory.source, minlength=self.inputs)

    def to_json(self, indent: int | None = None) -> str:
        """Returns the whole wiring as JSON, from which `Wiring.from_json` makes an equal one.

        :param indent: spaces for each level, or None for a single line
        """
        return write_json(
            self.inputs,
            self.layer_sizes,
            self.input_names,
            self.neuron_names,
            self.sensory,
            self.synapses,
            self.gap_junctions,
            indent,
        )

    @classmethod
    def from_json(cls, text: str) -> Wiring:
        """Reads a wiring that `to_json` wrote, and checks it like any other."""
        return cls(**read_json(text))

    def summary(self) -> str:
        """Returns a few aligned lines with the layers, the counts of synapses, the density and the polarities."""
        gap_junctions, allowed = len(self.gap_junctions), self.allowed_synapses
        return summary(self.inputs, self.layers, self.sensory, self.synapses, gap_junctions, allowed)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        layers = ", ".join(f"{name}={size}" for name, size in self.layer_sizes)
        counts = f"sensory={len(self.sensory)}, synapses={len(self.synapses)}, gap_junctions={len(self.gap_junctions)}"
        return f"<Wiring inputs={self.inputs}, {layers}, {counts}>"

    def _key(self) -> tuple[object, ...]:
        names = (self.input_names, self.neuron_names)
        return self.inputs, self.layer_sizes, self.sensory, self.synapses, self.gap_junctions.tobytes(), *names

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Wiring) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[type[Wiring], tuple[object, ...]]:
        # A pickled NumPy array comes back writable; going through the constructor locks it again.
        edges = (self.sensory, self.synapses, self.gap_junctions)
        return type(self), (self.inputs, self.layer_sizes, *edges, self.input_names, self.neuron_names)


def checked_layers(layer_sizes: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    """Returns the layers with their sizes as ints; their names and their order must be the usual ones."""
    names = [name for name, _ in layer_sizes]
    inter = len(names) - ("command" in names) - 1  # all that are neither command nor motor
    expected = [*inter_layers(inter), *(["command"] if "command" in names else []), "motor"]
    if names != expected:
        raise WiringError(
            'layers must be "inter" (or "inter1", "inter2", ...), "command" and "motor" in this order, '
            f"where only motor is needed, got {', '.join(map(str, names)) or 'none'}"
        )
    return tuple((name, whole(size, f"the size of layer {name}", least=1)) for name, size in layer_sizes)


def check_ends(what: str, edges: Edges, sources: tuple[str, int], targets: tuple[str, int]) -> None:
    """Refuses synapses from or to what does not exist.

    :param what: what to call such a synapse in the message
    :param edges: the synapses
    :param sources: what the sources are called ("input" or "neuron"), and how many there are
    :param targets: the same for the targets
    """
    for ends, (kind, count) in ((edges.source, sources), (edges.target, targets)):
        for e in np.flatnonzero((ends < 0) | (ends >= count))[:1]:
            raise WiringError(
                f"the {what} from {edges.source[e]} to {edges.target[e]} names {kind} {ends[e]}, "
                f"but there are {count} {kind}s, numbered from 0"
            )


def checked_pairs(junctions: IntArray, names: tuple[str, ...]) -> IntArray:
    """Returns gap junctions (G, 2) as sorted pairs a < b; they must join two different neurons, each pair once.

    :param junctions: pairs of neurons in any order
    :param names: the names of all neurons
    """
    pairs = read_only(junctions, "gap junctions")
    if pairs.size == 0:
        return read_only(np.zeros((0, 2), dtype=np.int64), "gap junctions")
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise WiringError(f"gap junctions must be pairs of neurons, shape (G, 2), got shape {pairs.shape}")
    for a, b in pairs[((pairs < 0) | (pairs >= len(names))).any(axis=1)][:1]:
        raise WiringError(f"the gap junction {a} - {b} is not between two of the {len(names)} neurons, numbered from 0")
    for a, _ in pairs[pairs[:, 0] == pairs[:, 1]][:1]:
        raise WiringError(f"neuron {names[a]!r} (number {a}) has a gap junction with itself; join two neurons")
    distinct, counts = np.unique(np.sort(pairs, axis=1), axis=0, return_counts=True)
    for a, b in distinct[counts > 1][:1]:
        joined = f"the gap junction between {names[a]!r} and {names[b]!r}"
        raise WiringError(f"{joined} is listed more than once; it is two-way, list it once")
    return read_only(distinct, "gap junctions")


def check_reached(
    sensory: Edges, synapses: Edges, gap_junctions: IntArray, motor: slice, names: tuple[str, ...]
) -> None:
    """Refuses a motor neuron that no input reaches, through synapses and gap junctions.

    :param sensory: the sensory synapses
    :param synapses: the synapses between neurons
    :param gap_junctions: (G, 2)
    :param motor: the motor neurons
    :param names: the names of all neurons
    """
    a, b = gap_junctions.T  # through which current flows both ways
    source = np.concatenate([synapses.source, a, b])
    target = np.concatenate([synapses.target, b, a])
    reached = np.zeros(len(names), dtype=bool)
    reached[sensory.target] = True
    # Each round reaches the neurons that lie one synapse further.
    frontier = target[reached[source] & ~reached[target]]
    while len(frontier):
        reached[frontier] = True
        frontier = target[reached[source] & ~reached[target]]
    for neuron in range(motor.start, motor.stop):
        if not reached[neuron]:
            raise WiringError(
                f"motor neuron {names[neuron]!r} (number {neuron}) cannot be reached from any input; "
                "add a synapse into it from an input or from a neuron that an input reaches"
            )
