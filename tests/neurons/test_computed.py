"""Pruned and parametrised parameters, and parameters replaced for one call, count on every backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize, prune

import ncp_control as nc
from helpers.cells import build
from ncp_control.neurons import Held, MixedMemory, cell_config, without_synapses
from ncp_control.ops import explain_backends

# A cell and one of its parameters: every kernel, and cells that only the reference runs.
PARAMETERS = {
    "ltc-gaps-quick": ("sigma", "w_raw", "gap_raw", "input_scale", "output_scale"),
    "neural-ltc-sigmoid": ("gamma_r", "A"),
    "ctrnn-rk4": ("gamma",),
    "cfc-default": ("sensory_weight", "bias"),
    "lstm": ("weight_hh",),
    "gru": ("weight_ih",),
    "ct-gru-scales": ("detect.weight", "store.bias"),
    "ltc-rk4": ("mu",),
    "cfc-backbone": ("head", "backbone.0.weight"),
    "lagged-mlp": ("hidden.weight",),
    "mixed-cfc": ("cell.sensory_weight", "recurrent_weight"),
}
CASES = [(cell, name) for cell, names in PARAMETERS.items() for name in names]


class Halved(nn.Module):
    """A parametrisation of one's own."""

    def forward(self, given: Tensor) -> Tensor:
        return given / 2


def place(cell: nc.Cell, name: str) -> tuple[nn.Module, str]:
    module, _, last = name.rpartition(".")
    return cell.get_submodule(module), last


def outputs(cell: nc.Cell, backend: str = "auto") -> Tensor:
    inputs = torch.linspace(-1, 1, 30 * cell.inputs).sin().view(5, 6, cell.inputs)
    return nc.RNN(cell, backend=backend)(inputs, elapsed=0.3, states=True)[2] + cell.motor(nc.scan(cell, inputs)).sum()


def backends(cell: nc.Cell) -> list[str]:
    return [name for name, (able, _) in explain_backends(cell, torch.zeros(1, 1, cell.inputs)).items() if able]


def with_value(name: str, parameter: str, value: Tensor) -> nc.Cell:
    """The plain cell of that name in which one parameter has this value."""
    cell = build(name)
    with torch.no_grad():
        cell.get_parameter(parameter).copy_(value)
    return cell


def update(original: nn.Parameter) -> None:
    """A step of training, in which every number grows."""
    with torch.no_grad():
        original.mul_(1.5).add_(0.1)
    original.grad = None


@pytest.mark.parametrize(("name", "parameter"), CASES)
def test_a_pruned_parameter_counts_on_every_backend_before_and_after_it_is_trained(name: str, parameter: str) -> None:
    cell = build(name)
    able = backends(cell)
    module, last = place(cell, parameter)
    mask = torch.arange(getattr(module, last).numel()).view_as(getattr(module, last)) % 2
    prune.custom_from_mask(module, last, mask)
    assert backends(cell) == able
    original = getattr(module, f"{last}_orig")
    for _ in range(2):
        plain = with_value(name, parameter, original * mask)
        for backend in able:
            found = outputs(cell, backend)
            torch.testing.assert_close(found, outputs(plain, backend), rtol=0, atol=0)
            found.square().sum().backward()
            outputs(plain, backend).square().sum().backward()
        torch.testing.assert_close(original.grad, plain.get_parameter(parameter).grad * mask)
        update(original)
    prune.remove(module, last)
    torch.testing.assert_close(outputs(cell), outputs(with_value(name, parameter, original * mask)), rtol=0, atol=0)


@pytest.mark.parametrize(("name", "parameter"), CASES)
def test_a_parametrised_parameter_counts_on_every_backend(name: str, parameter: str) -> None:
    cell = build(name)
    able = backends(cell)
    module, last = place(cell, parameter)
    parametrize.register_parametrization(module, last, Halved())
    assert backends(cell) == able
    original = module.parametrizations[last].original
    for _ in range(2):
        plain = with_value(name, parameter, original / 2)
        for backend in able:
            found = outputs(cell, backend)
            torch.testing.assert_close(found, outputs(plain, backend), rtol=0, atol=0)
            found.square().sum().backward()
            outputs(plain, backend).square().sum().backward()
        torch.testing.assert_close(original.grad, plain.get_parameter(parameter).grad / 2)
        update(original)


