"""Pictures of the cost and the errors of gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ncp_control.base.pages import new_figure
from scripts.paper.gradients.adjoint import METHODS, Method
from scripts.paper.gradients.findings import forward_evaluations
from scripts.paper.gradients.sweeps import Sizes, Sweeps

COLOURS = {"fused": "C0", "rk4": "C1", "dopri5": "C2"}
ADJOINTS = "stepwise, whole: by the adjoint, a solve for each input or one for all; the others by BPTT"
LOOKS = {"compiled": ":D", "bptt": "-o", "stepwise": "--s", "whole": "-.^"}
EVALUATIONS = (2, 4, 8, 16, 32, 64, 128)
WORST = 1e2  # larger errors are drawn here


def draw_cost(found: Sweeps, sizes: Sizes) -> Any:
    """Draws memory against T and against L, and time against T."""
    figure = new_figure(12, 4.4)
    over_length, over_effort, time = figure.subplots(1, 3)
    for method in METHODS:
        length, effort = found.length[method.name], found.effort[method.name]
        _line(over_length, method, sizes.lengths, [one.kilobytes for one in length])
        _line(over_effort, method, forward_evaluations(effort), [one.kilobytes for one in effort])
        _line(time, method, sizes.lengths, [1e3 * sum(one.seconds) for one in length])
    over_length.set(xlabel="inputs T", ylabel="kept for the backward pass [kB]")
    over_effort.set(xlabel="evaluations an input, L", ylabel="kept for the backward pass [kB]")
    time.set(xlabel="inputs T", ylabel="forward and backward [ms]")
    for axes in (over_length, over_effort, time):
        axes.set(xscale="log", yscale="log")
    for axes in (over_length, time):
        _ticks(axes, sizes.lengths)
    _ticks(over_effort, EVALUATIONS)
    _legend(figure, over_length, 8)
    return figure


def draw_errors(found: Sweeps, sizes: Sizes) -> Any:
    """Draws errors of the gradient against T, L and tau, and of the rebuilt first state against T."""
    figure = new_figure(11, 8.4)
    ((over_length, rebuilt), (over_effort, over_tau)) = figure.subplots(2, 2)
    for method in METHODS[1:]:
        measured = found.length[method.name]
        _line(over_length, method, sizes.lengths, [one.same for one in measured], WORST)
        effort = found.effort[method.name]
        _line(over_effort, method, forward_evaluations(effort), [one.true for one in effort], WORST)
        _line(over_tau, method, sizes.taus, [one.true for one in found.tau[method.name]], WORST)
    for errors in zip(*found.drawn, strict=True):
        drawn = [min(error, WORST) for error in errors]
        over_length.plot(sizes.lengths, drawn, "^", color=COLOURS["rk4"], markersize=4, fillstyle="none")
    over_length.set(xlabel="inputs T", ylabel="error of the gradient, against BPTT in float64")
    over_effort.set(xlabel="evaluations an input, L", ylabel="error of the gradient, against the ODE's")
    over_tau.set(xlabel="time constant tau", ylabel="error of the gradient, against the ODE's", xscale="log")
    over_effort.set_xscale("log")
    _ticks(over_effort, EVALUATIONS)
    over_tau.invert_xaxis()
    _ticks(over_tau, sizes.taus)
    for k, network in enumerate(dict.fromkeys(network for network, _ in found.rebuilt)):
        for solver, look in (("RK4", "-o"), ("dopri5", "--s")):
            known = [error if math.isfinite(error) else math.nan for error in found.rebuilt[network, solver]]
            rebuilt.plot(sizes.lengths, known, look, color=f"C{k}", markersize=4, label=f"{network}, {solver}")
    rebuilt.set(xlabel="inputs T", ylabel="error of the first state, solved back from the last", yscale="log")
    rebuilt.legend(frameon=False, fontsize=7)
    for axes in (over_length, over_effort, over_tau):
        axes.set_yscale("log")
        axes.axhline(WORST, color="grey", linewidth=0.8, linestyle=":")
    over_length.text(sizes.lengths[0], WORST, "100 and more, or given up", fontsize=8, va="bottom")
    _legend(figure, over_length, 7)
    return figure


def _legend(figure: Any, axes: Any, columns: int) -> None:
    """Draws a legend of the lines of one axes below all of them."""
    lines = axes.get_legend_handles_labels()
    where = {"loc": "outside lower center", "ncols": columns}
    figure.legend(*lines, **where, frameon=False, fontsize=8, title=ADJOINTS, title_fontsize=8)


def _line(axes: Any, method: Method, sizes: Sequence[float], values: Sequence[float], most: float = math.inf) -> None:
    axes.plot(
        sizes, [min(value, most) for value in values], LOOKS[method.gradient],
        color=COLOURS[method.solver], markersize=4, label=method.name,
    )  # fmt: skip


def _ticks(axes: Any, sizes: Sequence[float]) -> None:
    limits = axes.get_xlim()
    axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
    axes.set_xlim(limits)
    axes.minorticks_off()
