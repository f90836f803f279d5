"""Pictures of circuits that follow other systems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncp_control.base.pages import new_figure
from scripts.paper.approximation.study import CONSTRUCTED, ONE_GATE, SYSTEMS, TRAINED, Pace, Study, follow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOOKS = {CONSTRUCTED: ("C0", "o"), TRAINED: ("C1", "s"), ONE_GATE: ("C2", "^")}
STARTS = 4
MARGIN = 0.4


def draw_errors(found: Study) -> Figure:
    """Draws max |x - u| against neurons: a point for each circuit, and a line through the medians."""
    figure = new_figure(9.5, 4.2)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, system in zip(panels, SYSTEMS, strict=True):
        for kind, (colour, marker) in LOOKS.items():
            results = [one for one in found.results if (one.system, one.kind) == (system.name, kind)]
            neurons = sorted({one.neurons for one in results})
            medians = [np.median([one.peak for one in results if one.neurons == count]) for count in neurons]
            axes.plot([one.neurons for one in results], [one.peak for one in results], marker, color=colour, alpha=0.4)
            axes.plot(neurons, medians, "-" + marker, color=colour, label=kind)
        counts = sorted({one.neurons for one in found.results})
        axes.set(xscale="log", yscale="log", xlabel="hidden neurons", title=f"{system.name}, T = {_length(system)}")
        axes.set_xticks(counts, [str(count) for count in counts])
        axes.minorticks_off()
    panels[0].set_ylabel("max |x - u| on [0, T], median over starts")
    panels[0].legend(frameon=False)
    return figure


def _length(system: Any) -> str:
    return f"{system.horizon * system.sample / system.clock:.2f} {system.clock_name}"


def draw_portraits(found: Study) -> Figure:
    """Draws rollouts of the systems, and of circuits with few and with many neurons, from the same unseen starts."""
    counts = {
        kind: sorted({neurons for _, of, neurons in found.circuits if of == kind}) for kind in (TRAINED, CONSTRUCTED)
    }
    shown = [(TRAINED, counts[TRAINED][0]), (TRAINED, counts[TRAINED][-1]), (CONSTRUCTED, counts[CONSTRUCTED][-1])]
    figure = new_figure(10.5, 7)
    for row, system in zip(figure.subplots(len(SYSTEMS), len(shown)), SYSTEMS, strict=True):
        data = found.data[system.name]
        truth = data.test[:STARTS, : system.horizon + 1]
        low, high = truth.min(axis=(0, 1)) - MARGIN, truth.max(axis=(0, 1)) + MARGIN
        for axes, (kind, neurons) in zip(row, shown, strict=True):
            run = follow(found.circuits[system.name, kind, neurons], truth)
            for k in range(len(truth)):
                axes.plot(truth[k, :, 0], truth[k, :, -1], color="C6", linewidth=3, alpha=0.5, label="the system")
                axes.plot(run[k, :, 0], run[k, :, -1], color="C0", linewidth=1.2, label="the circuit")
                axes.plot(truth[k, :1, 0], truth[k, :1, -1], "o", color="C6", markersize=5)
            axes.set(xlim=(low[0], high[0]), ylim=(low[-1], high[-1]), title=f"{kind}, {neurons} neurons")
            axes.set_xlabel(system.coordinates[0])
        row[0].set_ylabel(f"{system.name}: {system.coordinates[-1]}")
    handles, labels = row[0].get_legend_handles_labels()
    figure.legend(handles[:2], labels[:2], loc="outside lower center", ncols=2, frameon=False)
    return figure


def draw_paces(paces: dict[str, Pace], neurons: int) -> Figure:
    """Draws the time constants of a trained circuit's neurons beside the system's time scales, along one orbit."""
    figure = new_figure(10.5, 4.2)
    panels = figure.subplots(1, len(SYSTEMS))
    for axes, system in zip(panels, SYSTEMS, strict=True):
        found = paces[system.name]
        lines = axes.plot(found.times, found.circuit, color="C6", linewidth=0.8)
        lines[0].set_label("time constants, one a neuron")
        middle = np.exp(np.log(found.circuit).mean(axis=1))
        axes.plot(found.times, middle, color="C0", linewidth=2, label="their geometric mean")
        axes.plot(found.times, found.system[:, 0], color="C1", label="shortest 1 / |Re eigenvalue|")
        axes.plot(found.times, found.system[:, -1], color="C2", label="longest 1 / |Re eigenvalue|")
        axes.set(yscale="log", xlabel="time", title=f"{system.name}, trained, {neurons} neurons")
        axes.set_ylim(found.circuit.min() / 5, max(found.circuit.max(), np.median(found.system)) * 10)
    panels[0].set_ylabel("time")
    panels[0].legend(frameon=False, fontsize=8)
    return figure
