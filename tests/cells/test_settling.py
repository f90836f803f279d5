"""What the initialisation "settled" of an LTC promises: thresholds where sources are, and outputs of a fair size."""

from __future__ import annotations

import pytest
import torch

import ncp_control as nc


def run(cell: nc.LTC) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the outputs and the states of many rows of constant, standardised inputs, after fifty steps."""
    inputs = torch.randn(400, 1, cell.inputs).expand(-1, 50, -1)
    with torch.no_grad():
        outputs, _, states = nc.RNN(cell)(inputs, states=True)
    return outputs[:, -1], states[:, -1]


@pytest.mark.parametrize("plan", [nc.AutoNCP(40, 16), 12, nc.GapJunctions(nc.FullyConnected(9), 6)])
def test_settled_outputs_vary_about_zero(plan: object) -> None:
    torch.manual_seed(0)
    outputs, _ = run(nc.LTC(4, plan, init="settled"))  # type: ignore[arg-type]
    assert outputs.mean(0).abs().max() < 0.7
    assert outputs.std(0).min() > 1.0
    assert outputs.std(0).max() < 3.0


def test_settled_thresholds_lie_where_their_sources_are() -> None:
    torch.manual_seed(0)
    cell = nc.LTC(4, nc.AutoNCP(40, 16), init="settled")
    _, states = run(cell)
    source = states[:, cell.source]
    away = (cell.mu.detach() - source.mean(0)) / source.std(0)
    assert away.abs().median() < 1.0
    assert away.abs().max() < 2.0


def test_a_settled_cell_keeps_its_bounds() -> None:
    torch.manual_seed(0)
    cell = nc.LTC(3, nc.AutoNCP(20, 4), init="settled")
    low, high = cell.state_bounds()
    _, _, states = nc.RNN(cell)(100 * torch.randn(8, 30, 3), states=True)
    assert cell.guarantee
    assert (states >= low - 1e-5).all()
    assert (states <= high + 1e-5).all()


def test_without_an_output_map_only_thresholds_settle() -> None:
    cell = nc.LTC(3, 5, init="settled", output_map="none")
    assert cell.output_scale is None
    assert nc.LTC(3, 5, init="settled", output_map="linear").output_shift is None
