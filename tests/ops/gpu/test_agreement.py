"""The Triton scan against the reference: in Triton's interpreter everywhere, and on a CUDA device where there is one.

The interpreter takes milliseconds for each step of each row, so everything here is tiny.
"""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch

import ncp_control as nc
from helpers.cells import build, compiled
from helpers.scans import assert_close, only_wanted, outputs_and_gradients, sequences
from helpers.scans import compare as compare_with
from helpers.slow_neurons import SLOW, time_constants_of_a_step
from ncp_control.ops.gpu import launch

pytest.importorskip("triton")

KINDS = ["ltc-gaps-quick", "neural-ltc-quick", "cfc-default", "dual"]
# The interpreter takes a second for each.
FAST = ("ltc-gaps", "neural-ltc-signed", "cfc-default", "dual", "ctrnn-fused")


def on(device, cell, tensors, weights):
    """The cell and its inputs on a device, leaves that want gradients where they did before."""
    moved = [None if x is None else x.detach().to(device).requires_grad_(x.requires_grad) for x in tensors]
    return copy.deepcopy(cell).to(device), moved, weights.to(device)


def run(device, cell, tensors, weights):
    """States and gradients of the Triton scan, brought back to the CPU."""
    found = outputs_and_gradients("gpu", *on(device, cell, tensors, weights))
    return {name: value.cpu() for name, value in found.items()}


def compare(device, *problem):
    """Holds the Triton scan on a device to the reference."""
    compare_with(partial(run, device), *problem)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in FAST else pytest.mark.system)
        for name in compiled(launch.kinds(), wide=False)
    ],
)
def test_every_cell_agrees_with_the_reference(name, dtype, device, poisoned):
    compare(device, build(name), 3, 2, dtype)


@SLOW
def test_a_slow_neuron_moves_by_its_time_constant_in_float32(tau, elapsed, device):
    assert time_constants_of_a_step(tau, elapsed, "gpu", device) == pytest.approx((tau, tau), rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "batch", "time"),
    [
        *((lambda: nc.LTC(2, 3, unfolds=1), *size) for size in [(1, 1), (1, 33), (3, 17), (17, 3), (33, 1)]),
        *((lambda: nc.CTRNN(1, 3, unfolds=1), *size) for size in [(1, 17), (33, 1)]),
        *((lambda: nc.CfC(1, 3), *size) for size in [(1, 33), (17, 3)]),
        (lambda: nc.CTRNN(70, nc.AutoNCP(70, 2), unfolds=1), 1, 2),
    ],
)
def test_odd_sizes(make, batch, time, device, poisoned):
    compare(device, make(), batch, time, torch.float64)


@pytest.mark.gpu
@pytest.mark.timeout(900)  # a CfC of 160 neurons in float64 takes a minute to compile on an idle processor
@pytest.mark.parametrize("name", ["LTC", "NeuralLTC", "CTRNN", "CfC", "DualLTC"])
@pytest.mark.parametrize("plan", [32, 64, nc.AutoNCP(40, 16), nc.AutoNCP(64, 8), nc.AutoNCP(160, 10)], ids=repr)
@pytest.mark.parametrize(("batch", "time"), [(17, 33), (600, 5)])
def test_cells_of_real_size(name, plan, batch, time, poisoned):
    """Only compiled: several warps for a program, several rows for each program, tables that spill."""
    for dtype in (torch.float32, torch.float64):
        compare("cuda", getattr(nc, name)(17, plan), batch, time, dtype)


@pytest.mark.gpu
@pytest.mark.parametrize("units", [5, 33, 40, 66, 80])
def test_dense_cfcs_that_once_did_not_compile(units, poisoned):
    compare("cuda", nc.CfC(5, units), 17, 5, torch.float32)


@pytest.mark.parametrize("flags", [True, False])
@pytest.mark.parametrize("time_dims", [0, 1, 2])
@pytest.mark.parametrize("name", KINDS)
def test_every_form_of_elapsed(name, time_dims, flags, device):
    compare(device, build(name), 2, 2, torch.float64, time_dims, flags)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("programs", [1, 2, 9])
def test_any_number_of_programs_shares_the_rows(name, programs, device, poisoned, monkeypatch):
    monkeypatch.setattr(launch, "backward_programs", lambda device, registers: programs)
    compare(device, build(name), 5, 2, torch.float64)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_inputs_of_any_float_type_are_computed_in_the_cells_type(dtype, device):
    cell = build("ltc-gaps-quick").to(device)
    inputs = torch.randn(2, 2, 3, device=device).to(dtype)
    states = nc.scan(cell, inputs, backend="gpu")
    assert states.dtype == torch.float32
    assert torch.equal(states, nc.scan(cell, inputs.float(), backend="gpu"))


def test_a_number_for_elapsed_and_the_initial_state(device):
    cell = build("ltc-gaps-quick").double().to(device)
    inputs = torch.randn(2, 3, 3, dtype=torch.float64, device=device)
    for elapsed in (1.0, 0.3):
        want = nc.scan(cell, inputs, elapsed=elapsed, backend="reference")
        assert torch.allclose(nc.scan(cell, inputs, elapsed=elapsed, backend="gpu"), want, rtol=0, atol=1e-12)


