"""A scan that runs directly gives what every scan gives, whatever has happened to its tensors in between."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

import ncp_control as nc
from ncp_control.neurons import Cell
from ncp_control.ops.cpu import backend
from ncp_control.ops.dispatch import available_backends, scan_with_outputs

pytestmark = pytest.mark.skipif(not available_backends()["cpu"][0], reason="no compiled kernels")

INPUTS = torch.randn(5, 2, 3)
RESET = torch.tensor([[0, 1, 0, 0, 1], [0, 0, 1, 0, 0]]).bool().T


def made(name: str = "ltc") -> Cell:
    torch.manual_seed(0)
    return nc.make_cell(name, 3, nc.AutoNCP(9, 3) if name in ("ltc", "cfc", "neuralltc", "dualltc") else 6)


def state_of(cell: Cell) -> torch.Tensor:
    return torch.linspace(-1, 1, 5 * cell.state_size, dtype=cell.dtype).view(5, -1)


def direct(cell: Cell, reset: torch.Tensor | None = RESET) -> torch.Tensor | None:
    """Runs the scan directly, and returns the outputs and the states in one; None if another way has to be asked."""
    with torch.no_grad():
        found = backend.run_directly(cell, INPUTS.to(cell.dtype), state_of(cell), 1.0, reset)
    return None if found is None else torch.cat(found, -1)


def scanned(cell: Cell, reset: torch.Tensor | None = RESET) -> torch.Tensor:
    """Runs the scan in the way that takes the elapsed time as a tensor."""
    with torch.no_grad():
        found = scan_with_outputs(cell, INPUTS.to(cell.dtype), state_of(cell), torch.ones(()), reset)
    return torch.cat(found, -1)


def assert_same(cell: Cell) -> None:
    found = direct(cell)
    assert found is not None
    assert torch.equal(found, scanned(cell))


@pytest.mark.parametrize("name", ["ltc", "cfc", "neuralltc", "dualltc", "lstm", "gru"])
def test_what_it_gives_is_that_of_every_scan(name: str) -> None:
    cell = made(name)
    assert_same(cell)
    assert_same(cell.double())
    without = direct(cell, None)
    assert without is not None
    assert torch.equal(without, scanned(cell, None))
    with torch.no_grad():
        found = backend.run_directly(cell, INPUTS.double(), None, 0.5, None)
        expected = scan_with_outputs(cell, INPUTS.double(), None, torch.tensor(0.5))
    assert found is not None
    assert torch.equal(torch.cat(found, -1), torch.cat(expected, -1))


def first(cell: Cell) -> tuple[str, nn.Parameter]:
    return next((name, value) for name, value in cell.named_parameters() if value.numel() > 8)


def change_in_place(cell: Cell) -> None:
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.add_(0.1)


def change_data(cell: Cell) -> None:
    for parameter in cell.parameters():
        parameter.data = parameter.data + 0.1


def replace(cell: Cell) -> None:
    name, value = first(cell)
    setattr(cell, name, nn.Parameter(value.detach() + 0.1))


def load(cell: Cell) -> None:
    cell.load_state_dict(
        {name: value + 0.1 if value.is_floating_point() else value for name, value in cell.state_dict().items()}
    )


def there_and_back(cell: Cell) -> None:
    cell.double()
    cell.float()
    change_in_place(cell)


def pruned(cell: Cell) -> None:
    prune.random_unstructured(cell, first(cell)[0], 0.5)


def pruned_in_the_output_map(cell: Cell) -> None:
    prune.random_unstructured(cell, "output_scale", 1)


CHANGES = [change_in_place, change_data, replace, load, there_and_back, pruned]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("ltc", pruned_in_the_output_map),
        *((name, change) for name in ("ltc", "lstm", "neuralltc") for change in CHANGES),
    ],
)
def test_it_follows_changes_of_the_weights(name: str, change: Callable[[Cell], None]) -> None:
    cell = made(name)
    before = direct(cell)
    change(cell)
    assert before is not None
    assert_same(cell)
    assert not torch.equal(scanned(cell), before)


@pytest.mark.parametrize("via", [copy.deepcopy, lambda cell: torch.load(written(cell), weights_only=False)])
def test_a_copy_has_its_own_weights(via: Callable[[Cell], Cell]) -> None:
    cell = made()
    before = direct(cell)
    other = via(cell)
    change_in_place(other)
    assert_same(other)
    assert before is not None
    assert torch.equal(direct(cell), before)  # type: ignore[arg-type]


def written(cell: Cell) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(cell, file)
    file.seek(0)
    return file


def test_a_cell_made_in_inference_mode_runs_there_and_elsewhere() -> None:
    with torch.inference_mode():
        cell = made()
        assert_same(cell)
    assert_same(cell)


PLAIN = {"inputs": INPUTS, "state": None, "elapsed": 1.0, "reset": RESET}
OTHERS: dict[str, dict[str, Any]] = {
    "two dimensions": {"inputs": INPUTS[0]},
    "too many features": {"inputs": torch.zeros(5, 2, 4)},
    "no rows": {"inputs": INPUTS[:0], "reset": RESET[:0]},
    "another type": {"inputs": INPUTS.double()},
    "another class": {"inputs": INPUTS.as_subclass(type("Mine", (torch.Tensor,), {}))},
    "the other sign": {"inputs": torch._neg_view(INPUTS)},
    "sparse": {"inputs": INPUTS.to_sparse()},
    "a state of another type": {"state": torch.zeros(5, 9).double()},
    "a state of another size": {"state": torch.zeros(5, 8)},
    "flags as numbers": {"reset": RESET.float()},
    "flags of another shape": {"reset": RESET[:, :1]},
    "time that runs backwards": {"elapsed": -1.0},
    "no time": {"elapsed": float("nan")},
}


@pytest.mark.parametrize("given", OTHERS.values(), ids=OTHERS)
def test_what_is_not_plain_is_left_to_other_ways(given: dict[str, Any]) -> None:
    cell = made()
    with torch.no_grad():
        assert backend.run_directly(cell, **PLAIN) is not None
        assert backend.run_directly(cell, **{**PLAIN, **given}) is None


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_inputs_are_left_to_other_ways() -> None:
    inputs = torch.nested.nested_tensor([INPUTS[0], INPUTS[1, :1]])
    with torch.no_grad():
        assert backend.run_directly(made(), inputs, None, 1.0, None) is None


def test_gradients_are_left_to_other_ways() -> None:
    assert backend.run_directly(made(), **PLAIN) is None


def test_a_parameter_that_was_cut_short_is_left_to_other_ways() -> None:
    cell = made()
    assert direct(cell) is not None
    cell.cm_raw.data = cell.cm_raw.data[:4]
    assert direct(cell) is None


@pytest.mark.parametrize("how", [{"backend": "reference"}, {"parallel": 2}, {"mask": torch.ones(5, 2).bool()}])
def test_another_way_that_is_asked_for_is_taken(how: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    cell, asked = made(), []
    monkeypatch.setattr(backend, "run_directly", lambda *arguments: asked.append(arguments))
    with torch.no_grad():
        scan_with_outputs(cell, INPUTS, state_of(cell), 1.0, **how)
        assert not asked
        scan_with_outputs(cell, INPUTS, state_of(cell), 1.0)
    assert len(asked) == 1
