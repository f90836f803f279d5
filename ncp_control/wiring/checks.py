"""What every wiring must satisfy; each check refuses a wiring that does not, with a sentence that names the cause."""

from __future__ import annotations

import numpy as np

from ncp_control.wiring.edges import Edges, IntArray, WiringError, read_only, whole
from ncp_control.wiring.names import inter_layers


def checked_layers(layer_sizes: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    """Returns the layers with their sizes as ints; their names and their order must be the usual ones."""
    names = [name for name, _ in layer_sizes]
    inter = len(names) - ("command" in names) - 1
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


def checked_pairs(given: IntArray, names: tuple[str, ...]) -> IntArray:
    """Returns gap junctions (G, 2) as sorted pairs a < b; they must join two different neurons, each pair once.

    :param given: pairs of neurons in any order
    :param names: the names of all neurons
    """
    pairs = read_only(given, "gap junctions")
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
    a, b = gap_junctions.T
    source = np.concatenate([synapses.source, a, b])
    target = np.concatenate([synapses.target, b, a])
    reached = np.zeros(len(names), dtype=bool)
    reached[sensory.target] = True
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
