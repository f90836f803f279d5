"""Numbers as large and as small as a float holds, NaN and infinity, at every level: one table for all cells.

Every row of a batch is a case. So the batch goes through the kernels in blocks of rows, and each row by itself goes
through the path of single rows, where the cell has one.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

import ncp_control as nc
from helpers.cell_values import close_to
from helpers.cells import REPRESENTATIVES, build, compiled
from ncp_control.ops.cpu import launch
from ncp_control.ops.cpu.backend import available

pytestmark = pytest.mark.skipif(not available()[0], reason=available()[1])

STEPS = 2
# What a value may be off by: so many roundings of the largest value of its row, and so many times what a rounding of
# the inputs, the state and the times moves it by.
ROUNDINGS, MOVES = 128, 32

CELLS = compiled(launch.KINDS)
TIERS = [
    pytest.param([name for name in CELLS if name in REPRESENTATIVES], id="representatives"),
    pytest.param([name for name in CELLS if name not in REPRESENTATIVES], id="the others", marks=pytest.mark.system),
]
DTYPES = [pytest.param(torch.float32, id="f32"), pytest.param(torch.float64, id="f64")]

SIZES = {torch.float32: (0.0, 1e-38, 1e-30, 1.0, 1e30), torch.float64: (0.0, 1e-300, 1e-38, 1.0, 1e150)}
LARGEST = {torch.float32: 1e38, torch.float64: 1e300}  # sums of them can overflow, or not, by the order of the terms
SPANS = {
    torch.float32: (0.0, 1e-38, 1e-30, 1.0, 1e10, 1e30, 1e38),
    torch.float64: (0.0, 1e-300, 1.0, 1e10, 1e38, 1e300),
}
# NaN as arithmetic makes it, and as files can hold it: with a payload, which is 1954 where R writes a missing value.
QUIET = {torch.float32: (torch.int32, 0x7FC00000), torch.float64: (torch.int64, 0x7FF8000000000000)}
PAYLOADS = (0, 1, 1954)


class Case(NamedTuple):
    """A cell with inputs (B, T, I), a state (B, N) and elapsed times (B, T); each row is a case of its own."""

    cell: nc.Cell
    inputs: Tensor
    state: Tensor
    elapsed: Tensor

    def tensors(self, change: Callable[[Tensor], Tensor]) -> Case:
        """The same cell with changed tensors."""
        return Case(self.cell, *(change(tensor) for tensor in self[1:]))

    def rows(self, rows: Tensor) -> Case:
        """Some of the rows."""
        return self.tensors(lambda tensor: tensor[rows])

    def exact(self) -> Case:
        """The same numbers in double precision, without those that kernels take for zero."""
        tiny = torch.finfo(self.inputs.dtype).tiny
        cell = copy.deepcopy(self.cell).double()
        return self._replace(cell=cell).tensors(lambda t: torch.where(t.abs() < tiny, 0.0, t).double())

    def moved(self) -> Case:
        """Numbers that a rounding up or down has moved."""
        eps, generator = torch.finfo(self.inputs.dtype).eps, torch.Generator().manual_seed(2)
        return self.tensors(lambda t: t * (1 + eps * (2 * torch.rand(t.shape, generator=generator).round() - 1)))

    def states(self, backend: str) -> Tensor:
        """The states after every step, (B, T, N), without gradients."""
        with torch.no_grad():
            return nc.scan(*self, backend=backend)

    def results(self, backend: str) -> dict[str, Tensor]:
        """The states, and the gradient of everything."""
        given = [tensor.clone().requires_grad_() for tensor in self[1:]]
        states = nc.scan(self.cell, *given, backend=backend)
        wanted = dict(zip(("inputs", "state", "elapsed"), given, strict=True)) | dict(self.cell.named_parameters())
        grads = torch.autograd.grad(states.sum(), list(wanted.values()), materialize_grads=True)
        return {"states": states.detach()} | dict(zip(wanted, grads, strict=True))


def settles(cell: nc.Cell) -> bool:
    """Whether no time takes a cell far away; explicit solvers and cells without a leak claim nothing there."""
    return cell.guarantee.holds or not cell.uses_elapsed


def extreme(name: str, dtype: torch.dtype, sizes: Sequence[float]) -> Case:
    """Inputs of these sizes with equal, opposite and mixed signs, over every span, from states at both bounds."""
    cell = build(name, dtype)
    generator = torch.Generator().manual_seed(1)
    low, high = (bound.detach() for bound in cell.state_bounds())
    ends = torch.stack([low.clamp(-0.5), high.clamp(max=0.5)])
    spans = [span for span in SPANS[dtype] if span <= 1 or settles(cell)]
    rows = torch.tensor(list(itertools.product(sizes, (-1.0, 0.0, 1.0), spans, (0, 1))), dtype=torch.float64)
    size, sign, span, end = rows.T
    mixed = torch.rand(len(rows), STEPS, cell.inputs, generator=generator).round() * 2 - 1
    signs = torch.where(sign[:, None, None] == 0, mixed, sign[:, None, None])
    inputs = (size[:, None, None] * signs).to(dtype)
    return Case(cell, inputs, ends[end.long()], span[:, None].expand(-1, STEPS).to(dtype))


@functools.cache
def truth(name: str, dtype: torch.dtype, sizes: Sequence[float]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What the reference computes in double precision, and how far roundings of what it is given move that."""
    case = extreme(name, dtype, sizes)
    exact, moved = case.exact().results("reference"), case.moved().exact().results("reference")
    return exact, {key: (value - moved[key]).abs().nan_to_num(0.0) for key, value in exact.items()}


