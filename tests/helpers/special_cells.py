"""Cells whose parameters are computed from others or are no numbers, and a mixed memory of a class of one's own."""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.utils import parametrize, prune

from helpers.cells import build
from ncp_control.neurons import Cell, MixedMemory


class Halved(torch.nn.Module):
    """A parametrisation."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return values / 2


class Mixed(MixedMemory):
    """A class of one's own that only makes it possible to name the cell in a policy."""

    def __init__(self, inputs: int, plan: Any) -> None:
        super().__init__(build("ltc-gaps"))


def pruned() -> Cell:
    return prune.l1_unstructured(build("neural-ltc-sigmoid", torch.float64), "gamma_r", amount=0.5)


def parametrised() -> Cell:
    cell = build("ct-gru", torch.float64)
    parametrize.register_parametrization(cell.detect, "weight", Halved())
    return cell


def lost() -> Cell:
    """A cell with a weight that is not a number."""
    cell: Any = build("cfc-default", torch.float64)
    with torch.no_grad():
        cell.weight[0, 3] = torch.nan
    return cell


def mixed() -> Cell:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return Mixed(3, "any").double()


SPECIAL: dict[str, Callable[[], Cell]] = {
    "pruned": pruned,
    "parametrised": parametrised,
    "lost": lost,
    "mixed": mixed,
}
