"""Every cell as C: the same steps as the reference, to rounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from helpers.c_programs import QUICK, BareController, InPython, exported, greatest_difference, needs_compiler
from helpers.cells import WIDE, ZOO, build
from helpers.slow_neurons import SLOW, implied, slow_neuron
from ncp_control.export.c.write import exact_form
from ncp_control.neurons import LTC, DualLTC
from ncp_control.neurons.catalogue import NEURONS
from ncp_control.rl.controller import Controller
from ncp_control.wiring import Wiring

pytestmark = needs_compiler
WITHOUT = [name for name in ZOO if name.startswith("mixed") or name.endswith("dopri5")]


def every_cell() -> list[Any]:
    chosen = [name for name in ZOO | WIDE if name not in WITHOUT]
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in chosen]


def rounding(controller: Controller) -> float:
    """How far the reference in float32 comes away from itself in float64, in the run of `greatest_difference`."""

    return greatest_difference(controller, InPython(controller))


@pytest.mark.parametrize("name", every_cell())
def test_a_cell_takes_the_same_steps_in_c(name: str, tmp_path: Path) -> None:
    controller = BareController(build(name, shaken=0.1))
    assert greatest_difference(controller, exported(controller, tmp_path, double=True)) < 1e-12
    # A Neural ODE has no leak, so that its rounding errors grow with every step, in torch as in C.
    allowed = max(1e-5, 5 * rounding(controller)) if name.startswith("neural-ode") else 1e-5
    assert greatest_difference(controller, exported(controller, tmp_path, double=False)) < allowed


@SLOW
def test_a_slow_neuron_moves_by_its_time_constant_in_float(tau: float, elapsed: float, tmp_path: Path) -> None:
    stepper = exported(BareController(slow_neuron(tau)), tmp_path, double=False)
    stepper.step([0.0], elapsed)
    assert implied(float(stepper.state[0]), elapsed) == pytest.approx(tau, rel=1e-3)


def test_the_quick_cells_are_of_every_kind_that_has_a_c_form() -> None:
    assert {type(build(name)) for name in QUICK} == {row.kind for row in NEURONS if row.code}
    assert not set(QUICK) & set(WITHOUT)


@pytest.mark.parametrize("name", WITHOUT)
def test_a_cell_without_a_c_form_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no C form: "):
        exported(BareController(build(name)), tmp_path, double=True)


def test_a_cell_of_ones_own_is_refused(tmp_path: Path) -> None:
    class Own(LTC):
        pass

    with pytest.raises(ValueError, match="an agent with the cell Own has no C form: the cells that have one are LTC, "):
        exported(BareController(Own(2, 3)), tmp_path, double=True)


@pytest.mark.parametrize("name", ["ltc-gaps", "neural-ltc-sigmoid", "ctrnn-fused", "dual", "dual-bare"])
def test_a_step_takes_any_elapsed_time(name: str, tmp_path: Path) -> None:
    controller = BareController(build(name, shaken=0.1))
    reference, stepper = exact_form(controller), exported(controller, tmp_path, double=False)
    state = reference.initial_state()
    for elapsed in (1.0, 0.0, 1e-42, 1e-30, 1e-3, 1e30, 3e38, 1.0):
        seen = torch.linspace(-1, 1, len(controller.sensors))
        stepper.step(seen.numpy(), elapsed)
        _, state = reference(seen.double()[None], state, elapsed)
        np.testing.assert_allclose(stepper.state, state[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["ltc-gaps", "neural-ltc-sigmoid", "cfc-default", "dual", "ct-gru", "lstm", "gru"])
def test_observations_far_beyond_all_others_are_no_trouble(name: str, tmp_path: Path) -> None:
    controller = BareController(build(name, shaken=0.1))
    reference, stepper = exact_form(controller), exported(controller, tmp_path, double=True)
    state = reference.initial_state()
    for size in (1e3, -1e3, 1e9, -1e9, 1.0):
        seen = torch.linspace(0.5, 1.5, len(controller.sensors), dtype=torch.float64) * size
        stepper.step(seen.numpy())
        _, state = reference(seen[None], state)
        assert np.isfinite(stepper.state).all()
        np.testing.assert_allclose(stepper.state, state[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("brake", [True, False])
def test_liquid_neurons_need_no_synapses_among_them(brake: bool, tmp_path: Path) -> None:
    wiring = Wiring.from_edges(2, inter=1, motor=2, sensory=[(0, 1), (1, 2)])
    controller = BareController(DualLTC(2, wiring, brake=brake))
    assert greatest_difference(controller, exported(controller, tmp_path, double=True)) < 1e-12


def test_a_pruned_cell_is_exported_as_it_computes(tmp_path: Path) -> None:
    cell = build("ctrnn-sparse", shaken=0.1)
    controller = BareController(cell)
    torch.nn.utils.prune.random_unstructured(cell, "gamma_r", amount=0.5)  # type: ignore[no-untyped-call]
    assert greatest_difference(controller, exported(controller, tmp_path, double=True)) < 1e-12