def assert_agrees(
    name: str, case: Case, found: dict[str, Tensor], exact: dict[str, Tensor], move: dict[str, Tensor]
) -> None:
    """Holds values to the exact ones, each row by itself, wherever these are far from the largest numbers."""
    eps, largest = torch.finfo(case.inputs.dtype).eps, SIZES[case.inputs.dtype][-1]
    for key, value in found.items():
        by_row = key in ("states", "inputs", "state", "elapsed")
        want, got, near = (
            each.flatten(1) if by_row else each.flatten()[None] for each in (exact[key], value, move[key])
        )
        if not want.numel():
            continue
        held = want.abs().amax(1) < largest
        allowed = ROUNDINGS * eps * want.abs().amax(1).clamp(min=1) + MOVES * near.amax(1)
        error = (got.double() - want).abs().amax(1)
        wrong = held & ~(error <= allowed)  # NaN is wrong, too
        if wrong.any():
            row = int(wrong.nonzero()[0])
            raise AssertionError(f"{name}: {key} {got[row]} for {want[row]}: {row_of(case, row if by_row else 0)}")


def row_of(case: Case, row: int) -> str:
    """A row in words."""
    return f"row {row} of {len(case.inputs)}, inputs {case.inputs[row, 0].tolist()}, elapsed {case.elapsed[row, 0]}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("names", TIERS)
def test_no_input_and_no_time_takes_a_cell_out_of_its_bounds_or_away_from_the_reference(
    level: str, names: Sequence[str], dtype: torch.dtype
) -> None:
    for name in names:
        for sizes in (SIZES[dtype], (LARGEST[dtype],)):
            case = extreme(name, dtype, sizes)
            if sizes == (LARGEST[dtype],) and not settles(case.cell):
                continue
            exact, move = truth(name, dtype, sizes)
            found = case.results("cpu")
            if sizes == (LARGEST[dtype],):
                del found["elapsed"]  # the slope by time has the rounding of a state times a rate, which can be 1e38
            every = 1 if name.startswith("ltc") else 7  # only an LTC moves a single row in another way
            rows = torch.arange(0, len(case.inputs), every)
            alone = torch.cat([case.rows(row[None]).states("cpu") for row in rows])
            if case.cell.guarantee.holds:
                low, high = close_to(case.cell.state_bounds())
                for states in (found["states"], alone, case.states("reference")):
                    assert ((states >= low) & (states <= high)).all(), (name, sizes)
            assert_agrees(name, case, found, exact, move)
            exact, move = ({"states": each["states"][rows]} for each in (exact, move))
            assert_agrees(name, case.rows(rows), {"states": alone}, exact, move)


def spoilt(name: str, dtype: torch.dtype) -> tuple[Case, Case, Tensor]:
    """A case with one NaN or infinity in most rows, the same case without any, and the rows that have none."""
    cell, generator = build(name, dtype), torch.Generator().manual_seed(3)
    whole, quiet = QUIET[dtype]
    nans = torch.tensor([quiet + payload for payload in PAYLOADS], dtype=whole).view(dtype)
    bad = torch.cat([nans, torch.tensor([math.inf, -math.inf], dtype=dtype)])
    places = [("inputs", (0, feature)) for feature in range(cell.inputs)] + [("elapsed", (0,))]
    places += [("state", (number,)) for number in range(min(cell.state_size, 6))]
    chosen = [
        (which, place, value)
        for which, place in places
        for value in bad
        if which != "elapsed" or value.isnan() or (value > 0 and settles(cell))
    ]
    rows = 3 * len(chosen) // 2
    inputs = torch.randn(rows, STEPS, cell.inputs, generator=generator).to(dtype)
    state = (torch.rand(rows, cell.state_size, generator=generator) - 0.5).to(dtype)
    elapsed = (torch.rand(rows, STEPS, generator=generator) * 0.2 + 0.1).to(dtype)
    clean = Case(cell, inputs, state, elapsed)
    case = clean.tensors(torch.clone)
    row = -1
    for number, (which, place, value) in enumerate(chosen):
        row += 1 + number % 2
        getattr(case, which)[(row, *place)] = value
    untouched = torch.stack([t.isfinite().flatten(1).all(1) for t in case[1:]]).all(0)
    return case, clean, untouched


@pytest.mark.system
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("names", TIERS)
def test_nan_and_infinity_go_where_they_go_in_the_reference_and_into_no_other_row(
    level: str, names: Sequence[str], dtype: torch.dtype
) -> None:
    allowed = 128 * torch.finfo(dtype).eps  # 2 steps of up to 6 unfolds, each of about ten roundings
    for name in names:
        case, clean, untouched = spoilt(name, dtype)
        want, found, before = case.states("reference"), case.results("cpu"), clean.results("cpu")
        alone = torch.cat([case.rows(row[None]).states("cpu") for row in torch.arange(len(want))])
        assert not want.isfinite().all()
        for states in (found["states"], alone):
            torch.testing.assert_close(
                states, want, rtol=allowed, atol=allowed, equal_nan=True, msg=lambda m, name=name: f"{name}: {m}"
            )
        for key in ("states", "inputs", "state", "elapsed"):
            assert torch.equal(found[key][untouched], before[key][untouched]), (name, key)
