"""A circuit's single step gives what the scan gives, whatever has happened to its tensors in between."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from ncp_control.ops.dispatch import available_backends
from ncp_control.rl.policies.circuit import Circuit, single_step
from ncp_control.wiring import AutoNCP

pytestmark = pytest.mark.skipif(not available_backends()["cpu"][0], reason="no compiled kernels")

INPUTS = torch.randn(5, 1, 3)
RESET = torch.tensor([0, 1, 0, 0, 1]).bool()[:, None]


def made(cell: str = "ltc") -> Circuit:
    torch.manual_seed(0)
    return Circuit(3, AutoNCP(9, 3) if cell in ("ltc", "cfc", "neuralltc", "dualltc") else 6, cell)


def steps(circuit: Circuit) -> torch.Tensor | None:
    """Takes the single step, and returns the outputs and the states in one; None if the scan has to be asked."""
    state = torch.linspace(-1, 1, 5 * circuit.hidden_size).view(5, -1)
    dtype = next(circuit.parameters()).dtype
    with torch.no_grad():
        found = single_step(circuit.rnn, INPUTS.to(dtype), state.to(dtype), RESET)
    return None if found is None else torch.cat(found, -1)


def scanned(circuit: Circuit) -> torch.Tensor:
    state = torch.linspace(-1, 1, 5 * circuit.hidden_size).view(5, -1)
    with torch.no_grad():
        return torch.cat(circuit.run(INPUTS, state, RESET), -1)


def assert_same(circuit: Circuit) -> None:
    found = steps(circuit)
    assert found is not None
    assert torch.equal(found, scanned(circuit))


@pytest.mark.parametrize("cell", ["ltc", "cfc", "neuralltc", "dualltc", "lstm", "gru"])
def test_a_step_is_that_of_the_scan(cell: str) -> None:
    circuit = made(cell)
    assert_same(circuit)
    with torch.no_grad():
        state = torch.randn(5, circuit.hidden_size)
        outputs, last = circuit(INPUTS, state, RESET)
        expected, states = circuit.run(INPUTS, state, RESET)
    assert torch.equal(outputs, expected)
    assert torch.equal(last, states[:, -1])


def first(circuit: Circuit) -> tuple[str, nn.Parameter]:
    return next((name, value) for name, value in circuit.cell.named_parameters() if value.numel() > 8)


def change_in_place(circuit: Circuit) -> None:
    with torch.no_grad():
        for parameter in circuit.parameters():
            parameter.add_(0.1)


def change_data(circuit: Circuit) -> None:
    for parameter in circuit.parameters():
        parameter.data = parameter.data + 0.1


def replace(circuit: Circuit) -> None:
    name, value = first(circuit)
    setattr(circuit.cell, name, nn.Parameter(value.detach() + 0.1))


def load(circuit: Circuit) -> None:
    circuit.load_state_dict(
        {name: value + 0.1 if value.is_floating_point() else value for name, value in circuit.state_dict().items()}
    )


def there_and_back(circuit: Circuit) -> None:
    circuit.double()
    circuit.float()
    change_in_place(circuit)


@pytest.mark.parametrize("change", [change_in_place, change_data, replace, load, there_and_back])
@pytest.mark.parametrize("cell", ["ltc", "lstm"])
def test_a_step_follows_changes_of_the_weights(cell: str, change: Callable[[Circuit], None]) -> None:
    circuit = made(cell)
    before = steps(circuit)
    change(circuit)
    assert before is not None
    assert_same(circuit)
    assert not torch.equal(scanned(circuit), before)


@pytest.mark.parametrize("via", [copy.deepcopy, lambda circuit: torch.load(written(circuit), weights_only=False)])
def test_a_copy_steps_with_its_own_weights(via: Callable[[Circuit], Circuit]) -> None:
    circuit = made()
    before = steps(circuit)
    other = via(circuit)
    change_in_place(other)
    assert_same(other)
    assert before is not None
    assert torch.equal(steps(circuit), before)  # type: ignore[arg-type]


def written(circuit: Circuit) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(circuit, file)
    file.seek(0)
    return file


def hooked(circuit: Circuit) -> Any:
    return circuit.rnn.register_forward_hook(lambda *_: None)


def pruned(circuit: Circuit) -> Any:
    prune.random_unstructured(circuit.cell, first(circuit)[0], 0.5)


def pruned_in_the_output_map(circuit: Circuit) -> Any:
    prune.random_unstructured(circuit.cell, "output_scale", 1)


def cut_short(circuit: Circuit) -> None:
    circuit.cell.cm_raw.data = circuit.cell.cm_raw.data[:4]


def checked(circuit: Circuit) -> None:
    circuit.rnn.check_finite = True


def on_reference(circuit: Circuit) -> None:
    circuit.rnn.backend = "reference"


@pytest.mark.parametrize(
    "change", [hooked, pruned, pruned_in_the_output_map, cut_short, checked, on_reference, Circuit.double]
)
def test_what_a_kernel_alone_cannot_do_is_left_to_the_scan(change: Callable[[Circuit], Any]) -> None:
    circuit = made()
    assert steps(circuit) is not None
    change(circuit)
    assert steps(circuit) is None


def test_a_step_with_gradients_is_left_to_the_scan() -> None:
    circuit = made()
    state = torch.zeros(5, circuit.hidden_size)
    assert single_step(circuit.rnn, INPUTS, state, RESET) is None
    assert circuit(INPUTS, state, RESET)[0].requires_grad


def test_a_circuit_made_in_inference_mode_steps_there_and_elsewhere() -> None:
    with torch.inference_mode():
        circuit = made()
        assert_same(circuit)
    assert_same(circuit)
