"""Which backend runs a scan, and why another one does not."""

from __future__ import annotations

import re

import pytest
import torch

import ncp_control as nc
from helpers.cells import ZOO, build
from ncp_control.ops import BACKENDS, available_backends, explain_backends
from ncp_control.ops.cpu.backend import available

needs_compiled = pytest.mark.skipif(not available()[0], reason=available()[1])


def test_backends_are_listed_explained_and_never_guessed() -> None:
    cell, inputs = build("ltc-sparse"), torch.zeros(2, 5, 3)
    for answers in (available_backends(), explain_backends(cell, inputs)):
        assert list(answers) == list(BACKENDS)
        for able, reason in answers.values():
            assert isinstance(able, bool)
            assert len(reason) > 5
    assert explain_backends(cell, inputs)["reference"][0]
    with pytest.raises(ValueError, match=r"unknown backend 'cuda': choose 'auto' or one of .*reference"):
        nc.RNN(cell, backend="cuda")
    with pytest.raises(ValueError, match=r"unknown backend 'fast'"):
        nc.scan(cell, inputs, backend="fast")
    with pytest.raises(ValueError, match="4 features, but the cell was built for 3"):
        explain_backends(cell, torch.zeros(2, 5, 4))


@pytest.mark.parametrize("name", ZOO)
def test_a_backend_that_cannot_run_a_cell_says_why(name: str) -> None:
    cell = build(name)
    inputs = torch.randn(2, 3, cell.inputs)
    for backend, (able, reason) in explain_backends(cell, inputs).items():
        rnn = nc.RNN(cell, backend)
        if able:
            assert rnn(inputs)[0].shape == (2, 3, cell.outputs)
        else:
            with pytest.raises(RuntimeError, match=f"backend '{backend}' cannot run this scan: ") as refusal:
                rnn(inputs)
            assert reason in str(refusal.value)


@needs_compiled
def test_auto_takes_the_compiled_scan_and_an_explicit_request_never_falls_back():
    inputs = torch.randn(2, 3, 5)
    assert explain_backends(build("ltc-wide"), inputs)["cpu"][0]
    cell = nc.LTC(5, 4, solver="rk4")
    able, reason = explain_backends(cell, inputs)["cpu"]
    assert not able
    assert "no compiled form" in reason
    with pytest.raises(RuntimeError, match="backend 'cpu' cannot run this scan: LTC with these settings"):
        nc.scan(cell, inputs, backend="cpu")
    with pytest.raises(RuntimeError, match=r"float32 and float64, not for torch\.bfloat16"):
        nc.scan(build("ltc-wide").bfloat16(), inputs, backend="cpu")
    nc.scan(cell, inputs)
    for cell in (nc.NeuralODE(5, 4), nc.CTGRU(5, 4)):
        assert explain_backends(cell, inputs)["cpu"][0]
    assert not explain_backends(nc.NeuralODE(5, 4, solver="dopri5"), inputs)["cpu"][0]


@needs_compiled
def test_a_subclass_with_its_own_dynamics_is_not_run_as_its_parent():
    class Doubled(nc.LTC):
        def rate_and_drive(self, constants, sensed, state):
            rate, drive = super().rate_and_drive(constants, sensed, state)
            return rate, 2 * drive

    class Halved(nc.GRU):
        def advance(self, constants, sensed, state, elapsed):
            return super().advance(constants, sensed, state, elapsed) / 2

    class Faster(nc.CTGRU):
        @property
        def tau(self):
            return super().tau / 2

    class Driven(nc.NeuralODE):
        def rate_and_drive(self, constants, sensed, state):
            return constants.leak, 2 * self.f(constants, sensed, state)

    inputs = torch.randn(2, 3, 5)
    for cell in (Doubled(5, 4), Halved(5, 4), Faster(5, 4), Driven(5, 4)):
        assert torch.equal(nc.scan(cell, inputs), nc.scan(cell, inputs, backend="reference"))
        assert not explain_backends(cell, inputs)["cpu"][0]


@needs_compiled
def test_a_cell_that_compiled_code_cannot_read_goes_to_the_reference():
    cell = build("ltc-wide")
    inputs = torch.randn(2, 3, 5)
    cell.mu.data = cell.mu.data.double()
    able, reason = explain_backends(cell, inputs)["cpu"]
    assert not able
    assert reason == "the cell has parameters in torch.float32 and in torch.float64: convert them with cell.to(dtype)"
    elsewhere = build("ltc-wide").to("meta")
    why = "the cell is on meta and the inputs are on cpu: move one with .to(device)"
    assert explain_backends(elsewhere, inputs)["cpu"] == (False, why)
    with pytest.raises(RuntimeError, match=f"this scan cannot run: {re.escape(why)}"):
        nc.scan(elsewhere, inputs)
    with pytest.raises(ValueError, match="the state is on meta and the inputs are on cpu"):
        nc.RNN(build("ltc-wide"))(inputs, torch.zeros(2, 17, device="meta"))
