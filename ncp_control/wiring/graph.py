"""The wiring itself: an immutable, checked graph that cells, views and files share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from ncp_control.wiring.edges import Edges, IntArray, WiringError, is_whole, read_only, whole
from ncp_control.wiring.text import read_json, summary, write_json


@dataclass(frozen=True, eq=False, repr=False)
class Wiring:
    """Which input and which neuron feeds which neuron, and with which sign.

    Neurons are numbered inter, command, motor; the motor neurons, last, are the outputs. Every motor neuron can be
    reached from some input. Wirings compare and hash by content, names included.

    inputs: number of input channels, I.
    layer_sizes: (name, size) in update order: "inter" (or "inter1", "inter2", ...), "command", "motor"; sums to N.
    sensory: synapses from inputs (0..I-1) to neurons (0..N-1).
    synapses: synapses from neurons to neurons; a neuron may feed itself.
    gap_junctions: (G, 2), read-only; pairs a < b of neurons joined by a two-way conductance, sorted.
    input_names, neuron_names: one distinct name each; by default "input0", "inter0", "inter1.0", "motor0", ...
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
        layer_sizes = _checked_layers(self.layer_sizes)
        input_names = tuple(self.input_names) or _numbered("input", inputs)
        neuron_names = tuple(self.neuron_names) or tuple(
            name for layer, size in layer_sizes for name in default_names(layer, size)
        )
        for key, value in (
            ("inputs", inputs),
            ("layer_sizes", layer_sizes),
            ("input_names", input_names),
            ("neuron_names", neuron_names),
        ):
            object.__setattr__(self, key, value)
        _check_names(input_names, inputs, neuron_names, self.units)
        _check_ends("sensory synapse", self.sensory, ("input", inputs), ("neuron", self.units))
        _check_ends("synapse", self.synapses, ("neuron", self.units), ("neuron", self.units))
        object.__setattr__(self, "gap_junctions", _checked_pairs(self.gap_junctions, neuron_names))
        self._check_motor_reached()

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
        """A circuit written down by hand.

        inputs, command, motor: a count, or a name for each.
        inter: the same, or for several layers a sequence of counts or of sequences of names.
        sensory, synapses: (source, target) or (source, target, polarity); each end a name or a number, neurons
            numbered through all layers; polarity +1 unless given.
        gap_junctions: (a, b), each a neuron's name or number.

            Wiring.from_edges(["touch"], inter=["AVD"], motor=["REV"],
                              sensory=[("touch", "AVD")], synapses=[("AVD", "REV"), ("AVD", "AVD", -1)])
        """
        input_names = _members(inputs, "inputs", "input", least=1)
        given: list[object] = [inter]
        if isinstance(inter, Sequence) and not all(isinstance(name, str) for name in inter):
            given = list(inter)
        layers: list[tuple[str, tuple[str, ...]]] = []
        for layer, members in zip(inter_layers(len(given)), given, strict=True):
            layers.append((layer, _members(members, layer, layer, least=len(given) > 1)))
        layers.append(("command", _members(command, "command", "command")))
        layers.append(("motor", _members(motor, "motor", "motor", least=1)))
        neuron_names = tuple(name for _, names in layers for name in names)
        _check_names(input_names, len(input_names), neuron_names, len(neuron_names))

        pairs = []
        for pair in gap_junctions:
            if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
                raise WiringError(f"a gap junction is (a, b), got {pair!r}")
            pairs.append([_resolve(end, "neuron", neuron_names) for end in pair])
        return cls(
            len(input_names),
            tuple((layer, len(names)) for layer, names in layers if names),
            _resolved_edges(sensory, "sensory synapse", ("input", input_names), ("neuron", neuron_names)),
            _resolved_edges(synapses, "synapse", ("neuron", neuron_names), ("neuron", neuron_names)),
            np.array(pairs, dtype=np.int64).reshape(-1, 2),
            input_names,
            neuron_names,
        )

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
        """The motor neurons: always the last ones."""
        return self.layers["motor"]

    def neuron(self, which: int | str) -> int:
        """The number of a neuron that is given by its name or its number; refused where there is no such neuron."""
        return _resolve(which, "neuron", self.neuron_names)

    @property
    def density(self) -> float:
        """Existing over possible synapses: (sensory + recurrent) / (I N + N N)."""
        return (len(self.sensory) + len(self.synapses)) / (self.inputs * self.units + self.units**2)

    @property
    def fan_in(self) -> IntArray:
        """(N,): synapses into each neuron, from inputs and from neurons."""
        return np.bincount(np.concatenate([self.sensory.target, self.synapses.target]), minlength=self.units)

    @property
    def fan_out(self) -> IntArray:
        """(N,): synapses from each neuron."""
        return np.bincount(self.synapses.source, minlength=self.units)

    @property
    def sensory_fan_out(self) -> IntArray:
        """(I,): synapses from each input."""
        return np.bincount(self.sensory.source, minlength=self.inputs)

    def to_json(self, indent: int | None = None) -> str:
        """The whole wiring as JSON; `Wiring.from_json` gives an equal one back."""
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
        """The wiring that `to_json` wrote, checked like any other."""
        return cls(**read_json(text))

    def summary(self) -> str:
        """A few aligned lines: layers, counts, density, polarity, fan-in, and synapses counted layer to layer."""
        return summary(self.inputs, self.layers, self.sensory, self.synapses, len(self.gap_junctions))

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

    def _check_motor_reached(self) -> None:
        a, b = self.gap_junctions.T
        source = np.concatenate([self.synapses.source, a, b])
        target = np.concatenate([self.synapses.target, b, a])
        reached = np.zeros(self.units, dtype=bool)
        reached[self.sensory.target] = True
        frontier = target[reached[source] & ~reached[target]]
        while len(frontier):
            reached[frontier] = True
            frontier = target[reached[source] & ~reached[target]]
        for neuron in range(self.motor.start, self.motor.stop):
            if not reached[neuron]:
                raise WiringError(
                    f"motor neuron {self.neuron_names[neuron]!r} (number {neuron}) cannot be reached from any input; "
                    "add a synapse into it from an input or from a neuron that an input reaches"
                )


