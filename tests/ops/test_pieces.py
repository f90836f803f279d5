"""A scan in pieces: the same as the whole scan up to rounding, for cells that forget and for those that do not."""

from typing import Any

import pytest
import torch
from torch import Tensor

import ncp_control as nc
from helpers.cells import build
from ncp_control.neurons import DualLTC, NeuralODE
from ncp_control.ops import dispatch, explain_backends, pieces, scan
from ncp_control.wiring import NCP, FullyConnected

CASCADE = NCP(6, 4, 3, sensory_fanout=4, inter_fanout=3, recurrent_command=0, motor_fanin=3, recurrent_inter=0)
# One cell of each kind. None with an adaptive solver, which chooses its steps for all rows at once.
CELLS = (
    "ltc-gaps", "neural-ltc-signed", "ctrnn-fused", "cfc-default", "dual", "ct-gru-scales", "lstm", "lagged-mlp",
    "mixed-ltc",
)  # fmt: skip
CLOSE = {"rtol": 1e-9, "atol": 1e-9}  # in float64, where the reference adds up many rows in another order than few


def drawn(cell: Any, batch: int, time: int) -> dict[str, Tensor]:
    """Everything that a scan can be given."""
    draw = torch.Generator().manual_seed(0)

    def random(*shape: int) -> Tensor:
        return torch.rand(shape, generator=draw, dtype=torch.float64)

    return {
        "inputs": 2 * random(batch, time, cell.inputs) - 1,
        "state": random(batch, cell.state_size) - 0.5,
        "elapsed": 0.1 + random(batch, time),
        "reset": random(batch, time) < 0.1,
        "mask": random(batch, time) < 0.8,
    }


