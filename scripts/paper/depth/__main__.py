"""How many solver steps does a random liquid network need for a sample of its input? Table 2 of the LTC paper.

Networks of one layer of 100 neurons, with random weights, are integrated by Dormand-Prince with adaptive steps while
the input goes round a circle, and the steps of the solver are counted.

Example: python -m scripts.paper.depth --out runs/paper/depth
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

from ncp_control.base.pages import new_figure
from ncp_control.base.progress import tracked
from scripts.paper.common.random_networks import ACTIVATIONS, KINDS, Array, draw_network
from scripts.paper.common.report import Finding, Report, Settings, run_report
from scripts.paper.depth.solver_steps import POINTS_A_STEP, computational_depth

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PUBLISHED = {
    "tanh": ((0.56, 0.016), (4.13, 2.19), (9.19, 2.92)),
    "sigmoid": ((0.56, 0.00), (5.33, 3.76), (7.00, 5.36)),
    "relu": ((1.29, 0.10), (4.31, 2.05), (56.9, 9.03)),
    "hard_tanh": ((0.61, 0.02), (4.05, 2.17), (81.01, 10.05)),
}
TRIES = 100
HEAD = (
    "activation",
    "network",
    "published",
    "points",
    "std",
    "median",
    "steps",
    "1 / tau drawn: points",
    "T 100 s: points",
)
NOTES = (
    "points: the points that MATLAB's ode45 returns for a sample, four for every step, with no step longer than a "
    "tenth of the time; steps: the steps of the solver for a sample.",
    "The paper does not say how it counted. Fewer than one step a sample is possible only if one integration runs over "
    "all samples, and 0.56 with a spread of 0.00 is 14 steps of four points over 100 samples, about the fewest that "
    "ode45 can take. We read T = 100 as 100 samples, and tau as |N(0, sigma_b^2)|.",
    "1 / tau drawn: the leak itself is |N(0, sigma_b^2)|, as in the paper's proof; then no neuron is fast, and a leak "
    "costs nothing. T 100 s (with --full): 10,000 samples.",
    "A CT-RNN's depth is that of its fastest neuron, about 1 / (3 tau): the smallest of 100 folded normal numbers, "
    "whose inverse has no mean. The mean over tries is therefore no stable number; the median is.",
)


def measure(tries: int, seed: int, **reading: str | int) -> dict[tuple[str, str], Array]:
    """Counts the points a sample of every kind of network with every activation, (tries,)."""
    samples = int(reading.pop("samples", 100))
    found = {}
    with tracked("networks", total=tries * len(KINDS) * len(ACTIVATIONS), unit="networks") as progress:
        for activation in ACTIVATIONS:
            for kind in KINDS:
                depths = []
                for k in range(tries):
                    network = draw_network(kind, activation, seed * 1000 + k, leak=str(reading["leak"]))
                    depths.append(computational_depth(network, samples).points)
                    progress.advance(1, 1, f"{kind} {activation}")
                found[activation, kind] = np.array(depths)
    return found


def make(settings: Settings) -> Report:
    """Counts under three readings of the text; the findings are about the first."""
    tries = TRIES if settings.full else TRIES // 2
    ours = measure(tries, settings.seed, leak="tau")
    slow = measure(max(tries // 10, 3), settings.seed, leak="rate")
    long = measure(max(tries // 20, 2), settings.seed, leak="tau", samples=10_000) if settings.full else {}
    rows = []
    for activation, published in PUBLISHED.items():
        for kind, (mean, std) in zip(KINDS, published, strict=True):
            points = ours[activation, kind]
            rows.append(
                (
                    activation,
                    KINDS[kind],
                    f"{mean:g} ± {std:g}",
                    float(points.mean()),
                    float(points.std()),
                    float(np.median(points)),
                    float(np.median(points)) / POINTS_A_STEP,
                    float(slow[activation, kind].mean()),
                    float(long[activation, kind].mean()) if long else None,
                )
            )
    return Report("Computational depth", HEAD, rows, findings(ours), NOTES, {"depth": draw(ours)})


def findings(ours: dict[tuple[str, str], Array]) -> list[Finding]:
    """Compares the medians with four statements of the table."""
    median = {case: float(np.median(points)) for case, points in ours.items()}
    plain = {activation: median[activation, "neural_ode"] for activation in ACTIVATIONS}
    leaky = [median[activation, "ct_rnn"] / median[activation, "neural_ode"] for activation in ACTIVATIONS]
    liquid = {activation: median[activation, "ltc"] / median[activation, "ct_rnn"] for activation in ACTIVATIONS}
    listed = ", ".join(f"{ratio:.2f} ({activation})" for activation, ratio in liquid.items())
    return [
        Finding(
            "Table 2, Neural ODE",
            "half a point a sample: 0.56 to 0.61",
            all(abs(plain[activation] - 0.56) < 0.06 for activation in ("tanh", "sigmoid", "hard_tanh")),
            "medians " + ", ".join(f"{plain[activation]:.2f} ({activation})" for activation in plain),
        ),
        Finding(
            "Table 2, Neural ODE with ReLU",
            "twice as many: 1.29",
            plain["relu"] > 1.5 * plain["tanh"],
            f"{plain['relu'] / plain['tanh']:.2f} times as many",
        ),
        Finding(
            "Table 2, CT-RNN",
            "a leak multiplies the depth by 3 to 10",
            min(leaky) > 2,
            f"it multiplies the median by {min(leaky):.2g} to {max(leaky):.2g}",
        ),
        Finding(
            "Table 2, LTC",
            "an LTC needs more steps than a CT-RNN: 1.3 to 2.2 times (sigmoid, tanh), 13 to 20 times (ReLU, hard-tanh)",
            min(liquid.values()) > 1.2,
            f"medians over CT-RNN's: {listed}. With f in [0, 1] or [-1, 1] a rate 1 / tau of 30 changes by 3 %, so the "
            "fastest leak decides here, too; depths like 57 and 81 did not come up under any reading that we tried",
        ),
    ]


def draw(ours: dict[tuple[str, str], Array]) -> Figure:
    """Draws the distribution over networks beside the published mean and deviation."""
    figure = new_figure(9, 4)
    axes = figure.subplots()
    for column, (kind, label) in enumerate(KINDS.items()):
        for row, activation in enumerate(PUBLISHED):
            at = row + 0.26 * (column - 1)
            points = ours[activation, kind]
            spread = 0.16 * (np.arange(len(points)) / max(len(points) - 1, 1) - 0.5)
            axes.plot(
                at + spread, np.sort(points), f"C{column}.", markersize=3, label=label if row == 0 else None, zorder=1
            )
            mean, std = PUBLISHED[activation][column]
            low = min(std, 0.9 * mean)
            axes.errorbar(
                at, mean, yerr=[[low], [std]], fmt="D", color="black", markersize=5, capsize=3, zorder=2,
                label="published" if row == column == 0 else None,
            )  # fmt: skip
    axes.set(yscale="log", ylabel="points of the solver, a sample")
    axes.set_xticks(range(len(PUBLISHED)), ["tanh", "sigmoid", "ReLU", "hard-tanh"])
    axes.legend(frameon=False, fontsize=8, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1))
    return figure


if __name__ == "__main__":
    sys.exit(run_report("depth", __doc__, Settings, make))
