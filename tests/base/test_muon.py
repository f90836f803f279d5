"""The optimizer whose momentum is orthogonal."""

import pytest
import torch
from torch import nn

import ncp_control as nc
from ncp_control.base.muon import LinearWeights, Muon, linear_weights, orthogonal
from ncp_control.neurons import Cell

PLAN = nc.NCP(5, 4, 3, sensory_fanout=3, inter_fanout=2, recurrent_command=3, motor_fanin=2, seed=1)
CELLS = {
    "cfc": lambda: nc.CfC(6, PLAN), "pure": lambda: nc.CfC(6, PLAN, mode="pure"),
    "backbone": lambda: nc.CfC(6, 5, backbone=(7, 8)), "neuralltc": lambda: nc.NeuralLTC(6, PLAN),
    "ctrnn": lambda: nc.CTRNN(6, PLAN), "lstm": lambda: nc.LSTM(6, 5), "gru": lambda: nc.GRU(6, 5),
    "ctgru": lambda: nc.CTGRU(6, 5, scales=2), "mixed": lambda: nc.MixedMemory(nc.CfC(6, PLAN)),
    "dual": lambda: nc.DualLTC(6, PLAN), "ltc": lambda: nc.LTC(6, PLAN),
}  # fmt: skip
NUMBERS = {
    "cfc": 2, "pure": 2, "backbone": 3, "neuralltc": 2, "dual": 2, "ctrnn": 2, "lstm": 2, "gru": 2, "ctgru": 3,
    "mixed": 4,
}  # fmt: skip


@pytest.mark.parametrize("shape", [(4, 4), (3, 7), (2, 9, 5)])
def test_all_singular_values_come_near_one(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    given = torch.randn(shape)
    found = orthogonal(given)
    values = torch.linalg.svdvals(found)
    assert 0.5 < values.min() <= values.max() < 1.3
    left, _, right = torch.linalg.svd(given, full_matrices=False)
    assert torch.nn.functional.cosine_similarity(found.flatten(), (left @ right).flatten(), dim=0) > 0.97
    assert not orthogonal(torch.zeros(shape)).any()


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_names_the_weights_of_its_linear_maps(name: str) -> None:
    cell: Cell = CELLS[name]()
    found = linear_weights(cell)
    assert len(found) == NUMBERS.get(name, 0)
    for one in found:
        assert isinstance(one, LinearWeights)
        matrices = one.matrices(one.parameter.detach())
        assert matrices.shape == one.shape
        assert torch.equal(one.values(matrices), one.parameter)
        assert int((matrices != 0).sum()) == one.parameter.numel()


def test_the_matrices_are_those_that_the_cell_computes_with() -> None:
    for cell in (nc.CfC(6, PLAN), nc.DualLTC(6, PLAN), nc.NeuralLTC(6, PLAN)):
        constants = cell.constants()
        sensory, recurrent = (one.matrices(one.parameter.detach()) for one in linear_weights(cell))
        one, other = (
            (constants.sensory, constants.recurrent)
            if isinstance(cell, nc.CfC | nc.DualLTC)
            else (constants.gamma, constants.gamma_r)
        )
        assert torch.equal(sensory, one.values.detach().reshape(6, -1, 12).transpose(0, 1))
        assert torch.equal(recurrent, other.values.detach().reshape(12, -1, 12).transpose(0, 1))


def test_the_first_step_of_each_kind() -> None:
    torch.manual_seed(0)
    cell = nc.CfC(6, PLAN)
    before = {name: value.detach().clone() for name, value in cell.named_parameters()}
    optimizer = Muon(cell, lr=0.1, weight_decay=0.5)
    gradients = {name: torch.randn_like(value) for name, value in cell.named_parameters()}
    for name, value in cell.named_parameters():
        value.grad = gradients[name].clone()
    optimizer.step()
    weights = linear_weights(cell)[1]
    moved = before["weight"] * 0.95 - 0.1 * 0.2 * 12**0.5 * weights.values(
        orthogonal(weights.matrices(gradients["weight"]))
    )
    torch.testing.assert_close(cell.weight.detach(), moved)
    torch.testing.assert_close(
        cell.bias.detach(), before["bias"] * 0.95 - 0.1 * gradients["bias"].sign(), atol=1e-5, rtol=0
    )


def test_the_momentum_remembers_and_a_state_can_be_loaded() -> None:
    def make() -> tuple[nn.Module, Muon]:
        torch.manual_seed(1)
        model = nn.Sequential(nc.RNN(nc.NeuralLTC(4, PLAN)).cell, nn.Linear(3, 2))
        return model, Muon(model, lr=0.01)

    def step(model: nn.Module, optimizer: Muon, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for value in model.parameters():
            value.grad = torch.randn(value.shape, generator=generator)
        optimizer.step()

    whole, parted, fresh = make(), make(), make()
    for seed in range(4):
        step(*whole, seed)
    step(*parted, 0)
    step(*parted, 1)
    model, optimizer = make()
    model.load_state_dict(parted[0].state_dict())
    optimizer.load_state_dict(parted[1].state_dict())
    fresh[0].load_state_dict(parted[0].state_dict())
    for seed in (2, 3):
        step(model, optimizer, seed)
        step(*fresh, seed)
    for one, other, forgetful in zip(whole[0].parameters(), model.parameters(), fresh[0].parameters(), strict=True):
        assert torch.equal(one, other)
        assert not torch.equal(one, forgetful)


def test_a_parameter_without_a_gradient_stays_and_a_closure_is_refused() -> None:
    layer = nn.Linear(3, 2)
    optimizer, before = Muon(layer, lr=0.1, weight_decay=0.1), layer.weight.detach().clone()
    optimizer.step()
    assert torch.equal(layer.weight, before)
    with pytest.raises(ValueError, match="compute the gradients first"):
        optimizer.step(lambda: 0.0)


def test_a_state_goes_where_the_parameters_are() -> None:
    """All of it: a count of steps on the CPU would be raised to powers there, which rounds otherwise than a GPU."""
    here, there = nn.Linear(3, 2), nn.Linear(3, 2, device="meta")
    optimizers = [Muon(model, lr=0.1) for model in (here, there)]
    here(torch.ones(3)).sum().backward()
    optimizers[0].step()
    optimizers[1].load_state_dict(optimizers[0].state_dict())
    kept = [value for state in optimizers[1].state.values() for value in state.values()]
    assert len(kept) == 4
    assert {value.device.type for value in kept} == {"meta"}
