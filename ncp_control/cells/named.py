"""Cells by name, for command lines, configuration files and checkpoints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ncp_control.cells.base import Cell
from ncp_control.cells.baselines import CTRNN, GRU, LSTM, NeuralODE
from ncp_control.cells.cfc import CfC
from ncp_control.cells.ct_gru import CTGRU
from ncp_control.cells.ltc import LTC
from ncp_control.cells.mixed_memory import MixedMemory
from ncp_control.cells.neural_ltc import NeuralLTC
from ncp_control.wiring import Plan, Wiring

CELLS: tuple[type[Cell], ...] = (LTC, NeuralLTC, CfC, CTRNN, NeuralODE, CTGRU, LSTM, GRU)


def named_cell(name: str, extra: Iterable[type[Cell]] = ()) -> type[Cell]:
    """A cell's class by its name, in any case, with or without "-" and "_" ("ltc", "NeuralLTC", "ct-rnn").

    :param extra: further cell classes that may be named
    """
    known = {cell.__name__.lower(): cell for cell in (*CELLS, *extra)}
    plain = name.lower().replace("-", "").replace("_", "")
    if plain not in known:
        names = ", ".join(cell.__name__ for cell in known.values())
        raise ValueError(f"unknown cell {name!r}: choose one of {names}")
    return known[plain]


def make_cell(
    name: str, inputs: int, plan: Plan | Wiring | int, *, extra: Iterable[type[Cell]] = (), **settings: Any
) -> Cell:
    """A cell by its class's name (see `named_cell`), with the constructor's keyword arguments."""
    return named_cell(name, extra)(inputs, plan, **settings)


def cell_config(cell: Cell) -> dict[str, Any]:
    """The cell's class and settings as JSON values, from which `cell_from_config` makes it again."""
    if isinstance(cell, MixedMemory):
        return {"cell": "MixedMemory", "inner": cell_config(cell.cell)}
    return {"cell": type(cell).__name__, **cell.config()}


def cell_from_config(config: dict[str, Any], wiring: Wiring, extra: Iterable[type[Cell]] = ()) -> Cell:
    """The cell that `cell_config` describes, over `wiring`, freshly initialised."""
    settings = dict(config)
    name = settings.pop("cell")
    if name == "MixedMemory":
        return MixedMemory(cell_from_config(settings["inner"], wiring, extra))
    return make_cell(name, wiring.inputs, wiring, extra=extra, **settings)
