"""The C code checks what it is given as the monitor of a `Controller` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ncp_control as nc
from helpers.c_programs import BareController, Stepper, exported, needs_compiler
from helpers.cells import build
from ncp_control.rl.monitor import ELAPSED, NOT_FINITE, OBSERVATION, STATE, Monitor

pytestmark = needs_compiler
NAN, INFINITY = float("nan"), float("inf")


def watched() -> BareController:
    """A cell with certified ranges that random observations leave in every way."""
    cell = build("ltc-sparse")
    with torch.no_grad():
        states = nc.RNN(cell)(torch.randn(200, 3, generator=torch.Generator().manual_seed(0)), states=True)[2].numpy()
    low, high = np.quantile(states, [0.02, 0.98], axis=0)
    return BareController(cell, monitor=Monitor([-1.5, -INFINITY, -2], [1.5, 1, INFINITY], low, high, 0.5, 1.25))


@pytest.mark.system
@pytest.mark.parametrize("double", [True, False])
def test_the_flags_of_every_step_are_those_of_the_monitor(double: bool, tmp_path: Path) -> None:
    controller = watched()
    if double:
        controller = controller.double()
    stepper = exported(controller, tmp_path, double=double)
    generator, state = np.random.default_rng(0), controller.initial_state()
    seen_flags = set()
    for step in range(300):
        seen = generator.standard_normal(3).astype(np.float32)
        elapsed = float(generator.choice([0.5, 1.0, 1.25, 0.25, 2.0, 0.0], p=[0.3, 0.3, 0.1, 0.1, 0.1, 0.1]))
        if step % 17 == 16:
            seen[generator.integers(3)] = generator.choice([NAN, INFINITY, -INFINITY])
        if step % 23 == 22:
            elapsed = float(generator.choice([NAN, INFINITY, -1e-3]))
        given = torch.as_tensor(seen)[None].to(controller.dtype)
        _, state, flags = controller(given, state, torch.tensor([elapsed], dtype=controller.dtype))
        assert stepper.step(seen, elapsed) == flags[0], (step, seen, elapsed)
        np.testing.assert_allclose(stepper.state, state[0], rtol=0, atol=1e-5)
        seen_flags.add(int(flags[0]))
    assert {
        0,
        NOT_FINITE,
        OBSERVATION,
        STATE,
        ELAPSED,
        OBSERVATION | STATE,
        OBSERVATION | STATE | ELAPSED,
    } <= seen_flags


def check_refuses(stepper: Stepper, sensors: int) -> None:
    """Steps on what is no observation, after one step on what is."""
    stepper.reset()
    assert stepper.step(np.full(sensors, 0.25)) == 0
    state, action = stepper.state.copy(), stepper.action.copy()
    for value in (NAN, -NAN, INFINITY, -INFINITY):
        for place in range(sensors):
            seen = np.full(sensors, 0.5)
            seen[place] = value
            assert stepper.step(seen) == NOT_FINITE
    for elapsed in (NAN, INFINITY, -INFINITY, -1e-6):
        assert stepper.step(np.full(sensors, 0.5), elapsed) == NOT_FINITE
    np.testing.assert_array_equal(stepper.state, state)
    np.testing.assert_array_equal(stepper.action, action)
    assert stepper.step(np.full(sensors, 0.5), -0.0) == 0
    assert stepper.step(np.full(sensors, -0.5)) == 0
    assert not (stepper.state == state).all()


@pytest.mark.parametrize("name", ["ltc-sparse", "cfc-default", "dual", "gru", "lagged-mlp", "ct-gru"])
@pytest.mark.parametrize("flags", [("-O1",), ("-O3", "-funsafe-math-optimizations")])
def test_what_is_not_finite_leaves_state_and_action_as_they_were(name: str, flags: Any, tmp_path: Path) -> None:
    controller = BareController(build(name))
    check_refuses(exported(controller, tmp_path, double=False, flags=flags), len(controller.sensors))


def test_an_agent_without_a_memory_keeps_its_action_too(tmp_path: Path) -> None:
    monitor = Monitor([-1.0], [1.0], [], [])
    controller = BareController(None, torch.nn.Linear(1, 1), sensors=1, monitor=monitor)
    stepper = exported(controller, tmp_path, double=False)
    assert stepper.step([2.0]) == OBSERVATION
    before = stepper.action.copy()
    assert stepper.step([NAN]) == NOT_FINITE
    assert stepper.action == before
    assert stepper.step([1.0], 1e9) == 0


def test_a_state_that_would_not_be_finite_is_not_taken(tmp_path: Path) -> None:
    """Which an explicit solver reaches with fast neurons."""
    cell = build("ltc-euler")
    size = cell.state_size
    ends = np.full(size, np.inf)
    monitor = Monitor(np.full(2, -10), np.full(2, 10), -ends, ends)
    stepper = exported(BareController(cell, monitor=monitor), tmp_path, double=False)
    assert [stepper.step([1.0, 1.0], elapsed) for elapsed in (1e-3, 1e18, 1e-3)] == [0, NOT_FINITE, 0]
    assert np.isfinite(stepper.state).all()
