"""Settings in records of runs: those that earlier versions did not write, and the names of optimizers."""

from __future__ import annotations

from typing import Any


def without_added(values: dict[str, Any], added: dict[str, Any]) -> dict[str, Any]:
    """Returns the entries of a record without those that stand for what earlier versions did, so that work which these
    began can be resumed.

    :param values: the entries
    :param added: entries that earlier versions did not write, with the values that stand for what they did
    """
    return {name: value for name, value in values.items() if name not in added or value != added[name]}


OPTIMIZERS = ("adam", "muon")


def check_optimizer_name(name: str) -> None:
    """Refuses a name that is none of an optimizer."""
    if name not in OPTIMIZERS:
        raise ValueError(f"optimizer is {' or '.join(OPTIMIZERS)}, not {name!r}")
