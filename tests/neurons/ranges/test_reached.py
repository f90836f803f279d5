"""No state, output or time constant leaves what is certified, in float32 and in float64."""

from collections.abc import Iterable

import pytest
import torch

from helpers.audited_cells import (
    KNOWN,
    Case,
    cases,
    inside,
    one_solver_step,
    outside,
    sequences,
    times_in,
)
from helpers.cells import WIDE, ZOO
from ncp_control.audit.examining import reachable
from ncp_control.base.intervals import Interval

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])


SOLVED = [name for name in ZOO if "dopri5" not in name]


@DTYPES
@pytest.mark.parametrize("name", SOLVED)
def test_no_state_or_output_leaves_its_range(name: str, dtype: torch.dtype) -> None:
    check_range(cases(name, dtype))


@pytest.mark.slow
@DTYPES
@pytest.mark.parametrize("name", [*SOLVED, *WIDE])
def test_no_state_or_output_leaves_its_range_in_any_of_many_boxes(name: str, dtype: torch.dtype) -> None:
    check_range(cases(name, dtype, seeds=4))


def check_range(given: Iterable[Case]) -> None:
    for case in given:
        states = reachable(case.known, case.features)
        many = (512, 16) if case.backend == "cpu" else (48, 5)
        for rows, steps in (many, (1, 3 * many[1])):
            _, reached = sequences(case, rows, steps)
            assert outside(states, reached) == []
            assert outside(case.known.outputs(states), case.cell.motor(reached)) == []


@DTYPES
@pytest.mark.parametrize("name", KNOWN)
def test_no_solver_step_leaves_the_range_after_any_box_of_states(name: str, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    for case in cases(name, dtype):
        whole = case.known.outer()
        for width in (0.0, 0.1, 1.0):
            middle = inside(whole, (), dtype, generator).double().numpy()
            states = Interval(*(middle + width * (end.clip(-10, 10) - middle) for end in whole))
            states = Interval(*(torch.as_tensor(end).to(dtype).double().numpy() for end in states))
            after = case.known.after(states, case.features)
            step, rows = one_solver_step(case.cell), 256
            elapsed = times_in(case.known.elapsed, (rows,), dtype, generator) / case.known.substeps
            inputs = inside(case.features, (rows,), dtype, generator)
            assert outside(after, step.step(inputs, inside(states, (rows,), dtype, generator), elapsed[:, None])) == []


@DTYPES
@pytest.mark.parametrize("name", [name for name in SOLVED if name != "lagged-mlp"])
def test_no_time_constant_leaves_its_range(name: str, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(4)
    for case in cases(name, dtype):
        states = reachable(case.known, case.features)
        certified = case.known.time_constants(states, case.features)
        inputs, reached = sequences(case, 64, 6)
        found = case.cell.time_constants(inputs[:, 1:].flatten(0, 1), reached[:, :-1].flatten(0, 1))
        assert outside(certified, found) == []
        drawn = inside(states, (512,), dtype, generator)
        found = case.cell.time_constants(inside(case.features, (512,), dtype, generator), drawn)
        assert outside(certified, found) == []
