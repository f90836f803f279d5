"""Pictures after figures 2, 3 and S1 of the LTC paper."""

from __future__ import annotations

from typing import Any

import numpy as np

from ncp_control.base.pages import new_figure
from scripts.paper.common.random_networks import ACTIVATIONS, KINDS, Array, draw_network
from scripts.paper.trajectory.expressivity import BIAS_VARIANCE, SOLVERS, VARIANCE, Case, Grid, Lengths
from scripts.paper.trajectory.length import measure
from scripts.paper.trajectory.lower_bounds import PUBLISHED_DEPTHS, lower_bound

LOOKS = {"neural_ode": "C0o", "ct_rnn": "C1s", "ltc": "C2D"}


def draw_lengths(found: dict[Case, Lengths], grid: Grid) -> Any:
    """Draws lengths against layer, width, variance of the weights and solver (rows) for each activation (columns)."""
    figure = new_figure(12, 11)
    rows = figure.subplots(4, len(ACTIVATIONS), sharey=False)
    sweeps = (
        ("layer", "layer", tuple(range(1, grid.layers + 1)), "linear"),
        ("width", "neurons of a layer", grid.widths, "log"),
        ("variance", r"variance of the weights, $\sigma_w^2$", grid.variances, "log"),
        ("solver", "", tuple(range(len(SOLVERS))), "linear"),
    )
    for row, (name, label, values, scale) in zip(rows, sweeps, strict=True):
        for axes, activation in zip(row, ACTIVATIONS, strict=True):
            for kind in KINDS:
                _draw_seeds(axes, kind, values, getattr(found[kind, activation], name), joined=name != "solver")
            axes.set(xlabel=label, yscale="log", xscale=scale)
            axes.yaxis.set_minor_formatter("")
            if name == "solver":
                axes.set_xticks(values, SOLVERS, rotation=60, ha="right", fontsize=8)
            elif scale == "log":
                axes.set_xticks(values, [f"{value:g}" for value in values])
                axes.minorticks_off()
        row[0].set_ylabel("length of the latent path")
    for axes, activation in zip(rows[0], ACTIVATIONS, strict=True):
        axes.set_title({"relu": "ReLU"}.get(activation, activation.replace("_", "-")))
    rows[0, 0].legend(frameon=False, fontsize=8)
    return figure


def _draw_seeds(
    axes: Any, kind: str, values: tuple[float, ...] | tuple[int, ...], lengths: Array, joined: bool
) -> None:
    colour, marker = LOOKS[kind][:2], LOOKS[kind][2:]
    axes.plot(
        values, np.nanmedian(lengths, axis=1), color=colour, marker=marker, markersize=4,
        linestyle="-" if joined else "none", label=KINDS[kind],
    )  # fmt: skip
    axes.fill_between(
        values, np.nanmin(lengths, axis=1), np.nanmax(lengths, axis=1), color=colour, alpha=0.2, linewidth=0,
        visible=joined,
    )  # fmt: skip


def draw_bounds(found: dict[Case, Lengths], grid: Grid) -> Any:
    """With hard-tanh, measured lengths and the lower bounds of Theorems 4 and 5, each scaled to its first length."""
    figure = new_figure(11, 3.8)
    row = figure.subplots(1, 3)
    sweeps: tuple[tuple[str, str, tuple[float, ...], str], ...] = (
        ("layer", "layer", tuple(range(1, grid.layers + 1)), "linear"),
        ("width", "neurons of a layer", grid.widths, "log"),
        ("variance", r"variance of the weights, $\sigma_w^2$", grid.variances, "log"),
    )
    for axes, (name, label, values, scale) in zip(row, sweeps, strict=True):
        for kind in KINDS:
            lengths = np.nanmedian(getattr(found[kind, "hard_tanh"], name), axis=1)
            _draw_seeds(axes, kind, values, getattr(found[kind, "hard_tanh"], name), joined=True)
            bounds = np.array(
                [_bound(kind, name, value, grid, size) for value, size in zip(values, lengths, strict=True)]
            )
            with np.errstate(divide="ignore", invalid="ignore"):
                scaled = bounds / bounds[bounds > 0][0] * lengths[bounds > 0][0]
            axes.plot(values, np.where(bounds > 0, scaled, np.nan), color=LOOKS[kind][:2], linestyle="--", linewidth=1)
        axes.set(xlabel=label, yscale="log", xscale=scale)
        if scale == "log":
            axes.set_xticks(values, [f"{value:g}" for value in values])
            axes.minorticks_off()
    row[0].set_ylabel("length of the latent path")
    row[0].plot([], [], color="black", linestyle="--", linewidth=1, label="lower bound, scaled")
    row[0].legend(frameon=False, fontsize=8)
    return figure


def _bound(kind: str, sweep: str, value: float, grid: Grid, length: float) -> float:
    variance = value if sweep == "variance" else VARIANCE
    width = value if sweep == "width" else grid.width
    layer = int(value) if sweep == "layer" else 1
    # The bound's |z| is estimated by the measured length over the input's length, which is of the same order.
    depth, norm = PUBLISHED_DEPTHS[kind], length / (2 * np.pi)
    return lower_bound(kind, variance, BIAS_VARIANCE, width, layer, depth, norm, step=0.01)


def draw_paths(activation: str, seed: int, layers: int = 6, width: int = 100) -> Any:
    """Draws the latent path of every layer (columns) for the three kinds of network (rows), with the same weights."""
    figure = new_figure(1.7 * layers, 5.6)
    grid = figure.subplots(len(KINDS), layers)
    for row, kind in zip(grid, KINDS, strict=True):
        paths = measure(draw_network(kind, activation, seed, layers=layers, width=width))
        for d, (axes, found) in enumerate(zip(row, paths, strict=True)):
            axes.scatter(*found.path.T, c=np.arange(len(found.path)), s=2, linewidths=0)
            axes.set(xticks=[], yticks=[])
            axes.set_title(f"length {found.length:.3g}, {100 * found.share:.0f} %", fontsize=7)
            if kind == "ltc":
                axes.set_xlabel(f"layer {d + 1}")
        row[0].set_ylabel(KINDS[kind])
    return figure
