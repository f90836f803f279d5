"""A wiring as text: a summary for people, and JSON, which is checked when it is read."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ncp_control.wiring.edges import (
    Edges,
    IntArray,
    WiringError,
    check_names,
    default_names,
    inter_layers,
    is_whole,
    resolve,
    synapses_by_layer,
    whole,
)

FORMAT = "ncp_control.wiring"
VERSION = 1
KEYS = ("format", "version", "inputs", "layers", "input_names", "neuron_names", "sensory", "synapses", "gap_junctions")


def summary(
    inputs: int, layers: dict[str, slice], sensory: Edges, synapses: Edges, gap_junctions: int, allowed: int
) -> str:
    """Returns aligned lines: layers with their fan-in, totals, density, polarity, and synapses from layer to layer.

    :param inputs: number of inputs
    :param layers: the neurons of each layer
    :param sensory: the sensory synapses
    :param synapses: the synapses between neurons
    :param gap_junctions: number of gap junctions
    :param allowed: number of synapses that the layers allow
    """
    names = list(layers)
    sizes = [part.stop - part.start for part in layers.values()]
    units = sum(sizes)

    fan_in = np.bincount(np.concatenate([sensory.target, synapses.target]), minlength=units)

    total = len(sensory) + len(synapses)
    excitatory = int((sensory.polarity > 0).sum() + (synapses.polarity > 0).sum())
    layer_rows = [["layer", "neurons", "fan-in min", "median", "max"]]
    for name, size, part in zip(names, sizes, layers.values(), strict=True):
        own = fan_in[part]
        layer_rows.append([name, str(size), str(own.min()), f"{np.median(own):g}", str(own.max())])
    block_rows = [["from \\ to", *names]]
    for name, row in zip(["inputs", *names], synapses_by_layer(layers, sensory, synapses), strict=True):
        block_rows.append([name, *(str(count) if count else "." for count in row)])
    return "\n".join(
        [
            f"{inputs} inputs, {units} neurons, {sizes[-1]} outputs",
            f"synapses       {len(sensory)} sensory, {len(synapses)} recurrent",
            f"gap junctions  {gap_junctions}",
            f"density        {total} of the {allowed} synapses that its layers allow ({total / allowed:.0%})",
            f"polarity       {excitatory} excitatory ({excitatory / total:.0%}), "
            f"{total - excitatory} inhibitory ({1 - excitatory / total:.0%})",
            "",
            *_table(layer_rows),
            "",
            *_table(block_rows),
        ]
    )


def _table(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]


def write_json(
    inputs: int,
    layer_sizes: tuple[tuple[str, int], ...],
    input_names: tuple[str, ...],
    neuron_names: tuple[str, ...],
    sensory: Edges,
    synapses: Edges,
    gap_junctions: IntArray,
    indent: int | None,
) -> str:
    """Returns one JSON object: synapses as [source, target, polarity], gap junctions as [a, b], layers in update order.

    The parameters are the fields of `Wiring`.

    :param indent: spaces for each level, or None for a single line
    """
    values = (FORMAT, VERSION, inputs, layer_sizes, input_names, neuron_names, list(sensory), list(synapses))
    return json.dumps(dict(zip(KEYS, (*values, gap_junctions.tolist()), strict=True)), indent=indent)


def read_json(text: str) -> dict[str, Any]:
    """Returns the keyword arguments of the `Wiring` that `text` describes.

    It checks the structure and the types; `Wiring` checks the rest.

    :param text: what `write_json` returned
    """
    if not isinstance(text, str):
        raise WiringError(f"from_json reads the JSON text of a wiring, got a {type(text).__name__}")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WiringError(f"this is not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise WiringError(f'this JSON is not a wiring: it must be an object whose "format" is "{FORMAT}"')
    version = document.get("version")
    if not is_whole(version) or version != VERSION:
        raise WiringError(f"this wiring has version {version!r}, and this release reads version {VERSION} only")
    if missing := [key for key in KEYS if key not in document]:
        raise WiringError(f"the wiring's JSON lacks {', '.join(missing)}")
    if unknown := [key for key in document if key not in KEYS]:
        raise WiringError(f"the wiring's JSON has keys that version {VERSION} does not know: {', '.join(unknown)}")
    for key in KEYS[3:]:  # all but the format, the version and the number of inputs
        if not isinstance(document[key], list):
            raise WiringError(f'"{key}" must be a list, got {reprlib.repr(document[key])}')
    for key in ("layers", "input_names", "neuron_names"):
        if not document[key]:
            raise WiringError(f'"{key}" is empty; a wiring has at least one input and one motor neuron')
    for layer in document["layers"]:
        if not (isinstance(layer, list) and len(layer) == 2):
            raise WiringError(f'every entry of "layers" must be [name, size], got {reprlib.repr(layer)}')
    return {
        "inputs": document["inputs"],
        "layer_sizes": tuple((name, size) for name, size in document["layers"]),
        "sensory": Edges(*_columns(document, "sensory", "source, target, polarity")),
        "synapses": Edges(*_columns(document, "synapses", "source, target, polarity")),
        "gap_junctions": np.array(_columns(document, "gap_junctions", "a, b")).T,
        "input_names": tuple(document["input_names"]),
        "neuron_names": tuple(document["neuron_names"]),
    }


def _columns(document: dict[str, Any], key: str, row: str) -> list[list[int]]:
    """Returns the columns of a list of rows; `row` says what stands in each, such as "a, b"."""
    width = row.count(",") + 1
    for entry in document[key]:
        whole = isinstance(entry, list) and len(entry) == width and all(map(is_whole, entry))
        if not whole or any(abs(number) >= 2**63 for number in entry):  # int64 holds no more
            raise WiringError(f'every entry of "{key}" must be [{row}] in whole numbers, got {reprlib.repr(entry)}')
    return [[entry[i] for entry in document[key]] for i in range(width)]


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
    # A sequence of names is one layer, and any other sequence has a layer for each entry.
    inters: list[object] = [inter]
    if isinstance(inter, Sequence) and not all(isinstance(name, str) for name in inter):
        inters = list(inter)
    layers: list[tuple[str, tuple[str, ...]]] = []
    for layer, members in zip(inter_layers(len(inters)), inters, strict=True):
        # A single inter layer may be empty, and is then left out.
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


def _members(members: object, what: str, layer: str, least: int = 0) -> tuple[str, ...]:
    """Returns the names of a layer's members, which are given as a count or as names."""
    if (
        isinstance(members, Sequence)
        and not isinstance(members, str)
        and all(isinstance(name, str) for name in members)
    ):
        names = tuple(members)
    elif is_whole(members):
        names = default_names(layer, whole(members, what))
    else:
        raise WiringError(f"{what} must be a count or a sequence of names, got {members!r}")
    if len(names) < least:
        raise WiringError(f"{what} must have at least 1 member, got none")
    return names


def _edges(
    listed: Iterable[Sequence[int | str]],
    what: str,
    sources: tuple[str, tuple[str, ...]],
    targets: tuple[str, tuple[str, ...]],
) -> Edges:
    """Returns synapses that are given as (source, target) or (source, target, polarity).

    :param listed: the synapses; each end is a name or a number
    :param what: what to call such a synapse in a message
    :param sources: what the sources are called ("input" or "neuron"), and their names
    :param targets: the same for the targets
    """
    polarities: dict[tuple[int, int], int] = {}
    for edge in listed:
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
