"""Reads a circuit that is written down by hand, neuron by neuron, by names or numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ncp_control.wiring.edges import Edges, WiringError, is_whole, whole
from ncp_control.wiring.names import check_names, default_names, inter_layers, resolve

Members = int | Sequence[str]


def read_circuit(
    inputs: Members,
    inter: Members | Sequence[Members],
    command: Members,
    motor: Members,
    sensory: Iterable[Sequence[int | str]],
    synapses: Iterable[Sequence[int | str]],
    gap_junctions: Iterable[Sequence[int | str]],
) -> dict[str, Any]:
    """Returns the keyword arguments of the `Wiring` that is described (see `Wiring.from_edges` for the parameters)."""
    input_names = _members(inputs, "inputs", "input", least=1)
    inters: list[object] = [inter]
    if isinstance(inter, Sequence) and not all(isinstance(name, str) for name in inter):
        inters = list(inter)
    layers: list[tuple[str, tuple[str, ...]]] = []
    for layer, members in zip(inter_layers(len(inters)), inters, strict=True):
        layers.append((layer, _members(members, layer, layer, least=len(inters) > 1)))
    layers.append(("command", _members(command, "command", "command")))
    layers.append(("motor", _members(motor, "motor", "motor", least=1)))
    neuron_names = tuple(name for _, names in layers for name in names)
    check_names(input_names, len(input_names), neuron_names, len(neuron_names))

    pairs = []
    for pair in gap_junctions:
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise WiringError(f"a gap junction is (a, b), got {pair!r}")
        pairs.append([resolve(end, "neuron", neuron_names) for end in pair])
    return {
        "inputs": len(input_names),
        "layer_sizes": tuple((layer, len(names)) for layer, names in layers if names),
        "sensory": _edges(sensory, "sensory synapse", ("input", input_names), ("neuron", neuron_names)),
        "synapses": _edges(synapses, "synapse", ("neuron", neuron_names), ("neuron", neuron_names)),
        "gap_junctions": np.array(pairs, dtype=np.int64).reshape(-1, 2),
        "input_names": input_names,
        "neuron_names": neuron_names,
    }


def _members(given: object, what: str, layer: str, least: int = 0) -> tuple[str, ...]:
    """Returns the names of a layer's members, which are given as a count or as names."""
    if isinstance(given, Sequence) and not isinstance(given, str) and all(isinstance(name, str) for name in given):
        names = tuple(given)
    elif is_whole(given):
        names = default_names(layer, whole(given, what))
    else:
        raise WiringError(f"{what} must be a count or a sequence of names, got {given!r}")
    if len(names) < least:
        raise WiringError(f"{what} must have at least 1 member, got none")
    return names


def _edges(
    given: Iterable[Sequence[int | str]],
    what: str,
    sources: tuple[str, tuple[str, ...]],
    targets: tuple[str, tuple[str, ...]],
) -> Edges:
    """Returns synapses that are given as (source, target) or (source, target, polarity).

    :param given: the synapses; each end is a name or a number
    :param what: what to call such a synapse in a message
    :param sources: what the sources are called ("input" or "neuron"), and their names
    :param targets: the same for the targets
    """
    polarities: dict[tuple[int, int], int] = {}
    for edge in given:
        if isinstance(edge, str) or not isinstance(edge, Sequence) or len(edge) not in (2, 3):
            raise WiringError(f"a {what} is (source, target) or (source, target, polarity), got {edge!r}")
        ends = resolve(edge[0], *sources), resolve(edge[1], *targets)
        named = f"the {what} from {sources[1][ends[0]]!r} to {targets[1][ends[1]]!r}"
        polarity = edge[2] if len(edge) == 3 else 1
        if not is_whole(polarity) or polarity not in (1, -1):
            raise WiringError(f"polarity must be +1 or -1, {named} has {polarity!r}")
        if ends in polarities:
            raise WiringError(f"{named} is listed more than once; list it once")
        polarities[ends] = int(polarity)
    return Edges([s for s, _ in polarities], [t for _, t in polarities], list(polarities.values()))