@pytest.mark.parametrize("norm", [torch.nn.utils.weight_norm, parametrizations.weight_norm])
def test_weight_norm_of_both_kinds_reaches_its_parameters(norm: Any) -> None:
    with pytest.warns(FutureWarning) if norm is torch.nn.utils.weight_norm else pytest.MonkeyPatch.context():
        cell = norm(build("lstm"), "weight_hh")
    parameters = [value for name, value in cell.named_parameters() if "weight_hh" in name]
    assert len(parameters) == 2
    before = outputs(cell)
    before.sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in parameters)
    update(parameters[0])
    for backend in backends(cell):
        assert not torch.allclose(outputs(cell, backend), before)


@pytest.mark.parametrize("method", [prune.l1_unstructured, prune.random_unstructured])
def test_weights_can_be_pruned_and_trained_on(method: Any) -> None:
    cell = build("neural-ltc-sigmoid")
    method(cell, "gamma_r", amount=3)
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        outputs(cell).square().mean().backward()
        optimizer.step()
    assert ((cell.gamma_r == 0) == (cell.gamma_r_mask == 0)).all()
    assert (cell.gamma_r_mask == 0).sum() == 3


@pytest.mark.parametrize(("name", "parameter"), CASES)
def test_a_parameter_replaced_for_one_call_counts_on_every_backend(name: str, parameter: str) -> None:
    cell = build(name)
    value = cell.get_parameter(parameter).detach() * 1.3
    plain, inputs = with_value(name, parameter, value), torch.randn(2, 4, cell.inputs)
    for backend in backends(cell):
        rnn, given = nc.RNN(cell, backend=backend), value.clone().requires_grad_()
        found = torch.func.functional_call(rnn, {f"cell.{parameter}": given}, (inputs,))[0]
        torch.testing.assert_close(found, nc.RNN(plain, backend=backend)(inputs)[0], rtol=0, atol=0)
        assert torch.autograd.grad(found.square().sum(), given)[0].shape == value.shape


def test_a_single_step_and_a_held_circuit_see_a_pruned_parameter_after_training() -> None:
    cell, inputs = build("ltc-sparse"), torch.randn(2, 3)
    prune.random_unstructured(cell, "sigma", amount=0.3)
    update(cell.sigma_orig)
    plain = with_value("ltc-sparse", "sigma", cell.sigma_orig * cell.sigma_mask)
    state = torch.rand(2, 7)
    assert torch.equal(cell.step(inputs, state), plain.step(inputs, state))
    update(cell.sigma_orig)
    plain = with_value("ltc-sparse", "sigma", cell.sigma_orig * cell.sigma_mask)
    held = [nc.scan(Held(each, {1: 0.5}), inputs[None]) for each in (cell, plain)]
    assert torch.equal(*held)


def pruned() -> nc.Cell:
    return prune.l1_unstructured(build("neural-ltc-sigmoid"), "gamma_r", amount=0.5)


def parametrised() -> nc.Cell:
    cell = build("ct-gru")
    parametrize.register_parametrization(cell.detect, "weight", Halved())
    return cell


@pytest.mark.parametrize(("make", "name"), [(pruned, "gamma_r"), (parametrised, r"detect\.weight")])
def test_what_would_not_stay_is_not_written(make: Any, name: str, tmp_path: Path) -> None:
    sentence = rf"{name} is pruned or parametrised.*remove"
    with pytest.raises(ValueError, match=sentence):
        without_synapses(make(), [0])
    for cell in (make(), MixedMemory(make())):
        with pytest.raises(ValueError, match=sentence):
            nc.save(nc.RNN(cell), tmp_path / "pruned.safetensors")
    assert not list(tmp_path.iterdir())


def test_a_pruned_circuit_is_written_once_its_parameters_are_plain(tmp_path: Path) -> None:
    cell = pruned()
    wanted = outputs(cell)
    prune.remove(cell, "gamma_r")
    nc.save(nc.RNN(cell), tmp_path / "pruned.safetensors")
    assert torch.equal(outputs(nc.load(tmp_path / "pruned.safetensors").cell), wanted)


def test_a_parametrised_cell_keeps_its_name() -> None:
    cell = build("ltc-sparse")
    parametrize.register_parametrization(cell, "sigma", Halved())
    assert cell_config(cell)["cell"] == "LTC"
