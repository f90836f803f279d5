"""A circuit with fewer synapses: which neurons are left, and the same parameters for everything that stays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ncp_control.neurons import Cell
from ncp_control.neurons.layered.neuron import synapse_places
from ncp_control.neurons.parameters import check_plain
from ncp_control.wiring import Edges, Wiring, WiringError
from ncp_control.wiring.edges import inter_layers

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]


def smaller_wiring(wiring: Wiring, sensory: Mask, synapses: Mask) -> tuple[Wiring, Numbers]:
    """Returns a wiring with some of the synapses, and without the neurons that these leave stranded.

    A neuron is stranded if no input reaches it, or if it reaches no motor neuron. Motor neurons go, too, but not all.
    Neurons keep their names, and a gap junction stays while both its neurons do.

    :param wiring: the larger wiring
    :param sensory: (S,), true for the sensory synapses that stay
    :param synapses: (E,), true for the synapses between neurons that stay
    :return: the wiring, and the numbers that its neurons have in the larger one
    """
    source, target = wiring.synapses.source[synapses], wiring.synapses.target[synapses]
    one, other = wiring.gap_junctions.T
    ways = np.concatenate([source, one, other]), np.concatenate([target, other, one])  # a gap junction leads both ways
    stays = spread(wiring.sensory.target[sensory], *ways, wiring.units)
    stays &= spread(np.arange(wiring.motor.start, wiring.motor.stop), *ways[::-1], wiring.units)
    if not stays[wiring.motor].any():
        raise WiringError("no input reaches a motor neuron any more")
    number = np.cumsum(stays) - 1  # of each neuron that stays, among those that stay
    sensory = sensory & stays[wiring.sensory.target]
    synapses = synapses & stays[wiring.synapses.source] & stays[wiring.synapses.target]
    sizes = [(name, int(stays[part].sum())) for name, part in wiring.layers.items() if stays[part].any()]
    inter = inter_layers(sum(name not in ("command", "motor") for name, _ in sizes))
    neurons = np.flatnonzero(stays)
    smaller = Wiring(
        wiring.inputs,
        tuple((inter[k] if k < len(inter) else name, size) for k, (name, size) in enumerate(sizes)),
        Edges(wiring.sensory.source[sensory], number[wiring.sensory.target[sensory]], wiring.sensory.polarity[sensory]),
        Edges(
            number[wiring.synapses.source[synapses]],
            number[wiring.synapses.target[synapses]],
            wiring.synapses.polarity[synapses],
        ),
        number[wiring.gap_junctions[stays[wiring.gap_junctions].all(axis=1)]],
        wiring.input_names,
        tuple(wiring.neuron_names[k] for k in neurons),
    )
    return smaller, neurons


def spread(first: Numbers, source: Numbers, target: Numbers, units: int) -> Mask:
    """Returns which of the neurons can be reached from the first ones, which count, too.

    :param first: numbers of neurons
    :param source: where each way begins
    :param target: where each way ends
    :param units: the number of neurons
    """
    reached = np.zeros(units, dtype=bool)
    while len(first):
        reached[first] = True
        first = target[reached[source] & ~reached[target]]
    return reached


def check_prunable(cell: Cell) -> Mapping[str, tuple[str, ...]]:
    """Refuses a cell whose parameters do not belong to single synapses and neurons; returns which belong to what."""
    name = type(cell).__name__
    if "synapses" not in cell.belongs:
        raise ValueError(
            f"a circuit of {name} is always fully connected, so its synapses cannot be pruned: choose another cell, "
            "such as ltc, cfc or ctrnn"
        )
    check_plain(cell)
    known = {parameter for names in cell.belongs.values() for parameter in names}
    if unknown := [parameter for parameter, _ in cell.named_parameters() if parameter not in known]:
        raise ValueError(f"{name} has the parameter {unknown[0]}, which belongs to no synapse or neuron alone")
    return cell.belongs


def copy_parameters(cell: Cell, smaller: Cell, neurons: Numbers) -> None:
    """Copies the parameters of everything that a smaller circuit has from a larger one.

    :param cell: the larger circuit
    :param smaller: a cell of the same kind, over a wiring of `smaller_wiring`
    :param neurons: the numbers that its neurons have in the larger circuit
    """
    larger_ends, smaller_ends = ends_of(cell, np.arange(cell.units)), ends_of(smaller, neurons)
    kept: dict[str, Any] = {
        "neurons": neurons,
        "inputs": np.arange(cell.inputs),
        "motor": neurons[neurons >= cell.motor_start] - cell.motor_start,
    }
    for part, pairs in smaller_ends.items():
        place = {pair: k for k, pair in enumerate(larger_ends[part])}
        kept[part] = [place[pair] for pair in pairs]
    with torch.no_grad():
        for part, names in check_prunable(cell).items():
            index = torch.as_tensor(np.asarray(kept[part], dtype=np.int64))
            for name in names:
                ours, theirs = getattr(cell, name, None), getattr(smaller, name, None)
                if isinstance(ours, Tensor) and isinstance(theirs, Tensor):
                    theirs.copy_(ours[..., index])  # the last axis counts synapses or neurons; others are of the cell
    smaller.inherit(cell, neurons)


def ends_of(cell: Any, neurons: Numbers) -> dict[str, list[tuple[int, int]]]:
    """Returns source and target of everything that joins two, in the order of the parameters.

    These are the cell's own synapses and not the wiring's, because the neurons of a `CfC` all feed themselves.

    :param cell: a cell
    :param neurons: the numbers that stand for its neurons
    """
    number, gaps = neurons.tolist(), cell.wiring.gap_junctions.tolist()
    ends = [values.tolist() for values in (cell.sensory_source, cell.sensory_target, cell.source, cell.target)]
    return {
        "sensory": [(source, number[target]) for source, target in zip(*ends[:2], strict=True)],
        "synapses": [(number[source], number[target]) for source, target in zip(*ends[2:], strict=True)],
        "gap_junctions": [(number[one], number[other]) for one, other in gaps],
    }


def strengths(cell: Any) -> tuple[Tensor, Tensor]:
    """Returns the parameters that say how strong the sensory synapses are, and how strong the others."""
    return getattr(cell, cell.belongs["sensory"][0]), getattr(cell, cell.belongs["synapses"][0])


def places_of(cell: Any) -> tuple[list[int], list[int]]:
    """Returns where in `strengths` the wiring's sensory synapses are, and where its others.

    They are not always in the same order, because the neurons of a `CfC` all feed themselves.
    """
    return list(range(len(cell.wiring.sensory))), synapse_places(cell.source, cell.target, cell.wiring)
