"""Pictures of how far states and time constants go."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ncp_control.base.pages import new_figure
from scripts.paper.bounds.driven import MAGNITUDES, MEMORY, Driven
from scripts.paper.bounds.solvers import RATIOS, SOLVERS, Overshoot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKERS = "os^DvPX*"
HIGHEST, NOTHING = 1e6, 1e-3  # larger values are drawn at the top, zeros at the bottom


def draw_states(driven: Sequence[Driven]) -> Figure:
    """Draws the largest |state| against the size of the inputs, and against time under the largest inputs."""
    figure = new_figure(10.5, 4.6)
    size, time = figure.subplots(1, 2, sharey=True)
    for k, one in enumerate(driven):
        look: dict[str, Any] = {"color": f"C{k % 7}", "marker": MARKERS[k % len(MARKERS)], "markersize": 4}
        look["linestyle"] = "-" if one.contestant.cell.guarantee.holds else "--"
        if one.contestant.name == MEMORY:  # the Neural ODE lies on top of it
            look |= {"linestyle": "-", "linewidth": 4, "alpha": 0.6}
        by_size = [min(reach.largest, HIGHEST) for reach in one.by_magnitude]
        size.plot(MAGNITUDES, by_size, **look, label=one.contestant.name)
        time.plot(list(one.by_time), [min(value, HIGHEST) for value in one.by_time.values()], **look)
    size.set(xscale="log", yscale="log", xlabel="size of the inputs", ylabel="largest |state| (at the top: or more)")
    time.set(xscale="log", xlabel=f"steps with constant inputs of size {MAGNITUDES[-1]:,.0f}")
    figure.legend(*size.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure


@torch.no_grad()
def draw_time_constants(driven: Sequence[Driven]) -> Figure:
    """Draws time constants between their bounds: of all neurons against the inputs' size, and neuron by neuron."""
    figure = new_figure(10.5, 7)
    for (by_size, by_neuron), one in zip(figure.subplots(len(driven), 2, sharey="row"), driven, strict=True):
        low, high = one.contestant.bounding.time_constant_bounds()
        shortest = [min(reach.shortest) for reach in one.by_magnitude]
        longest = [max(reach.longest) for reach in one.by_magnitude]
        by_size.fill_between(MAGNITUDES, shortest, longest, color="C0", alpha=0.25, linewidth=0)
        by_size.plot(MAGNITUDES, shortest, "-o", color="C0", markersize=4, label="shortest and longest seen")
        by_size.plot(MAGNITUDES, longest, "-o", color="C0", markersize=4)
        by_size.axhline(float(low.min()), color="C1", linestyle="--", label="bounds (Theorem 1)")
        by_size.axhline(float(high.max()), color="C1", linestyle="--")
        by_size.set(
            xscale="log", yscale="log", xlabel="size of the inputs", ylabel=f"{one.contestant.name}: time constant"
        )

        order = high.argsort().tolist()
        place = range(len(order))
        by_neuron.vlines(
            place, low[order].tolist(), high[order].tolist(), color="C1", alpha=0.35, linewidth=9, label="bounds"
        )
        for k, width in ((0, 6), (-1, 2)):
            reach = one.by_magnitude[k]
            ends = ([values[neuron] for neuron in order] for values in (reach.shortest, reach.longest))
            label = f"seen with inputs of size {MAGNITUDES[k]:,.0f}"
            by_neuron.vlines(place, *ends, color="C0" if k else "C5", linewidth=width, label=label)
        by_neuron.set(xlabel="neuron", xticks=[])
    figure.axes[0].legend(frameon=False)
    figure.axes[1].legend(frameon=False, loc="upper left")
    return figure


def draw_solvers(found: Mapping[str, Mapping[str, Sequence[Overshoot]]]) -> Figure:
    """Draws how far states leave their bounds, against the length of a solver's step."""
    figure = new_figure(10, 4)
    for axes, (name, solvers) in zip(figure.subplots(1, len(found), sharey=True), found.items(), strict=True):
        for k, (solver, label) in enumerate(SOLVERS.items()):
            beyond = [min(max(one.beyond, NOTHING), HIGHEST) for one in solvers[solver]]
            look = ("-", "-", "--")[k] + MARKERS[k]
            axes.plot(RATIOS, beyond, look, color=f"C{k}", label=label, markersize=4)
        axes.set(xscale="log", yscale="log", xlabel="solver step / shortest time constant", title=name)
        axes.set_yticks([NOTHING, 1, math.sqrt(HIGHEST), HIGHEST], ["inside", "1", "1,000", "1,000,000\nor more"])
        axes.minorticks_off()
    figure.axes[0].set_ylabel("largest distance beyond the bounds")
    figure.axes[0].legend(frameon=False)
    return figure
