"""`ncp-control describe` for a network: its wiring, its cell, and the bounds of its states and time constants."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

from ncp_control.wiring import Wiring

if TYPE_CHECKING:
    from torch import Tensor

    from ncp_control.rnn import RNN

Described = dict[str, Any]


def describe_wiring(wiring: Wiring) -> Described:
    """Returns a wiring's sizes and counts, as JSON values."""
    return {
        "inputs": wiring.inputs,
        "units": wiring.units,
        "outputs": wiring.outputs,
        "layers": {name: neurons.stop - neurons.start for name, neurons in wiring.layers.items()},
        "sensory_synapses": len(wiring.sensory),
        "synapses": len(wiring.synapses),
        "gap_junctions": len(wiring.gap_junctions),
        "allowed_synapses": wiring.allowed_synapses,
        "density": wiring.density,
    }


def describe_circuit(rnn: RNN) -> Described:
    """Returns the wiring and what `describe_rnn` returns, as JSON values."""
    return {"wiring": describe_wiring(rnn.wiring), **describe_rnn(rnn)}


def describe_rnn(rnn: RNN) -> Described:
    """Returns a cell's name, settings, size and bounds, and the backend that would run it, as JSON values."""
    import torch

    from ncp_control.ops import explain_backends

    cell = rnn.cell
    backends = explain_backends(cell, torch.zeros(1, 1, cell.inputs, dtype=cell.dtype))
    runs = next((name for name, (able, _) in backends.items() if able), None) if rnn.backend == "auto" else rnn.backend
    parts = rnn.wiring.layers
    if cell.state_size > rnn.wiring.units:
        parts = {**parts, "memory": slice(rnn.wiring.units, cell.state_size)}
    time_constants, states = cell.time_constant_bounds(), cell.state_bounds()
    return {
        "cell": type(cell).__name__,
        "config": cell.config(),
        "parameters": sum(parameter.numel() for parameter in rnn.parameters()),
        "backend": {"asked": rnn.backend, "runs": runs},
        "guarantee": {"holds": cell.guarantee.holds, "reason": cell.guarantee.reason},
        "time_constants": bounds(time_constants, rnn.wiring.layers),
        "states": bounds(states, parts),
    }


def bounds(low_and_high: tuple[Tensor, Tensor], parts: dict[str, slice]) -> dict[str, list[float | None]]:
    """Returns the lowest and the highest bound among all neurons, and among each part of them.

    :param low_and_high: the bounds of every neuron
    :param parts: the neurons of each part
    :return: [lowest, highest] for "all" and for each part; None where no bound is known
    """
    low, high = (bound.detach() for bound in low_and_high)
    ranges = {}
    for name, neurons in {"all": slice(None), **parts}.items():
        ends = [float(low[neurons].min()), float(high[neurons].max())]
        ranges[name] = [end if isfinite(end) else None for end in ends]
    return ranges


def rows_of(description: Described) -> list[tuple[str, str]]:
    """Returns what `describe_rnn` found, except for the bounds, as rows for `facts.show`."""
    backend, guarantee = description["backend"], description["guarantee"]
    settings = ", ".join(f"{key}={value!r}" for key, value in description["config"].items())
    return [
        ("cell", description["cell"]),
        ("settings", settings),
        ("parameters", f"{description['parameters']:,}"),
        ("backend", backend["asked"] + (f", here {backend['runs']}" if backend["asked"] == "auto" else "")),
        ("bounds hold", f"{'yes' if guarantee['holds'] else 'no'}: {guarantee['reason']}"),
    ]


def show_bounds(description: Described) -> None:
    """Prints the bounds of every layer as a table."""
    from rich.console import Console
    from rich.table import Table

    table = Table("layer", "time constants", "states")
    for name in description["states"]:
        table.add_row(name, interval(description["time_constants"].get(name)), interval(description["states"][name]))
    Console(highlight=False).print(table)


def interval(ends: list[float | None] | None) -> str:
    """Returns two bounds in words, and nothing for a layer that has none."""
    if ends is None:
        return ""
    low, high = ("unbounded" if end is None else f"{end:.4g}" for end in ends)
    return low if low == high else f"{low} to {high}"
