"""Cells by name, for command lines, configuration files and checkpoints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ncp_control.cells.base import Cell
from ncp_control.cells.baselines import CTRNN, GRU, LSTM, NeuralODE
from ncp_control.cells.cfc import CfC
from ncp_control.cells.ct_gru import CTGRU
from ncp_control.cells.held import Held
from ncp_control.cells.ltc import LTC
from ncp_control.cells.mixed_memory import MixedMemory
from ncp_control.cells.neural_ltc import NeuralLTC
from ncp_control.wiring import Plan, Wiring

CELLS: tuple[type[Cell], ...] = (LTC, NeuralLTC, CfC, CTRNN, NeuralODE, CTGRU, LSTM, GRU)
IN_PYTHON = "; in Python, a class of your own is given itself, in place of a name"
IN_FILES = "; a class of your own is named on loading: cells=[...]"
MIXED = (
    "MixedMemory goes around another cell: give a class of your own, class Mixed(nc.MixedMemory) whose "
    "__init__(self, inputs, plan, **settings) calls super().__init__(nc.CfC(inputs, plan, **settings))"
)


def named_cell(cell: str | type[Cell], extra: Iterable[type[Cell]] = (), hint: str = IN_PYTHON) -> type[Cell]:
    """A cell's class by its name, in any case, with or without "-" and "_" ("ltc", "NeuralLTC", "ct-rnn").

    :param cell: the name; a class is passed on
    :param extra: further cell classes that may be named
    :param hint: the end of the message of an unknown name: how to give a class of one's own
    """
    if isinstance(cell, type) and issubclass(cell, Cell):
        if cell is MixedMemory:
            raise ValueError(MIXED)
        return cell
    if not isinstance(cell, str):
        raise TypeError(f'a cell is a name such as "ltc", or a class of cells such as nc.LTC, and not {cell!r}')
    known = {_plain(kind.__name__): kind for kind in (*CELLS, *extra)}
    plain = _plain(cell)
    if plain not in known:
        if plain == "mixedmemory":
            raise ValueError(MIXED)
        names = ", ".join(kind.__name__ for kind in known.values())
        raise ValueError(f"unknown cell {cell!r}: choose one of {names}{hint}")
    return known[plain]


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def make_cell(
    cell: str | type[Cell],
    inputs: int,
    plan: Plan | Wiring | int,
    *,
    extra: Iterable[type[Cell]] = (),
    **settings: Any,
) -> Cell:
    """A cell by its class's name, or of a class (see `named_cell`), with the constructor's keyword arguments."""
    return named_cell(cell, extra)(inputs, plan, **settings)


def cell_config(cell: Cell) -> dict[str, Any]:
    """The cell's class and settings as JSON values, from which `cell_from_config` makes it again."""
    if type(cell) is MixedMemory:  # a class made from it is one's own, with its own way to be made
        return {"cell": "MixedMemory", "inner": cell_config(cell.cell)}
    if isinstance(cell, Held):
        return {"cell": "Held", "inner": cell_config(cell.cell), "held": cell.config()["held"]}
    return {"cell": type(cell).__name__, **cell.config()}


def cell_from_config(config: dict[str, Any], wiring: Wiring, extra: Iterable[type[Cell]] = ()) -> Cell:
    """The cell that `cell_config` describes, over `wiring`, freshly initialised."""
    settings = dict(config)
    name = settings.pop("cell")
    if name == "MixedMemory":
        return MixedMemory(cell_from_config(settings["inner"], wiring, extra))
    if name == "Held":
        values = {wiring.neuron(neuron): float(value) for neuron, value in dict(settings["held"]).items()}
        return Held(cell_from_config(settings["inner"], wiring, extra), values)
    return named_cell(name, extra, IN_FILES)(wiring.inputs, wiring, **settings)
