"""NeuralLTC, CTRNN and NeuralODE as data for a laboratory."""

from __future__ import annotations

from typing import Any

import torch

from ncp_control.base.pages import packed
from ncp_control.neurons.affine.neuron import AffineODECell
from ncp_control.neurons.page import exact, numbers, solver_data
from ncp_control.neurons.parameters import positive


def affine_data(cell: AffineODECell) -> dict[str, Any]:
    """Returns the weights of a NeuralLTC, a CTRNN or a NeuralODE, and the leak `1 / tau`, which is 0 without one."""
    raw = cell.raw_tau()
    leak = torch.zeros(cell.units) if raw is None else 1 / positive(exact(raw))
    return {
        **solver_data(cell),
        "activation": cell.activation,
        "liquid": cell.liquid,
        "signed": cell.signed,
        "leak": packed(leak.double()),
        **{name: numbers(getattr(cell, name)) for name in ("gamma", "gamma_r", "mu", "A")},
    }
