"""At the edge of float32 a circuit on the page, which computes in double precision, does what it does in Python."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from helpers.browser_page import Page
from helpers.c_programs import QUICK
from helpers.cell_runs import cells_page_data, run_in_page, run_in_python
from helpers.cells import build
from helpers.extremes import EXTREMES, IMPOSSIBLE, seen
from helpers.laboratory_scripts import open_scripts
from ncp_control.activity.laboratory.controllers import CIRCUIT_SCRIPTS
from ncp_control.neurons.catalogue import row_of
from ncp_control.neurons.page import cell_data

pytestmark = pytest.mark.browser
SHOWN = [name for name in QUICK if row_of(type(build(name))).page]
POSSIBLE = [row for row in EXTREMES if row not in IMPOSSIBLE]
TABLE = {
    "inputs": np.array([seen(first, others, 5) for first, others, _ in POSSIBLE]).astype(float),
    "elapsed": np.array([elapsed for *_, elapsed in POSSIBLE]),
}


@pytest.fixture(scope="module")
def page(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    cells = {name: cell_data(build(name, torch.float64, 0.1)) for name in SHOWN}
    data = cells_page_data(cells, TABLE)
    folder = tmp_path_factory.mktemp("page")
    return open_scripts(browser, folder, ["numbers.js", *CIRCUIT_SCRIPTS], ["makeCell", "unpacked"], data)


@pytest.mark.parametrize("name", SHOWN)
def test_a_circuit_on_the_page_takes_the_steps_of_python(name: str, page: Page) -> None:
    steps = len(POSSIBLE)
    found = run_in_page(page, name, None, steps)["states"]
    wanted = run_in_python(build(name, torch.float64, 0.1), TABLE, steps, "reference")["states"]
    assert np.isfinite(wanted[0]).all()
    for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
        np.testing.assert_allclose(
            one, other, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(other).max()), err_msg=str(number)
        )
        if not np.isfinite(other).all():  # an explicit solver with time constants that are too short for it
            break
