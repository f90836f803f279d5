"""What wirings are made of: immutable lists of directed synapses, checked whole numbers, and the error they raise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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
    given = np.asarray(values)
    if given.size and given.dtype.kind not in "iu":
        raise WiringError(f"{what} must be whole numbers, got an array of {given.dtype}")
    array = given.astype(np.int64)
    array.flags.writeable = False
    return array


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
        order = np.lexsort((columns[0], columns[1]))
        for name, column in zip(("source", "target", "polarity"), columns, strict=True):
            object.__setattr__(self, name, read_only(column[order], name))
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