def test_empty_batches_and_sequences(device):
    cell = build("ltc-gaps-quick").to(device)
    for batch, time in ((0, 4), (4, 0), (0, 0)):
        inputs = torch.randn(batch, time, 3, device=device, requires_grad=True)
        states = nc.scan(cell, inputs, backend="gpu")
        assert states.shape == (batch, time, cell.state_size)
        grads = torch.autograd.grad(states.sum(), [inputs, cell.mu])
        assert grads[0].shape == inputs.shape
        assert (grads[1] == 0).all()


@pytest.mark.parametrize("name", KINDS)
def test_non_contiguous_inputs(name, device):
    cell = build(name).double().to(device)
    inputs = torch.randn(cell.inputs, 2, 3).double().to(device).permute(2, 1, 0)
    state = torch.randn(cell.state_size, 3).double().to(device).t()
    elapsed, reset = torch.rand(2, 3).double().to(device).t() + 0.1, (torch.rand(2, 3) < 0.2).to(device).t()
    for tensor in (inputs, state, elapsed):
        assert not tensor.is_contiguous()
        tensor.requires_grad_()
    tensors = (inputs, state, elapsed, reset, reset.logical_not())
    weights = torch.randn(cell.state_size, 2, 3).double().to(device).permute(2, 1, 0)
    ours, want = (outputs_and_gradients(backend, cell, tensors, weights) for backend in ("gpu", "reference"))
    assert_close(ours, want, 1e-10)


@pytest.mark.system
@pytest.mark.parametrize("wanted", ["inputs", "state", "elapsed", "mu", "gap_raw", "input_scale"])
def test_any_subset_of_gradients(wanted, device):
    cell = build("ltc-gaps-quick").double().to(device)
    tensors = on(device, cell, sequences(cell.cpu(), 2, 2, torch.float64), torch.zeros(()))[1]
    cell.to(device)
    only_wanted(cell, tensors, wanted)
    weights = torch.randn(2, 2, cell.state_size, dtype=torch.float64).to(device)
    ours, want = (outputs_and_gradients(backend, cell, tensors, weights) for backend in ("gpu", "reference"))
    assert set(ours) == {"states", "outputs", wanted}
    assert_close(ours, want, 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_the_same_call_gives_the_same_bits(name, device):
    cell = build(name)
    tensors, weights = sequences(cell, 3, 2, torch.float32), torch.randn(3, 2, cell.state_size)
    first, second = (run(device, cell, tensors, weights) for _ in range(2))
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_row_never_changes_another(name, device):
    cell = build(name).to(device)
    inputs, state, elapsed, reset, _ = (x.detach().to(device) for x in sequences(cell.cpu(), 5, 3, torch.float32))
    cell.to(device)
    with torch.no_grad():
        before = nc.scan(cell, inputs, state, elapsed, reset, backend="gpu")
        changed, other = inputs.clone(), reset.clone()
        changed[2], other[2] = float("nan"), ~reset[2]
        after = nc.scan(cell, changed, state, elapsed, other, backend="gpu")
    rest = torch.arange(5) != 2
    assert torch.equal(before[rest], after[rest])
    assert after[2].isnan().any()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ltc-gaps-quick", "ltc-uneven"])
def test_infinite_inputs_saturate_as_in_the_reference(name, device):
    cell = build(name).to(device)
    inputs = torch.tensor([float("inf"), -float("inf"), 1e30, -1e30, 0.0], device=device)[:, None, None].expand(5, 2, 3)
    inputs = inputs.clone().requires_grad_()
    ours, want = (nc.scan(cell, inputs, backend=backend) for backend in ("gpu", "reference"))
    assert torch.isfinite(want).all()
    assert (ours - want).abs().max() < 1e-5
    ours, want = (torch.autograd.grad(states.sum(), inputs)[0] for states in (ours, want))
    assert torch.isfinite(want).all()
    assert (ours - want).abs().max() < 1e-5


def test_a_backward_pass_after_inference_mode(device):
    cell = build("ltc-gaps-quick").to(device)
    inputs = torch.randn(1, 2, 3, device=device)
    with torch.inference_mode():
        nc.scan(cell, inputs, elapsed=0.77, backend="gpu")
    nc.scan(cell, inputs, elapsed=0.77, backend="gpu").sum().backward()
    assert cell.mu.grad.abs().sum() > 0


def test_double_backward_is_refused(device):
    cell = build("ltc-gaps-quick").to(device)
    inputs = torch.randn(1, 2, 3, device=device, requires_grad=True)
    (grad,) = torch.autograd.grad(nc.scan(cell, inputs, backend="gpu").square().sum(), inputs, create_graph=True)
    with pytest.raises(RuntimeError, match="compiled scans have no second derivative"):
        grad.sum().backward()
