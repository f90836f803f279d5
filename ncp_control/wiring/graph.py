"""The wiring itself: an immutable, checked graph that cells, views and files share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ncp_control.wiring.by_hand import read_circuit
from ncp_control.wiring.checks import check_ends, check_reached, checked_layers, checked_pairs
from ncp_control.wiring.edges import Edges, IntArray, whole
from ncp_control.wiring.names import check_names, default_names, numbered, resolve
from ncp_control.wiring.text import read_json, summary, write_json


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
            object.__setattr__(self, key, value)
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
    def density(self) -> float:
        """Existing over possible synapses: (sensory + recurrent) / (I N + N N)."""
        return (len(self.sensory) + len(self.synapses)) / (self.inputs * self.units + self.units**2)

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
