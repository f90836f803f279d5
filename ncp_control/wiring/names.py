"""The names of layers, inputs and neurons, and how a neuron is found by its name or its number."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ncp_control.wiring.edges import WiringError, whole


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
    """Lists names in a few words: of neighbours that differ only by a number just the first and the last."""
    runs = [list(run) for _, run in groupby(names, key=lambda name: name.rstrip("0123456789"))]
    parts = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(run) for run in runs]
    return ", ".join(parts[:most]) + (", ..." if len(parts) > most else "")
