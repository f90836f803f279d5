"""What a backend keeps of a program is used for the very tensors it was made from, wherever these lie by then."""

from __future__ import annotations

import copy
import gc
import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

import ncp_control as nc
from helpers.cells import build
from ncp_control.ops import readable
from ncp_control.ops.cpu.backend import available

pytestmark = pytest.mark.skipif(not available()[0], reason=available()[1])

CELLS = ["ltc-wide", "neural-ltc-wide", "cfc-wide", "lstm-wide"]


def in_place(cell: nc.Cell) -> None:
    for parameter in cell.parameters():
        parameter.mul_(1.5).add_(0.1)


def replaced(cell: nc.Cell) -> None:
    for name, parameter in list(cell.named_parameters()):
        setattr(cell, name, nn.Parameter(parameter * 1.5 + 0.1))


def other_data(cell: nc.Cell) -> None:
    for parameter in cell.parameters():
        parameter.data = parameter.data * 1.5 + 0.1


def other_data_at_the_same_place(cell: nc.Cell) -> None:
    """Every second number of memory that begins where the parameter's own began."""
    parameter = next(cell.parameters())
    memory = torch.randn(*parameter.shape, 2).mul_(0.3)
    parameter.data = memory.flatten()[: parameter.numel()].view(parameter.shape)
    nc.scan(cell, torch.randn(2, 3, cell.inputs))
    parameter.data = memory[..., 0]


def turned_in_place(cell: nc.Cell) -> None:
    for parameter in cell.parameters():
        if parameter.dim() == 2 and parameter.shape[0] == parameter.shape[1]:
            parameter.t_()


def moved_to_shared_memory(cell: nc.Cell) -> None:
    cell.share_memory()
    in_place(cell)


def storage_made_anew(cell: nc.Cell) -> None:
    """As sharded training does: memory is given back, and other memory taken for the same storage."""
    parameter = next(cell.parameters())
    kept, storage = parameter.detach().clone(), parameter.untyped_storage()
    size = storage.size()
    storage.resize_(0)
    held = [torch.full_like(kept, torch.nan) for _ in range(50)]
    storage.resize_(size)
    parameter.copy_(kept + 0.1)
    assert len(held) == 50


def loaded(cell: nc.Cell) -> None:
    cell.load_state_dict({name: value * 1.5 + 0.1 for name, value in cell.state_dict().items()})


def loaded_by_assignment(cell: nc.Cell) -> None:
    cell.load_state_dict({name: value * 1.5 + 0.1 for name, value in cell.state_dict().items()}, assign=True)


def there_and_back(cell: nc.Cell) -> None:
    cell.double()
    nc.scan(cell, torch.randn(2, 3, cell.inputs))
    cell.float()


CHANGES = [
    in_place, replaced, other_data, other_data_at_the_same_place, turned_in_place, moved_to_shared_memory,
    storage_made_anew, loaded, loaded_by_assignment, there_and_back,
]  # fmt: skip


def both(cell: nc.Cell, inputs: Tensor) -> list[list[Tensor]]:
    """States, outputs and gradients of the compiled scan and of the reference."""
    found = []
    for backend in ("cpu", "reference"):
        outputs, _, states = nc.RNN(cell, backend)(inputs, states=True)
        wanted = [parameter for parameter in cell.parameters() if parameter.requires_grad]
        grads = torch.autograd.grad(states.sum() + outputs.sum(), wanted)
        with torch.no_grad():
            again = nc.RNN(cell, backend)(inputs)[0]
        found.append([states.detach(), outputs.detach(), again, *grads])
    return found


def assert_right(cell: nc.Cell, inputs: Tensor) -> None:
    for got, want in zip(*both(cell, inputs.to(cell.dtype)), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("change", CHANGES)
def test_changed_parameters_are_those_that_run(change: Callable[[nc.Cell], None], name: str) -> None:
    cell = build(name)
    inputs = torch.randn(3, 4, cell.inputs)
    assert_right(cell, inputs)
    with torch.no_grad():
        change(cell)
    assert_right(cell, inputs)


@pytest.mark.parametrize("name", CELLS)
def test_copies_and_calls_with_other_parameters_do_not_mix(name: str) -> None:
    cell = build(name)
    inputs = torch.randn(3, 4, cell.inputs)
    assert_right(cell, inputs)
    other = copy.deepcopy(cell)
    with torch.no_grad():
        in_place(other)
        in_inference = nc.RNN(other)(inputs)[0]
        parameters = dict(nc.RNN(other).named_parameters())
        assert torch.equal(functional_call(nc.RNN(cell), parameters, (inputs,))[0], in_inference)
    with torch.inference_mode():
        assert torch.equal(nc.RNN(other)(inputs)[0], in_inference)
    assert_right(cell, inputs)
    assert_right(other, inputs)


def test_memory_that_is_used_again_is_not_taken_for_what_lay_there() -> None:
    """New tensors come to lie where old ones lay, and new objects get the numbers of old ones."""
    inputs = torch.randn(2, 3, 5)
    for seed in range(60):
        torch.manual_seed(seed)
        cell = nc.LTC(5, nc.AutoNCP(7 + seed % 3, 2, seed=seed))
        with torch.no_grad():
            got, want = (nc.RNN(cell, backend)(inputs)[0] for backend in ("cpu", "reference"))
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.system
def test_nothing_is_kept_of_a_cell_that_is_gone() -> None:
    gc.collect()
    before = len(readable._READABLE)
    for _ in range(5):
        nc.RNN(build("ltc-wide"))(torch.randn(2, 3, 5))[0].sum().backward()
    gc.collect()
    assert len(readable._READABLE) == before


@pytest.mark.parametrize("change", [lambda p: p[:-1], lambda p: p.double()])
def test_a_parameter_that_no_longer_fits_is_refused_by_the_backward_pass(change: Callable[[Tensor], Tensor]) -> None:
    cell = build("ltc-wide")
    states = nc.scan(cell, torch.randn(2, 3, 5), backend="cpu")
    cell.mu.data = change(cell.mu.data)
    with pytest.raises(RuntimeError, match="the backward pass of a compiled scan cannot run here: the cell"):
        states.sum().backward()


def test_threads_share_a_cell_while_one_of_them_changes_it() -> None:
    cell, inputs = build("ltc-wide").requires_grad_(False), torch.randn(3, 4, 5)
    values = [torch.randn_like(cell.mu) for _ in range(2)]
    allowed = []
    for value in values:
        cell.mu.data = value
        allowed.append(nc.scan(cell, inputs, backend="reference"))
    wrong: list[int] = []

    def work() -> None:
        for number in range(200):
            states = nc.scan(cell, inputs, backend="cpu")
            if not any(torch.allclose(states, one, rtol=1e-3, atol=1e-4) for one in allowed):
                wrong.append(number)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(400):
        cell.mu.data = values[number % 2]
    for thread in threads:
        thread.join()
    assert wrong == []
