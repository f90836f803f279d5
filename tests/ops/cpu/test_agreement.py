"""The compiled CPU scan against the reference: outputs and every gradient, on every machine level."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch

import ncp_control as nc
from helpers.cells import build, compiled
from helpers.scans import TOLERANCE, assert_close, only_wanted, outputs_and_gradients, sequences
from helpers.scans import compare as compare_with
from ncp_control.ops.cpu import launch
from ncp_control.ops.cpu.backend import available

pytestmark = pytest.mark.skipif(not available()[0], reason=available()[1])

compare = partial(compare_with, partial(outputs_and_gradients, "cpu"))
ODD = ["ltc-gaps-wide", "neural-ltc-wide", "neural-ode-wide", "cfc-wide", "lstm-wide", "gru-wide", "ct-gru-scales-wide"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("name", compiled(launch.KINDS))
def test_every_cell_agrees_with_the_reference(name, dtype, level, poisoned):
    compare(build(name), 19, 11, dtype)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("time", [1, 3, 17])
@pytest.mark.parametrize("batch", [1, 3, 17, 33, 130])
@pytest.mark.parametrize("name", ODD)
def test_odd_sizes(name, batch, time, threads, poisoned, monkeypatch):
    monkeypatch.setattr(launch, "threads_for", lambda program, inputs: threads)
    compare(build(name), batch, time, torch.float32)
    compare(build(name), batch, time, torch.float64)


@pytest.mark.parametrize("batch", [1, 3, 17, 33])
@pytest.mark.parametrize("name", ["neural-ode-wide", "ct-gru-scales-wide"])
def test_odd_batches_on_every_level(name, batch, level, poisoned):
    for dtype in TOLERANCE:
        compare(build(name), batch, 5, dtype)


@pytest.mark.parametrize("batch", [1, 2, 5])
@pytest.mark.parametrize("name", ["ltc-gaps-wide", "ltc-euler-wide", "ltc-no-maps-wide"])
def test_a_few_rows_without_gradients(name, batch, level, poisoned):
    for dtype, tolerance in TOLERANCE.items():
        cell = build(name, dtype)
        tensors = sequences(cell, batch, 9, dtype)
        with torch.no_grad():
            ours, want = (nc.scan(cell, *tensors, backend=backend) for backend in ("cpu", "reference"))
        assert (ours - want).abs().max() < tolerance * want.abs().max()


TIMED = ["ltc-wide", "neural-ltc-wide", "neural-ltc-rk4-wide", "cfc-wide", "cfc-pure-wide"]
TIMED += ["lstm-wide", "gru-wide", "ct-gru-wide"]


@pytest.mark.parametrize("time_dims", [0, 1, 2])
@pytest.mark.parametrize("flags", [True, False])
@pytest.mark.parametrize("name", TIMED)
def test_every_form_of_elapsed(name, time_dims, flags):
    compare(build(name), 18, 5, torch.float64, time_dims, flags)


@pytest.mark.parametrize("name", ["ltc-wide", "neural-ode-wide", "lstm-wide", "gru-wide", "ct-gru-wide"])
def test_empty_batches_and_sequences(name):
    cell = build(name)
    for batch, time in ((0, 4), (4, 0), (0, 0)):
        inputs = torch.randn(batch, time, 5, requires_grad=True)
        states = nc.scan(cell, inputs, backend="cpu")
        assert states.shape == (batch, time, cell.state_size)
        grads = torch.autograd.grad(states.sum(), [inputs, *cell.parameters()], materialize_grads=True)
        assert grads[0].shape == inputs.shape
        for grad, parameter in zip(grads[1:], cell.parameters(), strict=True):
            assert torch.equal(grad, torch.zeros_like(parameter))


SHAPED = ["ltc-wide", "neural-ltc-tanh-wide", "neural-ode-wide", "cfc-wide", "lstm-wide", "gru-wide", "ct-gru-wide"]


@pytest.mark.parametrize("name", SHAPED)
def test_non_contiguous_inputs(name):
    cell = build(name)
    inputs = torch.randn(cell.inputs, 7, 20).permute(2, 1, 0)
    state = torch.randn(cell.state_size, 20).t()
    elapsed, reset = torch.rand(7, 20).t() + 0.1, (torch.rand(7, 20) < 0.2).t()
    for tensor in (inputs, state, elapsed):
        assert not tensor.is_contiguous()
        tensor.requires_grad_()
    tensors = (inputs, state, elapsed, reset, None)
    weights = torch.randn(cell.state_size, 7, 20).permute(2, 1, 0)
    reference = outputs_and_gradients("reference", cell, tensors, weights)
    assert_close(outputs_and_gradients("cpu", cell, tensors, weights), reference, 1e-5)


GATED = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
SUBSETS = {
    "ltc-wide": ("inputs", "state", "elapsed", "mu", "E", "sensory_w_raw", "input_scale"),
    "lstm-wide": ("inputs", "state", *GATED),
    "gru-wide": ("inputs", "state", *GATED),
    "neural-ltc-rk4-wide": ("inputs", "state", "elapsed", "gamma", "gamma_r", "mu", "tau_raw", "A"),
    "ct-gru-wide": ("inputs", "state", "elapsed", *dict(build("ct-gru-wide").named_parameters())),
}


@pytest.mark.parametrize(("name", "wanted"), [(name, wanted) for name, subset in SUBSETS.items() for wanted in subset])
def test_any_subset_of_gradients(name, wanted):
    cell = build(name, torch.float64)
    tensors = sequences(cell, 5, 6, torch.float64)
    only_wanted(cell, tensors, wanted)
    weights = torch.randn(5, 6, cell.state_size, dtype=torch.float64)
    ours, want = (outputs_and_gradients(backend, cell, tensors, weights) for backend in ("cpu", "reference"))
    assert set(ours) == {"states", "outputs", wanted}
    assert_close(ours, want, 1e-10)


CHECKED = ["ltc-gaps-wide", "ltc-euler-wide", "neural-ltc-wide", "ctrnn-wide", "neural-ltc-rk4-wide", "ctrnn-rk4-wide"]
CHECKED += ["neural-ode-wide", "cfc-wide", "cfc-pure-wide", "lstm-wide", "gru-wide", "ct-gru-wide"]


@pytest.mark.parametrize("name", [*CHECKED, "ct-gru-scales-wide"])
def test_gradcheck(name):
    cell = build(name, torch.float64)
    tensors = sequences(cell, 2, 3, torch.float64)
    names = [name for name, _ in cell.named_parameters()]

    def run(inputs, state, elapsed, *parameters):
        class Scan(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = cell

            def forward(self):
                return nc.scan(self.cell, inputs, state, elapsed, *tensors[3:], backend="cpu")

        named = {f"cell.{name}": value for name, value in zip(names, parameters, strict=True)}
        return torch.func.functional_call(Scan(), named, ())

    assert torch.autograd.gradcheck(run, (*tensors[:3], *cell.parameters()), fast_mode=True)


REPRESENTATIVE = ["ltc-wide", "neural-ltc-wide", "neural-ode-wide", "cfc-wide", "lstm-wide", "gru-wide", "ct-gru-wide"]


@pytest.mark.parametrize("name", REPRESENTATIVE)
@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_call_gives_the_same_bits(name, threads, monkeypatch):
    monkeypatch.setattr(launch, "threads_for", lambda program, inputs: threads)
    cell = build(name)
    tensors, weights = sequences(cell, 70, 20, torch.float32), torch.randn(70, 20, cell.state_size)
    first, second = (outputs_and_gradients("cpu", cell, tensors, weights) for _ in range(2))
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


@pytest.mark.parametrize("name", REPRESENTATIVE)
def test_a_row_never_changes_another(name):
    cell = build(name)
    inputs, state, elapsed, reset, _ = sequences(cell, 40, 9, torch.float32)
    before = nc.scan(cell, inputs, state, elapsed, reset, backend="cpu")
    with torch.no_grad():
        changed, other = inputs.clone(), reset.clone()
        changed[7], other[7] = float("nan"), ~reset[7]
        after = nc.scan(cell, changed, state, elapsed, other, backend="cpu")
    rest = torch.arange(40) != 7
    assert torch.equal(before[rest], after[rest])
    assert after[7].isnan().any()


def test_a_reparametrised_submodule_is_read_as_it_is():
    """A normed weight is no parameter: torch computes it anew for every use."""
    cell = build("ct-gru-wide")
    torch.nn.utils.parametrizations.weight_norm(cell.detect)
    with torch.no_grad():
        cell.detect.parametrizations.weight.original0 *= 2
    compare(cell, 3, 4, torch.float64)


@pytest.mark.parametrize("name", ["lstm-wide", "gru-wide"])
def test_the_gradient_of_an_elapsed_time_that_plays_no_part_is_zero(name):
    cell = build(name)
    elapsed = torch.rand(3, 4, requires_grad=True)
    states = nc.scan(cell, torch.randn(3, 4, 5), elapsed=elapsed, backend="cpu")
    assert torch.equal(torch.autograd.grad(states.sum(), elapsed)[0], torch.zeros(3, 4))


# Numbers at the limits of a float


def test_infinite_inputs_saturate_as_in_the_reference(level):
    cell = build("ltc-wide")
    inputs = torch.tensor([float("inf"), -float("inf"), 1e30, -1e30, 0.0]).expand(20, 3, 5)
    with torch.no_grad():
        ours, want = (nc.scan(cell, inputs, backend=backend) for backend in ("cpu", "reference"))
    assert torch.isfinite(want).all()
    assert (ours - want).abs().max() < 1e-5


def test_inputs_far_from_every_scale_of_a_ct_gru(level):
    """Squares of such distances round to steps far above one; their differences must not."""
    cell = build("ct-gru-wide")
    double = copy.deepcopy(cell).double()
    inputs = 1e6 * torch.randn(20, 7, 5)
    with torch.no_grad():
        states = nc.scan(cell, inputs, backend="cpu")
        want = nc.scan(double, inputs.double(), backend="reference")
    assert (states - want).abs().max() < 1e-5


@pytest.mark.slow
def test_slow_memories_of_a_ct_gru_neither_grow_nor_drift(level):
    """An error in the decay returns in every step: it may be no larger than that of the reference in float32."""
    cell = nc.CTGRU(1, 2)
    for elapsed, event in ((1e-4, 30.0), (1e-2, 0.0)):
        with torch.no_grad():
            cell.detect.weight.zero_()
            cell.detect.bias.fill_(event)  # q = tanh(event) from the first step to the last
            state, inputs = torch.ones(1, 16), torch.zeros(1, 3000, 1)
            states = nc.scan(cell, inputs, state, elapsed, backend="cpu")
            rounded = nc.scan(cell, inputs, state, elapsed, backend="reference")
            double = copy.deepcopy(cell).double()
            want = nc.scan(double, inputs.double(), state.double(), elapsed, backend="reference")
        assert states.max() <= 1 + 1e-6
        assert (states - want).abs().max() <= 2 * (rounded - want).abs().max()
