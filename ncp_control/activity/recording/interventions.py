"""Changing a circuit for a while: neurons held at values, synapses cut."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ncp_control.neurons import Cell, Held, without_synapses
from ncp_control.rnn import RNN
from ncp_control.wiring import Wiring


def circuit_of(policy: Any) -> Any:
    """Returns the circuit that chooses the policy's actions."""
    from ncp_control.rl.policies.circuit import actor_circuit

    found = actor_circuit(policy)
    if found is None:
        raise ValueError(
            f"{type(policy).__name__} has no circuit to record: train with NCPPolicy, or with NCPExtractor over History"
        )
    return found


@contextmanager
def intervened(circuit: Any, hold: Mapping[str, float], cut: Iterable[str]) -> Iterator[list[str]]:
    """Holds neurons and cuts synapses while the block runs, and gives both in words.

    :param circuit: from `circuit_of`
    :param hold: neurons, by name, and the values at which they are held
    :param cut: synapses, written `source->target`
    """
    cuts = list(cut)
    wiring: Wiring = circuit.rnn.wiring
    values = {wiring.neuron(name): value for name, value in hold.items()}
    synapses, sensory = find_synapses(wiring, cuts)
    whole = circuit.rnn.cell
    try:
        cell = whole
        if cuts:
            cell = without_synapses(cell, synapses, sensory)
        if values:
            cell = Held(copy.deepcopy(cell), values)
        circuit.rnn.cell = cell
        yield [f"{name}={value:g}" for name, value in hold.items()] + cuts
    finally:
        circuit.rnn.cell = whole


def cell_without_holds(rnn: RNN) -> Cell:
    """Returns the network's cell, without the `Held` that may be around it."""
    return rnn.cell.cell if isinstance(rnn.cell, Held) else rnn.cell


def find_synapses(wiring: Wiring, written: Iterable[str]) -> tuple[list[int], list[int]]:
    """Finds synapses that are written `source->target`.

    :param wiring: the circuit's
    :param written: the synapses
    :return: the numbers of those between neurons, and the numbers of the sensory ones
    """
    between_neurons: list[int] = []
    from_inputs: list[int] = []
    for text in written:
        source, arrow, target = (part.strip() for part in text.partition("->"))
        if not arrow:
            raise ValueError(f"a synapse is written source->target, such as inter0->command1, not {text!r}")
        end = wiring.neuron(target)
        is_sensory = source in wiring.input_names and source not in wiring.neuron_names
        start = wiring.input_names.index(source) if is_sensory else wiring.neuron(source)
        edges = wiring.sensory if is_sensory else wiring.synapses
        pairs = list(zip([int(k) for k in edges.source], [int(k) for k in edges.target], strict=True))
        if (start, end) not in pairs:
            reached = [wiring.neuron_names[other] for begin, other in pairs if begin == start]
            raise ValueError(
                f"there is no synapse from {source} to {target}: {source} has synapses to "
                f"{', '.join(reached) or 'no neuron'}"
            )
        (from_inputs if is_sensory else between_neurons).append(pairs.index((start, end)))
    return between_neurons, from_inputs
