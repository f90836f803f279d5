"""The initialisations of an LTC: for each name, the uniform ranges from which the parameters start.

A reversal potential starts at the synapse's polarity, +1 or -1, times a number from the range `E`.
"""

from __future__ import annotations

from ncp_control.cells.initial import Range

INITS: dict[str, dict[str, Range]] = {
    # the ranges of the ncps package
    "ncps": {
        "gleak": (0.001, 1.0), "vleak": (-0.2, 0.2), "cm": (0.4, 0.6), "gap": (0.001, 1.0), "E": (1.0, 1.0),
        "w": (0.001, 1.0), "sigma": (3.0, 8.0), "mu": (0.3, 0.8),
        "sensory_w": (0.001, 1.0), "sensory_sigma": (3.0, 8.0), "sensory_mu": (0.3, 0.8),
    },
    # the ranges of the authors' first code: all neurons have the same leak and the same capacitance
    "original": {
        "gleak": (1.0, 1.0), "vleak": (-0.2, 0.2), "cm": (0.5, 0.5), "gap": (0.01, 1.0), "E": (1.0, 1.0),
        "w": (0.01, 1.0), "sigma": (3.0, 8.0), "mu": (0.3, 0.8),
        "sensory_w": (0.01, 1.0), "sensory_sigma": (3.0, 8.0), "sensory_mu": (0.3, 0.8),
    },
    # the biophysical ranges of the parameter tables
    "biophysical": {
        "gleak": (0.1, 1.0), "vleak": (-1.0, 0.0), "cm": (0.1, 10.0), "gap": (0.0, 1.0), "E": (0.0, 1.0),
        "w": (0.0, 2.0), "sigma": (0.5, 5.0), "mu": (-2.0, 2.0),
        "sensory_w": (0.0, 2.0), "sensory_sigma": (0.5, 5.0), "sensory_mu": (-2.0, 2.0),
    },
    # for control: thresholds in the range of standardised inputs (about +-1) and of neurons (about +-0.5)
    "centred": {
        "gleak": (0.001, 1.0), "vleak": (-0.2, 0.2), "cm": (0.4, 0.6), "gap": (0.001, 1.0), "E": (1.0, 1.0),
        "w": (0.001, 1.0), "sigma": (3.0, 8.0), "mu": (-0.5, 0.5),
        "sensory_w": (0.001, 1.0), "sensory_sigma": (2.0, 4.0), "sensory_mu": (-1.0, 1.0),
    },
}  # fmt: skip
