"""At the edge of float32 a step is computed, or it changes nothing and says so: in C as in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from helpers.c_programs import QUICK, BareController, InPython, Stepper, exported, needs_compiler
from helpers.cells import build
from helpers.extremes import EXTREMES, IMPOSSIBLE, seen
from ncp_control.export.c.write import exact_form
from ncp_control.rl.controller import Controller
from ncp_control.rl.monitor import NOT_FINITE, Monitor

USUAL = (0.5, -0.5, 1.0)
HUGE = 1e30
INFINITY = float("inf")


def unlimited(name: str, backend: str = "reference", gain: float = 1.0) -> BareController:
    """A cell with a monitor whose ranges are endless, so that the one flag that it can raise is `NOT_FINITE`."""
    cell = build(name, shaken=0.1)
    with torch.no_grad():
        for weight in cell.parameters():
            weight *= gain
    ends, states = np.full(cell.inputs, INFINITY), np.full(cell.state_size, INFINITY)
    found = BareController(cell, monitor=Monitor(-ends, ends, -states, states))
    assert found.rnn is not None
    found.rnn.backend = backend
    return found


def check_rows(stepper: Stepper | InPython, exact: Controller) -> dict[tuple[float, float, float], int]:
    """Steps on every row of the table, each after a usual step and before another. Returns the flags by row.

    A sum of several huge numbers may overflow to either end on its way, so that its neuron is not compared.
    """
    flags = {}
    for row in EXTREMES:
        alone = min(abs(row[0]), abs(row[1])) < HUGE
        stepper.reset()
        state = exact.initial_state()
        for number, (first, others, elapsed) in enumerate((USUAL, row, USUAL)):
            observation = seen(first, others, len(exact.sensors))
            before, acted = stepper.state.copy(), stepper.action.copy()
            flag = stepper.step(observation, elapsed)
            assert np.isfinite(stepper.state).all()
            assert np.isfinite(stepper.action).all()
            if flag:
                assert flag == NOT_FINITE
                assert number == 1
                np.testing.assert_array_equal(stepper.state, before)
                np.testing.assert_array_equal(stepper.action, acted)
            else:
                given = torch.as_tensor(observation)[None].double(), state, torch.tensor([float(np.float32(elapsed))])
                state = exact(*given)[1]
                if number == 1 and not alone:
                    state = torch.as_tensor(stepper.state[None].copy()).double()
                wanted = state[0].numpy()
                allowed = 1e-5 * max(1.0, np.abs(wanted).max())
                np.testing.assert_allclose(stepper.state, wanted, rtol=0, atol=allowed, err_msg=str((row, number)))
            if number == 1:
                flags[row] = flag
    assert all(flags[row] for row in IMPOSSIBLE)
    return flags


@needs_compiler
@pytest.mark.parametrize("flags", [(), ("-DCONTROLLER_OWN_EXP",)], ids=["libm", "own"])
@pytest.mark.parametrize("name", QUICK)
def test_c_computes_a_step_or_changes_nothing_and_says_so(name: str, flags: Any, tmp_path: Path) -> None:
    controller = unlimited(name)
    check_rows(exported(controller, tmp_path, double=False, flags=flags), exact_form(controller))


@needs_compiler
@pytest.mark.parametrize("name", ["neural-ltc-relu", "cfc-default", "cfc-no_gate", "dual-deep", "dual-bare"])
def test_a_sum_that_overflows_to_both_ends_changes_nothing_or_ends_at_one(name: str, tmp_path: Path) -> None:
    """Fused multiplications and another order of the terms, which processors choose, keep the first infinity."""
    controller = unlimited(name, gain=20.0)
    stepper = exported(controller, tmp_path, double=False)
    for one in (stepper, InPython(controller)):
        one.reset()
        one.step(seen(*USUAL[:2], len(controller.sensors)), 1.0)
        before = one.state.copy()
        flag = one.step(seen(3.4e38, 3.4e38, len(controller.sensors)), 1.0)
        assert flag in (0, NOT_FINITE)
        assert np.isfinite(one.state).all()
        assert (one.state == before).all() == bool(flag)
        assert (
            one.step(seen(0.5, 0.5, len(controller.sensors)), 1.0) == 0
        )  # not what came before: fast neurons are still
        assert not (one.state == before).all()


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("name", QUICK)
def test_a_controller_does_the_same(name: str, backend: str) -> None:
    controller = unlimited(name, backend)
    check_rows(InPython(controller), exact_form(controller))


def test_without_a_monitor_an_action_that_cannot_be_computed_is_nan() -> None:
    """Also where the neuron that overflows is not a motor neuron, so that all outputs are finite."""
    cell = build("dual-deep")
    first, target = cell.wiring.sensory.source[0], cell.wiring.sensory.target[0]
    assert target < cell.state_size - cell.outputs
    with torch.no_grad():
        cell.get_parameter("sensory_weight")[0] = torch.inf
    controller = BareController(cell)
    before = controller(torch.full((1, len(controller.sensors)), 0.25), controller.initial_state())[1]
    both = before.expand(2, -1)
    observations = torch.full((2, len(controller.sensors)), 0.25)
    observations[1, first] = 0.0  # and 0 times infinity is NaN on every processor
    action, after = controller(observations, both)
    assert action.isnan().all(dim=1).tolist() == [False, True]
    assert torch.equal(after[1], before[0])
    assert not torch.equal(after[0], before[0])


def test_a_choice_of_numbers_that_are_not_finite_is_kept(tmp_path: Path) -> None:
    head = torch.nn.Linear(2, 3)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [3.0, -3.0]]))
        head.bias.zero_()
    monitor = Monitor([-INFINITY] * 2, [INFINITY] * 2, [], [])
    controller = BareController(None, head, sensors=2, monitor=monitor, chooses=True)
    stepper = exported(controller, tmp_path, double=False)
    assert stepper.step([0.0, 1.0]) == 0
    assert stepper.action == 1
    assert stepper.step([3e38, 3e38]) == NOT_FINITE  # the third is inf - inf
    assert stepper.action == 1
    assert controller(torch.full((1, 2), 3e38), torch.zeros(1, 0))[2] == NOT_FINITE
