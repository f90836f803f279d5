"""A CTGRU as data for a laboratory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ncp_control.base.pages import packed
from ncp_control.neurons.ct_gru.neuron import CTGRU
from ncp_control.neurons.page import layer_data


def ct_gru_data(cell: CTGRU) -> dict[str, Any]:
    """Returns the time scales and the three maps of a CT-GRU."""
    tau = 10 ** (np.arange(cell.scales) / 2)
    layers = {name: layer_data(getattr(cell, name)) for name in ("retrieve", "detect", "store")}
    return {"tau": packed(tau), "logTau": packed(np.log(tau)), **layers}
