"""Every cell as an ONNX file: what onnxruntime computes is what the reference computes."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ncp_control as nc
from helpers.cells import build, names

pytestmark = pytest.mark.system

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

# A few small cells, because an export takes seconds; the slow tests go through all others.
QUICK = ("ltc-one", "gru-solitary")
BATCH, STEPS = 3, 2


def every_cell() -> list[Any]:
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in names(exact=True)]


def arguments(cell: nc.Cell, batch: int) -> dict[str, torch.Tensor]:
    return {
        "inputs": torch.randn(batch, STEPS, cell.inputs),
        "state": torch.rand(batch, cell.state_size) - 0.5,
        "elapsed": torch.rand(batch, STEPS) + 0.1,
        "reset": torch.rand(batch, STEPS) < 0.3,
        "mask": torch.rand(batch, STEPS) < 0.7,
    }


@pytest.mark.parametrize("name", every_cell())
def test_a_cell_computes_the_same_in_onnxruntime_for_any_batch(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    cell = build(name)
    rnn, given = nc.RNN(cell, backend="reference"), arguments(cell, BATCH)
    batch = {key: {0: torch.export.Dim("batch")} for key in given}
    program = torch.onnx.export(rnn, kwargs=given, dynamic_shapes=batch, dynamo=True, verbose=False)
    program.save(tmp_path / "cell.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "cell.onnx")
    read = {each.name for each in session.get_inputs()}
    assert given.keys() - read <= ({"elapsed"} if not cell.uses_elapsed else set())
    for rows in (BATCH, 5):
        given = arguments(cell, rows)
        found = session.run(None, {key: value.numpy() for key, value in given.items() if key in read})
        for ours, reference in zip(found, rnn(**given), strict=True):
            np.testing.assert_allclose(ours, reference.detach().numpy(), rtol=1e-4, atol=1e-5)
