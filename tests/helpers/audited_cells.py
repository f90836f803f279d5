"""Random cells, boxes of what they read and of their states, and what they reach in them."""

import copy
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from helpers.cells import ZOO, build
from ncp_control.base.intervals import Interval
from ncp_control.neurons import Cell
from ncp_control.neurons.ranges import Elapsed, Known, Opaque, known_of
from ncp_control.ops import explain_backends, scan

TIMES = (Elapsed(1.0, 1.0), Elapsed(0.05, 0.5), Elapsed(0.0, 7.0))
KNOWN = [name for name in ZOO if not isinstance(known_of(build(name), TIMES[0]), Opaque)]


class Case(NamedTuple):
    """A cell with everything that an audit of it needs.

    :param cell: the cell
    :param known: what is known about it
    :param features: the box of what it reads
    :param backend: the backend that runs it
    """

    cell: Cell
    known: Known
    features: Interval
    backend: str


def grown(name: str, scale: float, seed: int, dtype: torch.dtype = torch.float32) -> Cell:
    """The cell of that name with random parameters, `scale` times as large as they begin."""
    cell = build(name, torch.float32)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator)).mul_(scale)
    return cell.to(dtype).requires_grad_(False)


def box(size: int, random: np.random.Generator, wide: float = 2.0) -> Interval:
    """A random box whose ends are float32 numbers; some of its sides are points."""
    ends = np.sort(random.normal(scale=wide, size=(2, size)).astype(np.float32), axis=0)
    ends[1] = np.where(random.random(size) < 0.2, ends[0], ends[1])
    return Interval(*ends.astype(np.float64))


def cases(name: str, dtype: torch.dtype, seeds: int = 0) -> Iterator[Case]:
    """The cell of that name with small and with large parameters, in random boxes, for several elapsed times.

    In float32 it runs on compiled code where there is some, and in float64 on the reference.

    :param seeds: how many for each scale of the parameters and each elapsed time; 0 for one with each scale
    """
    for number, scale in enumerate((1.0, 5.0)):
        for elapsed in TIMES if seeds else TIMES[number::2]:
            for seed in range(max(seeds, 1)):
                cell = grown(name, scale, seed, dtype)
                random = np.random.default_rng(seed + 10 * int(scale))
                able = explain_backends(cell, torch.zeros(1, 1, cell.inputs, dtype=dtype))["cpu"][0]
                backend = "cpu" if able and dtype == torch.float32 else "reference"
                yield Case(cell, known_of(cell, elapsed), box(cell.inputs, random), backend)


def inside(interval: Interval, shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Random numbers (*shape, n) in an interval (n,), half of them at its ends; infinite ends count as 10."""
    low, high = (torch.as_tensor(np.clip(end, -10.0, 10.0)) for end in interval)
    share = torch.rand(*shape, len(low), generator=generator, dtype=torch.float64)
    share = torch.where(torch.rand(*shape, 1, generator=generator) < 0.5, share.round(), share)
    found = (low + share * (high - low)).to(dtype)
    return found.clamp(low.to(dtype), high.to(dtype))


def times_in(elapsed: Elapsed, shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Random elapsed times."""
    return inside(Interval(*np.array([elapsed]).T), shape, dtype, generator)[..., 0]


def sequences(case: Case, rows: int, steps: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """The inputs of random sequences (B, T, I), a third of them held all the time, and the states after each step."""
    generator = torch.Generator().manual_seed(seed)
    inputs = inside(case.features, (rows, steps), case.cell.dtype, generator)
    inputs[: rows // 3] = inputs[: rows // 3, :1]
    elapsed = times_in(case.known.elapsed, (rows, steps), case.cell.dtype, generator)
    return inputs, scan(case.cell, inputs, elapsed=elapsed, backend=case.backend)


def one_solver_step(cell: Cell) -> Cell:
    """A copy of a cell that takes one solver step in a step."""
    found = copy.deepcopy(cell)
    if hasattr(found, "unfolds"):
        found.unfolds = 1
    return found


def outside(interval: Interval, values: Tensor) -> list[str]:
    """A sentence for each number of the last dimension that leaves its interval; none for NaN."""
    given = values.double().numpy().reshape(-1, values.shape[-1])
    if not len(given):
        return []
    low, high = given.min(axis=0), given.max(axis=0)
    return [
        f"number {k} is certified to be {interval.low[k]} to {interval.high[k]}, and reached {low[k]} to {high[k]}"
        for k in range(given.shape[1])
        if low[k] < interval.low[k] or high[k] > interval.high[k]
    ]
