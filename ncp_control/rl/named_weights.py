"""The weights of a policy by the names of its neurons and synapses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ncp_control.neurons import Cell

MOST_PARAMETERS, MOST_PLACES = 3, 3  # in one sentence


def weights_not_finite(policy: nn.Module) -> str:
    """Returns in words which weights of a policy are not finite: "" if all of them are finite."""
    named = list(policy.named_parameters())
    wrong = [(name, ~value.detach().isfinite()) for name, value in named]
    bad = [(name, where) for name, where in wrong if where.any()]
    if not bad or (len(bad) == len(named) and all(bool(where.all()) for _, where in bad)):
        return "all of them" if bad else ""
    bad.sort(key=lambda pair: cell_around(policy, pair[0])[1] is None)  # the circuits' own parameters first
    words = [in_words(policy, name, where) for name, where in bad[:MOST_PARAMETERS]]
    return joined(words, len(bad), "parameters")


def largest_weight(policy: nn.Module) -> str:
    """Returns the size of a policy's largest weight, and in words where it is."""
    sizes = {name: float(value.detach().abs().max()) for name, value in policy.named_parameters() if value.numel()}
    name = max(sizes, key=sizes.__getitem__)
    value = policy.get_parameter(name).detach().abs()
    return f"{sizes[name]:.3g} in {in_words(policy, name, value == value.max())}"


def in_words(policy: nn.Module, name: str, where: Tensor) -> str:
    """Names entries of one parameter, such as "the actor's w of inter0 -> command3".

    :param policy: the policy
    :param name: the parameter's name in the policy
    :param where: its shape, true at the entries
    """
    path, cell = cell_around(policy, name)
    if cell is None:
        return name
    own = name.removeprefix(f"{path}.")
    shown = own.removesuffix("_raw")
    owner = f"{path.split('.')[0].removeprefix('lstm_')}'s {shown if hasattr(cell, shown) else own}"
    places = places_of(cell, own)
    if len(places) != where.shape[-1] or bool(where.all()):
        return f"the {owner}"
    named = [places[k] for k in where.reshape(-1, len(places)).any(dim=0).nonzero()[:, 0].tolist()]
    return f"the {owner} of {joined(named[:MOST_PLACES], len(named))}"


def cell_around(policy: nn.Module, name: str) -> tuple[str, Cell | None]:
    """Returns the path and the cell that a parameter belongs to; None if it is outside of all cells."""
    cells = ((path, module) for path, module in policy.named_modules() if isinstance(module, Cell))
    return next(((path, cell) for path, cell in cells if name.startswith(f"{path}.")), ("", None))


def places_of(cell: Cell, name: str) -> Sequence[str]:
    """Returns the name of the neuron, synapse or input that each number along a parameter's last dimension belongs to.

    :param cell: the cell
    :param name: the parameter's name in the cell
    """
    wiring, neurons = cell.wiring, cell.wiring.neuron_names
    part = next((part for part, names in cell.belongs.items() if name in names), "neurons")
    if part == "inputs":
        return wiring.input_names
    if part == "motor":
        return neurons[wiring.units - wiring.outputs :]
    if part == "gap_junctions":
        return [f"{neurons[first]} -- {neurons[second]}" for first, second in wiring.gap_junctions]
    if part == "sensory":
        return arrows(cell, "sensory_", wiring.input_names)
    return arrows(cell, "", neurons) if part == "synapses" else neurons


def arrows(cell: Cell, prefix: str, sources: Sequence[str]) -> list[str]:
    """Returns "source -> target" for each synapse, in the order of the cell's parameters."""
    ends: Any = (getattr(cell, f"{prefix}{end}", torch.empty(0)).tolist() for end in ("source", "target"))
    return [f"{sources[source]} -> {cell.wiring.neuron_names[target]}" for source, target in zip(*ends, strict=True)]


def joined(words: Sequence[str], count: int, noun: str = "") -> str:
    """Returns words with commas, and how many more there are."""
    more = count - len(words)
    return ", ".join(words) + (f" and {more} more {noun}".rstrip() if more else "")
