"""Cells by their names, for command lines, configuration files and checkpoints."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from ncp_control.neurons.base import Cell
from ncp_control.neurons.catalogue import NEURONS, UNKNOWN, plain_name, row_named
from ncp_control.neurons.held import Held
from ncp_control.neurons.mixed.neuron import MixedMemory
from ncp_control.neurons.parameters import written_class
from ncp_control.wiring import Plan, Wiring

CELLS: tuple[type[Cell], ...] = tuple(row.kind for row in NEURONS if row.named)
IN_PYTHON = "; in Python, give a class of your own instead of a name"
IN_FILES = "; when you load a file, give classes of your own as cells=[...]"
MIXED = (
    "MixedMemory goes around another cell: write a class of your own, class Mixed(nc.MixedMemory), whose "
    "__init__(self, inputs, plan, **settings) calls super().__init__(nc.CfC(inputs, plan, **settings))"
)


def named_cell(cell: str | type[Cell], extra: Iterable[type[Cell]] = (), hint: str = IN_PYTHON) -> type[Cell]:
    """Returns a cell's class by its name, in any case, with or without "-" and "_" ("ltc", "NeuralLTC", "ct-rnn").

    The name "mlp" is short for "LaggedMLP".

    :param cell: the name; a class is returned as it is
    :param extra: further classes of cells that can be named
    :param hint: ends the error message for an unknown name and says how to give a class of one's own
    """
    if isinstance(cell, type) and issubclass(cell, Cell):
        if cell is MixedMemory:
            raise ValueError(MIXED)
        return cell
    if not isinstance(cell, str):
        raise TypeError(f'a cell is a name such as "ltc" or a class such as nc.LTC, not {cell!r}')
    own = {plain_name(kind.__name__): kind for kind in extra}
    plain, row = plain_name(cell), row_named(cell)
    if plain in own:  # a class that is given counts before one of the package
        return own[plain]
    if row is not UNKNOWN:
        return row.kind
    if plain == "mixedmemory":
        raise ValueError(MIXED)
    names = ", ".join(kind.__name__ for kind in (*CELLS, *extra))
    raise ValueError(f"unknown cell {cell!r}: choose one of {names}{hint}")


def make_cell(
    cell: str | type[Cell],
    inputs: int,
    plan: Plan | Wiring | int,
    *,
    extra: Iterable[type[Cell]] = (),
    **settings: Any,
) -> Cell:
    """Makes a cell, given its class or the name of it (see `named_cell`).

    :param cell: the class, or its name
    :param inputs: number of input features I
    :param plan: a plan, a built wiring, or a number of fully connected neurons
    :param extra: further classes of cells that can be named
    :param settings: keyword arguments of the class's constructor
    """
    kind = named_cell(cell, extra)
    check_settings(kind, settings)
    return kind(inputs, plan, **settings)


def check_settings(kind: type[Cell], settings: Iterable[str]) -> None:
    """Raises a ValueError that names what a class of cells can be given, if there are other settings."""
    takes = inspect.signature(kind).parameters
    named = [name for name in takes if name not in ("inputs", "plan")]
    unknown = [name for name in settings if name not in named]
    if unknown and not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in takes.values()):
        fix = f"choose from {', '.join(named)}" if named else "it has none"
        raise ValueError(f"{kind.__name__} has no setting {unknown[0]!r}: {fix}")


def cell_config(cell: Cell) -> dict[str, Any]:
    """Returns the cell's class and settings as JSON values, from which `cell_from_config` makes it again."""
    kind = written_class(cell)
    if kind is MixedMemory:  # a subclass has a constructor of its own, which takes the settings
        assert isinstance(cell, MixedMemory)
        return {"cell": "MixedMemory", "inner": cell_config(cell.cell)}
    if isinstance(cell, Held):
        return {"cell": "Held", "inner": cell_config(cell.cell), "held": cell.config()["held"]}
    return {"cell": kind.__name__, **cell.config()}


def cell_from_config(config: dict[str, Any], wiring: Wiring, extra: Iterable[type[Cell]] = ()) -> Cell:
    """Makes the cell that `cell_config` described, over `wiring`, with newly drawn parameters."""
    settings = dict(config)
    name = settings.pop("cell")
    if name == "MixedMemory":
        return MixedMemory(cell_from_config(settings["inner"], wiring, extra))
    if name == "Held":
        values = {wiring.neuron(neuron): float(value) for neuron, value in dict(settings["held"]).items()}
        return Held(cell_from_config(settings["inner"], wiring, extra), values)
    return named_cell(name, extra, IN_FILES)(wiring.inputs, wiring, **settings)