def inter_layers(count: int) -> list[str]:
    """The names of `count` inter layers: "inter" alone, or "inter1", "inter2", ..."""
    return ["inter"] if count == 1 else [f"inter{number}" for number in range(1, count + 1)]


def default_names(layer: str, size: int) -> tuple[str, ...]:
    """Names for a layer's neurons when none are given: "inter0", "inter1", ...; in a numbered layer "inter2.0", ..."""
    return _numbered(f"{layer}." if layer[-1:].isdigit() else layer, size)


def _numbered(prefix: str, count: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{number}" for number in range(count))


def _members(given: object, what: str, layer: str, least: int = 0) -> tuple[str, ...]:
    if isinstance(given, Sequence) and not isinstance(given, str) and all(isinstance(name, str) for name in given):
        names = tuple(given)
    elif is_whole(given):
        names = default_names(layer, whole(given, what))
    else:
        raise WiringError(f"{what} must be a count or a sequence of names, got {given!r}")
    if len(names) < least:
        raise WiringError(f"{what} must have at least 1 member, got none")
    return names


def _resolve(end: object, kind: str, names: tuple[str, ...]) -> int:
    if isinstance(end, str):
        if end not in names:
            raise WiringError(f"there is no {kind} named {end!r}; the {kind}s are {_listed(names)}")
        return names.index(end)
    number = whole(end, f"{kind} number")
    if number >= len(names):
        raise WiringError(f"there is no {kind} {number}; there are {len(names)}, numbered from 0")
    return number


def _listed(names: Sequence[str], most: int = 12) -> str:
    """Names in a few words: those that differ by a number only as the first to the last, so many at most."""
    runs = [list(run) for _, run in groupby(names, key=lambda name: name.rstrip("0123456789"))]
    told = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(run) for run in runs]
    return ", ".join(told[:most]) + (", ..." if len(told) > most else "")


