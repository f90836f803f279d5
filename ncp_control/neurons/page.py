"""Circuits as data for the page of a laboratory, which runs them.

The effective parameters are computed here, in float64, so that the page does not have to know how a parameter is kept
positive, pruned or normalised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ncp_control.base.pages import packed
from ncp_control.neurons import Cell, MixedMemory
from ncp_control.neurons.catalogue import NEURONS, row_of
from ncp_control.neurons.ode import ODECell
from ncp_control.neurons.parameters import refresh, written_class
from ncp_control.neurons.program_form import first_of_target
from ncp_control.solvers import FIXED_STEP
from ncp_control.wiring.edges import Edges

# A page with more parameters would take seconds to open, or for a step.
MOST_NUMBERS = 4_000_000
# A subclass of MixedMemory may define these and still steps like it: a policy can name it only with such a constructor.
HARMLESS = {"__init__", "config"}


@torch.no_grad()
def cell_data(cell: Cell) -> dict[str, Any]:
    """Returns a cell as JSON values for `makeCell` of `base.js`.

    :param cell: a cell of this package, with any parameters; a subclass whose step can differ is refused
    """
    row = row_of(kind_of(cell))
    if row.page is None:
        known = ", ".join(neuron.name for neuron in NEURONS if neuron.page)
        raise ValueError(
            f"a laboratory cannot run the cell {written_class(cell).__name__}: the cells that it can run are {known}"
        )
    count = sum(parameter.numel() for parameter in cell.parameters())
    if count > MOST_NUMBERS:
        raise ValueError(
            f"the circuit has {count:,} parameters, and a laboratory runs circuits of at most {MOST_NUMBERS:,}"
        )
    refresh(cell)
    wiring = cell.wiring
    return {
        "kind": row.name,
        "inputs": cell.inputs,
        "units": cell.units,
        "outputs": cell.outputs,
        "motor": cell.motor_start,
        "stateSize": cell.state_size,
        "can": {"hold": why_not_held(cell), "cut": why_not_cut(cell), "constants": why_not_slowed(cell)},
        "sensory": edges_data(wiring.sensory, cell.units),
        "synapses": edges_data(wiring.synapses, cell.units),
        "gaps": packed(wiring.gap_junctions),
        **row.part("page")(cell),
    }


def kind_of(cell: Cell) -> type[Cell]:
    """Returns the class whose step the cell makes."""
    kind: Any = written_class(cell)
    if isinstance(cell, MixedMemory):
        # Up through plain subclasses; one with several bases, or with methods of its own, may step in another way.
        while kind is not MixedMemory and kind.__bases__ == (kind.__base__,) and not _defined(kind) - HARMLESS:
            kind = kind.__base__
    plain: type[Cell] = kind
    return plain


def _defined(kind: type) -> set[str]:
    """Returns the names of the methods and properties that a class itself defines."""
    return {name for name, value in vars(kind).items() if callable(value) or hasattr(value, "__get__")}


def why_not_held(cell: Cell) -> str | None:
    """Returns in a sentence why the cell's neurons cannot be held, or None if they can."""
    return _refusal(cell.check_holdable)


@torch.no_grad()
def why_not_cut(cell: Cell) -> str | None:
    """Returns in a sentence why the cell's synapses cannot be cut one by one, or None if they can."""
    return _refusal(lambda: cell.cut_synapses([], [], []))


def why_not_slowed(cell: Cell) -> str | None:
    """Returns in a sentence why the time constants of the cell's neurons cannot be changed, or None if they can."""
    if isinstance(cell, MixedMemory):
        return why_not_slowed(cell.cell)
    if cell.uses_elapsed:
        return None
    name = written_class(cell).__name__
    return f"{name} counts steps and ignores time, so its neurons have no time constants to change"


def _refusal(attempt: Callable[[], None]) -> str | None:
    try:
        attempt()
    except ValueError as error:
        return str(error)
    return None


def edges_data(edges: Edges, units: int) -> dict[str, Any]:
    """Returns synapses in the wiring's order, by target; those into neuron j are start[j] .. start[j + 1]."""
    return {
        "source": packed(edges.source),
        "target": packed(edges.target),
        "start": packed(first_of_target(edges.target, units)),
    }


def exact(values: Any) -> torch.Tensor:
    """Returns a tensor's values in float64."""
    tensor: torch.Tensor = values.detach().to("cpu", torch.float64)
    return tensor


def numbers(values: Any) -> dict[str, str] | None:
    """Returns a parameter packed; None for one that the cell does without."""
    return None if values is None else packed(exact(values))


def solver_data(cell: ODECell) -> dict[str, Any]:
    """Returns how an ODE cell is solved; refuses a solver that chooses its own steps."""
    name = written_class(cell).__name__
    if cell.solver not in FIXED_STEP:
        raise ValueError(
            f"a laboratory cannot run {name} with the solver {cell.solver!r}, which chooses its own steps: "
            f"give it one with {', '.join(FIXED_STEP[:-1])} or {FIXED_STEP[-1]}"
        )
    return {"solver": cell.solver, "unfolds": cell.unfolds}


def layer_data(layer: Any) -> dict[str, Any]:
    """Returns a linear layer, (rows, columns)."""
    rows, columns = layer.weight.shape
    return {"rows": rows, "columns": columns, "weight": numbers(layer.weight), "bias": numbers(layer.bias)}