def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Returns a list that grows by the rows and steps of every run on a backend."""
    found: list[tuple[int, int]] = []
    run = dispatch._run_on

    def counting(problem: Any, name: str) -> Tensor:
        found.append(tuple(problem.inputs.shape[:2]))
        return run(problem, name)

    monkeypatch.setattr(dispatch, "_run_on", counting)
    return found


@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize("name", CELLS)
def test_pieces_give_the_states_of_the_whole_scan(name: str, backend: str) -> None:
    cell = build(name, torch.float64)
    with torch.no_grad():
        for batch, time, count in ((2, 19, 3), (1, 5, 5), (3, 4, 9)):
            given = drawn(cell, batch, time)
            for left_out in ((), ("reset", "mask"), ("state", "elapsed", "reset")):
                some = {key: value for key, value in given.items() if key not in left_out}
                whole = scan(cell, **some, backend=backend)
                found = scan(cell, **some, backend=backend, parallel=count)
                assert found.shape == whole.shape
                torch.testing.assert_close(found, whole, **CLOSE)


@pytest.mark.parametrize("name", CELLS)
def test_gradients_reach_back_through_the_seams(name: str) -> None:
    """Pieces that miss one another at first run again, and then every gradient is that of the whole scan."""
    cell = build(name, torch.float64)
    given = drawn(cell, 2, 8)
    weights = torch.rand(2, 8, cell.state_size, dtype=torch.float64)
    found = []
    for parallel in (False, 4):
        leaves = [given["inputs"].requires_grad_(), given["state"].requires_grad_(), *cell.parameters()]
        states = scan(cell, **given, parallel=parallel)
        found.append(torch.autograd.grad((states * weights).sum(), leaves, allow_unused=True))
    for whole, cut in zip(*found, strict=True):
        if whole is not None:
            torch.testing.assert_close(cut, whole, rtol=1e-6, atol=1e-6)


def test_a_cell_that_forgets_runs_once_after_a_fourth_of_each_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = DualLTC(3, CASCADE, time_constants=(0.05, 0.5)).double()
    inputs, found = torch.randn(2, 400, 3).double(), counted(monkeypatch)
    with torch.no_grad():
        scan(cell, inputs, parallel=4)
        assert found == [(8, 25), (8, 100)]


def test_an_integrator_runs_its_pieces_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = NeuralODE(1, 1, activation="hard_tanh").double()
    with torch.no_grad():
        cell.gamma.fill_(0.1), cell.gamma_r.zero_(), cell.mu.zero_()
        inputs = torch.ones(1, 40, 1).double()
        whole, found = scan(cell, inputs), counted(monkeypatch)
        torch.testing.assert_close(scan(cell, inputs, parallel=4), whole, rtol=1e-12, atol=0)
    assert found == [(4, 2), (4, 10), (4, 10), (1, 10), (1, 10)]
    assert whole[0, -1, 0] > 3


def excited() -> Any:
    """A neuron that holds at zero only while nothing pushes it, and keeps for ever where a push has sent it."""
    cell = DualLTC(1, FullyConnected(1), time_constants=(0.05, 50.0), brake=False)
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.zero_()
        cell.weight[0].fill_(2.0), cell.sensory_weight[0].fill_(1.0), cell.bias[1].fill_(-20.0)
    return cell


@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize("recorded", [False, True])
def test_a_circuit_that_does_not_forget_ends_where_the_whole_scan_does(backend: str, recorded: bool) -> None:
    cell, inputs = excited(), torch.zeros(2, 1_000, 1)
    inputs[0, 5:8], inputs[1, 9:12] = 1e-4, -1e-4
    with torch.set_grad_enabled(recorded):
        whole = scan(cell, inputs, backend=backend)
        for pieces in (4, 64):
            torch.testing.assert_close(scan(cell, inputs, backend=backend, parallel=pieces), whole)
    assert whole[0, -1, 0] > 0.9 > -0.9 > whole[1, -1, 0]


def test_errors_do_not_add_up_over_the_seams() -> None:
    cell = NeuralODE(1, 1, activation="hard_tanh")
    with torch.no_grad():
        cell.gamma.fill_(3e-7), cell.gamma_r.zero_(), cell.mu.zero_()
        inputs = torch.ones(1, 10_000, 1)
        whole = scan(cell, inputs)
        assert whole[0, -1, 0] > 1e-3
        torch.testing.assert_close(scan(cell, inputs, parallel=1_000), whole, rtol=1e-5, atol=0)


def test_gradients_of_a_circuit_that_does_not_forget_reach_its_first_step() -> None:
    cell = excited().double()
    inputs = torch.zeros(1, 600, 1).double()  # which leave the state at zero, so that no seam differs
    found = []
    for parallel in (False, 6):
        leaf = inputs.clone().requires_grad_()
        states = scan(cell, leaf, reset=torch.arange(600)[None] == 300, parallel=parallel)
        found.append(torch.autograd.grad(states[0, [200, 599]].sum(), [leaf, *cell.parameters()], allow_unused=True))
    assert found[0][0][0, 0, 0] > 10 * found[0][0][0, 199, 0] > 0
    for whole, cut in zip(*found, strict=True):
        if whole is not None:
            torch.testing.assert_close(cut, whole, rtol=1e-9, atol=0)


def test_second_derivatives_are_refused_and_transforms_see_the_whole_scan() -> None:
    cell, inputs = nc.CfC(2, 3).double(), torch.randn(1, 20, 2).double().requires_grad_()
    with pytest.raises(RuntimeError, match="no second derivatives: run the whole one, with parallel=False"):
        torch.autograd.grad(scan(cell, inputs, parallel=4).sum(), inputs, create_graph=True)

    def summed(values: Tensor, parallel: int) -> Tensor:
        return scan(cell, values, backend="reference", parallel=parallel).sum()

    whole, cut = (torch.func.grad(summed)(inputs.detach(), parallel) for parallel in (0, 4))
    assert torch.equal(cut, whole)


def test_a_sequence_that_is_not_a_number_from_some_step_on_comes_out_the_same() -> None:
    cell = build("ltc-sparse", torch.float64)
    inputs = drawn(cell, 1, 30)["inputs"]
    inputs[0, 13] = torch.nan
    with torch.no_grad():
        whole = scan(cell, inputs)
        torch.testing.assert_close(scan(cell, inputs, parallel=5), whole, equal_nan=True, **CLOSE)
    assert whole[0, 20].isnan().any()


@pytest.mark.parametrize("parallel", [True, 4])
@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_no_rows_come_out_as_no_rows(backend: str, parallel: bool | int) -> None:
    cell = nc.LTC(3, 8)
    inputs = torch.zeros(0, 300, 3, requires_grad=True)
    for whole, cut in zip(nc.RNN(cell, backend)(inputs), nc.RNN(cell, backend, parallel)(inputs), strict=True):
        assert cut.shape == whole.shape
        assert cut.shape[0] == 0
    assert scan(cell, inputs, backend=backend, parallel=parallel).shape == (0, 300, 8)


def test_true_takes_as_many_pieces_as_the_processor_has_lanes_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = DualLTC(3, CASCADE)
    inputs = torch.zeros(2, 4096, 3)
    if not explain_backends(cell, inputs)["cpu"][0]:
        pytest.skip("no compiled kernels")
    monkeypatch.setattr(pieces.library, "vector_bytes", lambda: 32)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    for backend, dtype, time, wanted in (
        ("cpu", torch.float32, 4096, (24, 2048 // 6)),
        ("cpu", torch.float64, 4096, (12, 4096 // 6)),
        ("cpu", torch.float32, 200, (6, 67)),  # no piece is shorter than 64 steps
        ("cpu", torch.float32, 127, (2, 127)),
        ("reference", torch.float32, 4096, (64, 128)),
    ):
        found = counted(monkeypatch)
        with torch.no_grad():
            scan(cell.to(dtype), inputs[:, :time].to(dtype), backend=backend, parallel=True)
        assert found[-1][0] == wanted[0]
        assert found[-1][1] - wanted[1] in (0, 1)
        monkeypatch.undo()
        monkeypatch.setattr(pieces.library, "vector_bytes", lambda: 32)
        monkeypatch.setattr(torch, "get_num_threads", lambda: 3)


def test_a_network_in_pieces_is_used_as_any_other() -> None:
    cell = DualLTC(3, CASCADE)
    whole, cut = nc.RNN(cell), nc.RNN(cell, parallel=3)
    inputs = torch.randn(2, 50, 3)
    for given in (inputs, inputs[0], inputs[:, :0], inputs[:, :1]):
        for one, other in zip(cut(given, states=True), whole(given, states=True), strict=True):
            torch.testing.assert_close(one, other)
    assert "parallel=3" in repr(cut)
    assert "parallel" not in repr(whole)
    torch.compiler.reset()
    compiled = torch.compile(cut, backend="eager", fullgraph=True)
    assert torch.equal(compiled(inputs)[0], whole(inputs)[0])  # a trace is the whole scan


@pytest.mark.parametrize("parallel", [-1, 2.0, "yes", None])
def test_what_is_no_number_of_pieces_is_refused(parallel: Any) -> None:
    with pytest.raises(ValueError, match="parallel is true, false or a number of pieces, got"):
        nc.RNN(DualLTC(3, CASCADE), parallel=parallel)
    if parallel is not None:
        with pytest.raises(ValueError, match="parallel is true, false or a number of pieces, got"):
            scan(DualLTC(3, CASCADE), torch.zeros(1, 4, 3), parallel=parallel)