def _resolved_edges(
    edges: Iterable[Sequence[int | str]],
    what: str,
    sources: tuple[str, tuple[str, ...]],
    targets: tuple[str, tuple[str, ...]],
) -> Edges:
    polarities: dict[tuple[int, int], int] = {}
    for edge in edges:
        if isinstance(edge, str) or not isinstance(edge, Sequence) or len(edge) not in (2, 3):
            raise WiringError(f"a {what} is (source, target) or (source, target, polarity), got {edge!r}")
        ends = _resolve(edge[0], *sources), _resolve(edge[1], *targets)
        named = f"the {what} from {sources[1][ends[0]]!r} to {targets[1][ends[1]]!r}"
        polarity = edge[2] if len(edge) == 3 else 1
        if not is_whole(polarity) or polarity not in (1, -1):
            raise WiringError(f"polarity must be +1 or -1, {named} has {polarity!r}")
        if ends in polarities:
            raise WiringError(f"{named} is listed more than once; list it once")
        polarities[ends] = int(polarity)
    return Edges([s for s, _ in polarities], [t for _, t in polarities], list(polarities.values()))


def _checked_layers(layer_sizes: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    names = [name for name, _ in layer_sizes]
    inter = len(names) - ("command" in names) - 1
    expected = [*inter_layers(inter), *(["command"] if "command" in names else []), "motor"]
    if names != expected:
        raise WiringError(
            'layers must be "inter" (or "inter1", "inter2", ...), "command" and "motor" in this order, '
            f"the first two if there are any, got {', '.join(map(str, names)) or 'none'}"
        )
    return tuple((name, whole(size, f"the size of layer {name}", least=1)) for name, size in layer_sizes)


def _check_names(input_names: tuple[str, ...], inputs: int, neuron_names: tuple[str, ...], units: int) -> None:
    for kind, names, count in (("input", input_names, inputs), ("neuron", neuron_names, units)):
        if len(names) != count:
            raise WiringError(f"there are {count} {kind}s but {len(names)} {kind} names; give one name for each")
    seen: set[str] = set()
    for name in (*input_names, *neuron_names):
        if not isinstance(name, str) or not name:
            raise WiringError(f"a name must be text that is not empty, got {name!r}")
        if name in seen:
            raise WiringError(f"the name {name!r} is given more than once; inputs and neurons need distinct names")
        seen.add(name)


def _check_ends(what: str, edges: Edges, sources: tuple[str, int], targets: tuple[str, int]) -> None:
    for ends, (kind, count) in ((edges.source, sources), (edges.target, targets)):
        for e in np.flatnonzero((ends < 0) | (ends >= count))[:1]:
            raise WiringError(
                f"the {what} from {edges.source[e]} to {edges.target[e]} names {kind} {ends[e]}, "
                f"but there are {count} {kind}s, numbered from 0"
            )


def _checked_pairs(given: IntArray, names: tuple[str, ...]) -> IntArray:
    pairs = read_only(given, "gap junctions")
    if pairs.size == 0:
        return read_only(np.zeros((0, 2), dtype=np.int64), "gap junctions")
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise WiringError(f"gap junctions must be pairs of neurons, shape (G, 2), got shape {pairs.shape}")
    for a, b in pairs[((pairs < 0) | (pairs >= len(names))).any(axis=1)][:1]:
        raise WiringError(f"the gap junction {a} - {b} leaves the {len(names)} neurons, which are numbered from 0")
    for a, _ in pairs[pairs[:, 0] == pairs[:, 1]][:1]:
        raise WiringError(f"neuron {names[a]!r} (number {a}) has a gap junction with itself; join two neurons")
    distinct, counts = np.unique(np.sort(pairs, axis=1), axis=0, return_counts=True)
    for a, b in distinct[counts > 1][:1]:
        joined = f"the gap junction between {names[a]!r} and {names[b]!r}"
        raise WiringError(f"{joined} is listed more than once; it is two-way, list it once")
    return read_only(distinct, "gap junctions")
