"""How long are the paths of random liquid networks? Figures 2 and 3 of the LTC paper, and Theorems 4 and 5.

Networks with random weights read an input that goes once round a circle. The paper takes the length of the path of
their states, in the plane of the first two principal components, as a measure of what they can express. The length is
measured against layers, width, variance of the weights, activation and solver, for Neural ODEs, CT-RNNs and LTCs that
share their weights.

Example: python -m scripts.paper.trajectory --out runs/paper/trajectory
"""

from __future__ import annotations

import sys

import numpy as np

from scripts.paper.common.random_networks import KINDS
from scripts.paper.common.report import Report, Settings, run_report
from scripts.paper.trajectory.expressivity import Grid, cases, exponent, growth, measure_all
from scripts.paper.trajectory.figures import draw_bounds, draw_lengths, draw_paths
from scripts.paper.trajectory.observations import observations

HEAD = ("network", "activation", "length", "std", "growth a layer", "power of width", "power of variance", "second lap")
FULL = Grid(layers=8, widths=(10, 25, 50, 100, 200, 400), variances=(0.5, 1.0, 2.0, 4.0, 8.0, 16.0), seeds=20)
NOTES = (
    "Lengths are medians over seeds, of the first layer, 100 neurons, sigma_w^2 2, sigma_b^2 1; the std is over seeds. "
    "The paper gives no numbers beside its pictures, so its statements are compared with the trends.",
    "The paper does not say how its layers are joined: here each reads the state of the one below and its own, and "
    "1 / tau is |N(0, sigma_b^2)|, as in its proof. States start at zero, so the first lap includes the way to the "
    "orbit; the last column is the second lap's length.",
    "Two other set-ups give the same verdicts: tau drawn instead of 1 / tau, and weights scaled by the input's size.",
    "Adams-Bashforth-Moulton and TR-BDF2 have no counterpart in scipy: LSODA (Adams and BDF), Radau and BDF stand for "
    "them.",
    "The bounds of the theorems leave a constant open: each is drawn through its model's first length.",
)


def make(settings: Settings) -> Report:
    """Measures the lengths and writes the report."""
    grid = FULL if settings.full else Grid()
    found = measure_all(grid, settings.seed)
    rows = [
        (
            KINDS[kind],
            activation,
            float(np.nanmedian(lengths.layer[0])),
            float(np.nanstd(lengths.layer[0])),
            growth(lengths.layer),
            exponent(grid.widths, lengths.width),
            exponent(grid.variances, lengths.variance),
            float(np.nanmedian(lengths.second_lap)),
        )
        for (kind, activation), lengths in ((case, found[case]) for case in cases())
    ]
    figures = {"lengths": draw_lengths(found, grid), "bounds": draw_bounds(found, grid)}
    for activation in ("hard_tanh", "sigmoid"):
        figures[f"paths_{activation}"] = draw_paths(activation, settings.seed * 1000)
    return Report("Length of latent paths", HEAD, rows, observations(found, grid), NOTES, figures)


if __name__ == "__main__":
    sys.exit(run_report("trajectory", __doc__, Settings, make))
