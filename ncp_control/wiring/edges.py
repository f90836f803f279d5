"""What wirings are made of: immutable lists of directed synapses, checked whole numbers, and the error they raise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]


class WiringError(ValueError):
    """Raised for a wiring, a plan or a wiring's JSON that cannot work; the message is one sentence that says why."""


def is_whole(value: object) -> TypeGuard[int | np.integer[Any]]:
    """Returns whether `value` is an integer of Python or NumPy; True and False do not count."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def whole(value: object, what: str, least: int = 0) -> int:
    """Returns `value` as an int, and refuses it unless it is a whole number of at least `least`.

    :param value: the number
    :param what: its name in the message
    :param least: the smallest value allowed
    """
    if not is_whole(value):
        raise WiringError(f"{what} must be a whole number, got {value!r}")
    if value < least:
        raise WiringError(f"{what} must be at least {least}, got {value}")
    return int(value)


def read_only(values: npt.ArrayLike, what: str) -> IntArray:
    """Returns a read-only int64 copy of `values`, and refuses values that are not whole; `what` names them."""
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise WiringError(f"{what} must be whole numbers, got an array of {array.dtype}")
    locked = array.astype(np.int64)
    locked.flags.writeable = False
    return locked


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Edges:
    """Directed, signed synapses, sorted by (target, source), each pair at most once.

    Synapse e leads from `source[e]` to `target[e]`. The attributes are read-only int64 arrays. Iterating yields
    (source, target, polarity).

    :param source: where each synapse begins, (E,), in any order
    :param target: where each synapse ends, (E,)
    :param polarity: +1 for a synapse that excites and -1 for one that inhibits, (E,)
    """

    source: IntArray
    target: IntArray
    polarity: IntArray

    def __init__(self, source: npt.ArrayLike = (), target: npt.ArrayLike = (), polarity: npt.ArrayLike = ()) -> None:
        columns = [read_only(source, "sources"), read_only(target, "targets"), read_only(polarity, "polarities")]
        shapes = [column.shape for column in columns]
        if len(shapes[0]) != 1 or shapes.count(shapes[0]) != 3:
            raise WiringError(f"source, target and polarity must be flat and equally long, got shapes {shapes}")
        order = np.lexsort((columns[0], columns[1]))  # by its last key first: by target, then by source
        for name, column in zip(("source", "target", "polarity"), columns, strict=True):
            object.__setattr__(self, name, read_only(column[order], name))
        # Here and in what follows a message names the first fault only.
        for e in np.flatnonzero(np.abs(self.polarity) != 1)[:1]:
            synapse = f"the synapse from {self.source[e]} to {self.target[e]}"
            raise WiringError(f"polarity must be +1 or -1, {synapse} has {self.polarity[e]}")
        for e in np.flatnonzero((np.diff(self.source) == 0) & (np.diff(self.target) == 0))[:1]:
            synapse = f"the synapse from {self.source[e]} to {self.target[e]}"
            raise WiringError(f"{synapse} is listed more than once; list it once")

    def __len__(self) -> int:
        return len(self.source)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return zip(self.source.tolist(), self.target.tolist(), self.polarity.tolist(), strict=True)

    def _key(self) -> tuple[bytes, bytes, bytes]:
        return self.source.tobytes(), self.target.tobytes(), self.polarity.tobytes()

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Edges) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Edges({len(self)} synapses)"

    def __reduce__(self) -> tuple[type[Edges], tuple[IntArray, IntArray, IntArray]]:
        # A pickled NumPy array comes back writable; going through the constructor locks it again.
        return Edges, (self.source, self.target, self.polarity)


def inter_layers(count: int) -> list[str]:
    """Returns the names of `count` inter layers: "inter" for a single one, otherwise "inter1", "inter2", ..."""
    return ["inter"] if count == 1 else [f"inter{number}" for number in range(1, count + 1)]


def default_names(layer: str, size: int) -> tuple[str, ...]:
    """Returns the default names of a layer's neurons: "inter0", "inter1", ..., and "inter2.0", ... in layer inter2."""
    return numbered(f"{layer}." if layer[-1:].isdigit() else layer, size)


def numbered(prefix: str, count: int) -> tuple[str, ...]:
    """Returns `count` names: the prefix followed by 0, 1, ..."""
    return tuple(f"{prefix}{number}" for number in range(count))


def check_names(input_names: tuple[str, ...], inputs: int, neuron_names: tuple[str, ...], units: int) -> None:
    """Refuses names that are too many, too few, empty, or given more than once."""
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


def resolve(which: object, kind: str, names: tuple[str, ...]) -> int:
    """Returns the number of an input or a neuron, and refuses one that does not exist.

    :param which: its name or its number
    :param kind: "input" or "neuron", for the message
    :param names: the names of all of them, in order
    """
    if isinstance(which, str):
        if which not in names:
            raise WiringError(f"there is no {kind} named {which!r}; the {kind}s are {_listed(names)}")
        return names.index(which)
    number = whole(which, f"{kind} number")
    if number >= len(names):
        raise WiringError(f"there is no {kind} {number}; there are {len(names)}, numbered from 0")
    return number


def _listed(names: Sequence[str], most: int = 12) -> str:
    """Lists names in a few words: of neighbours that differ only by a number, the first and the last alone."""
    runs = [list(run) for _, run in groupby(names, key=lambda name: name.rstrip("0123456789"))]
    parts = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(run) for run in runs]
    return ", ".join(parts[:most]) + (", ..." if len(parts) > most else "")


def synapses_by_layer(layers: Mapping[str, slice], sensory: Edges, synapses: Edges) -> IntArray:
    """Returns how many synapses lead from the inputs (row 0) and from each layer (the other rows) to each layer."""
    layer_of = np.repeat(np.arange(len(layers)), [part.stop - part.start for part in layers.values()])
    counts = np.zeros((1 + len(layers), len(layers)), dtype=np.int64)
    rows = np.concatenate([np.zeros(len(sensory), dtype=np.int64), 1 + layer_of[synapses.source]])
    np.add.at(counts, (rows, layer_of[np.concatenate([sensory.target, synapses.target])]), 1)
    return counts
