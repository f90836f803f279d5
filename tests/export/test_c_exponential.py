"""The exp that small processors compute in the C: right to rounding, for every argument."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from helpers.c_programs import STRICT, BareController, compiled, exported, greatest_difference, needs_compiler
from helpers.cells import build
from helpers.slow_neurons import SLOW, implied, slow_neuron
from ncp_control.neurons.code import EXPONENTIAL

pytestmark = needs_compiler
OWN = "-DCONTROLLER_OWN_EXP"
PROGRAM = f"""\
#include <stdint.h>
typedef float controller_real;
{EXPONENTIAL}
void all(int count, const float *x, float *y);
void all(int count, const float *x, float *y) {{
    for (int i = 0; i < count; i++) y[i] = exponential(x[i]);
}}
"""


@pytest.fixture(scope="module")
def computed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Returns the function from an array of floats to their exp."""
    folder = tmp_path_factory.mktemp("exponential")
    (folder / "exponential.c").write_text(PROGRAM)
    compiled(["gcc", *STRICT, OWN, "-O2", "-shared", "-fPIC", "-o", "exponential.so", "exponential.c"], folder)
    library = ctypes.CDLL(str(folder / "exponential.so"))

    def call(x: Any) -> Any:
        x = np.ascontiguousarray(x, dtype=np.float32)
        y = np.empty_like(x)
        library.all(len(x), *(ctypes.c_void_p(array.ctypes.data) for array in (x, y)))
        return y

    return call


@pytest.mark.system
def test_it_is_right_to_rounding(computed: Any) -> None:
    x = np.concatenate([np.linspace(-86, 86, 2_000_001), np.linspace(-1, 1, 2_000_001)]).astype(np.float32)
    exact, found = np.exp(x.astype(np.float64)), computed(x).astype(np.float64)
    assert (np.abs(found / exact - 1) <= 2.5e-7 + 7e-8 * np.abs(x)).all()
    assert np.abs(1 / (1 + found) - 1 / (1 + exact)).max() < 1.2e-7


def test_below_its_range_it_is_0_and_above_it_stays_at_the_end(computed: Any) -> None:
    low, high = computed([-86, 86])
    assert 0 < low < 1e-37
    assert 1e37 < high < np.inf
    np.testing.assert_array_equal(computed([-87, -1e30, -np.inf, 87, 1e30, np.inf]), [0] * 3 + [high] * 3)


def test_nan_stays_nan_and_zero_gives_one(computed: Any) -> None:
    assert np.isnan(computed([np.nan, -np.nan])).all()
    np.testing.assert_array_equal(computed([0.0, -0.0, 1e-45]), 1)


@pytest.mark.parametrize(
    "name", ["ltc-gaps", "neural-ltc-sigmoid", "cfc-default", "cfc-pure", "dual", "ct-gru-scales", "lstm"]
)
@pytest.mark.parametrize("flags", [(), ("-O3", "-funsafe-math-optimizations")])
def test_cells_take_the_same_steps_with_it(name: str, flags: Any, tmp_path: Path) -> None:
    controller = BareController(build(name, shaken=0.1))
    stepper = exported(controller, tmp_path, double=False, flags=[OWN, *flags])
    assert greatest_difference(controller, stepper) < 1e-5


@SLOW
def test_a_slow_neuron_moves_by_its_time_constant_with_it(tau: float, elapsed: float, tmp_path: Path) -> None:
    stepper = exported(BareController(slow_neuron(tau)), tmp_path, double=False, flags=[OWN])
    stepper.step([0.0], elapsed)
    assert implied(float(stepper.state[0]), elapsed) == pytest.approx(tau, rel=1e-3)


@pytest.mark.parametrize("elapsed", [0.2, 0.499, 0.501, 1.0, 30.0, 3e38])
def test_what_a_neuron_loses_is_right_on_both_sides_of_the_series(elapsed: float, tmp_path: Path) -> None:
    cell = slow_neuron(1.0)
    stepper = exported(BareController(cell), tmp_path, double=False, flags=[OWN])
    stepper.step([0.0], elapsed)
    exact = cell.double()
    state = exact.step(torch.zeros(1, 1).double(), exact.initial_state(1), elapsed)
    assert float(stepper.state[0]) == pytest.approx(float(state[0, 0]), rel=1e-6)
