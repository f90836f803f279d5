"""Pictures of the tap-withdrawal circuit: its wiring, its potentials at every stimulus, and the experiments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ncp_control.base.pages import new_figure
from ncp_control.wiring.worm import GAP_JUNCTIONS, INPUTS, SYNAPSES, TOUCHED, Connection
from scripts.paper.worm.circuit import BEFORE, MILLIVOLT, NAMES, STEP, STIMULI, TOUCH, Responses
from scripts.paper.worm.experiments import EXPERIMENTS, Outcome

# Backward above, forward below; from touch on the left to movement on the right.
PLACES = {
    "head": (0.0, 4.0), "body": (0.0, 2.0), "tail": (0.0, 0.0),
    "ALM": (2.0, 4.6), "AVM": (2.0, 3.4), "PVD": (2.0, 2.0), "PLM": (2.0, 0.0),
    "AVD": (4.6, 4.3), "DVA": (4.6, 2.0), "PVC": (4.6, -0.3),
    "AVA": (7.2, 3.6), "AVB": (7.2, 0.4),
    "REV": (9.4, 4.0), "FWD": (9.4, 0.0),
}  # fmt: skip
SIDES = {
    "backward": ("ALM", "AVM", "AVD", "AVA", "REV"),
    "forward": ("PLM", "PVC", "AVB", "FWD"),
    "both": ("PVD", "DVA"),
}
SIDE_COLOURS = {"backward": "C4", "forward": "C5", "both": "C3"}
EXCITATORY, INHIBITORY, GAP = "C0", "C1", "C6"
NODE = 15  # points, from a neuron's middle to where a line ends


def draw_circuit() -> Any:
    """Draws neurons by side, synapses by sign and gap junctions dashed; a wider line has more contacts."""
    from matplotlib.lines import Line2D

    figure = new_figure(10, 5.9)
    axes = figure.subplots()
    axes.set(xlim=(-0.9, 10.0), ylim=(-0.9, 5.1), aspect="equal")
    axes.set_axis_off()
    for stimulus, neuron in TOUCHED:
        _line(axes, stimulus, neuron, EXCITATORY, "-|>", 1.0)
    for one in SYNAPSES:
        colour, tip = (EXCITATORY, "-|>") if one.polarity > 0 else (INHIBITORY, "|-|,widthA=0,widthB=0.35")
        _line(
            axes, one.source, one.target, colour, tip, _width(one), "-", 0.95 if one.sign == "inferred" else 0.55, 0.1
        )
    for one in GAP_JUNCTIONS:
        _line(axes, one.source, one.target, GAP, "-", _width(one), (0, (2.5, 1.5)), 1.0, -0.16)
    for name in INPUTS:
        _node(
            axes,
            name,
            f"touch of\nthe {name}" if name != "body" else "harsh touch\nof the body",
            "none",
            "square,pad=0.4",
        )
    for side, names in SIDES.items():
        for name in names:
            _node(axes, name, name, SIDE_COLOURS[side], "circle,pad=0.35")
    handles = [
        Line2D([], [], color=EXCITATORY, label="excitatory"),
        Line2D([], [], color=INHIBITORY, label="inhibitory"),
        Line2D([], [], color=GAP, linestyle=(0, (2.5, 1.5)), label="gap junction"),
        Line2D([], [], color=EXCITATORY, alpha=0.55, label="pale: sign assumed"),
        *(
            Line2D([], [], color=SIDE_COLOURS[side], marker="o", linestyle="none", markersize=9, label=text)
            for side, text in (("backward", "backward"), ("forward", "forward"), ("both", "both sides"))
        ),
    ]
    axes.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, -0.06), ncols=7, frameon=False, fontsize=8,
                handlelength=1.6, columnspacing=1.2)  # fmt: skip
    return figure


def _width(one: Connection) -> float:
    return 0.6 + 0.28 * math.sqrt(one.contacts)


def _node(axes: Any, name: str, text: str, colour: str, box: str) -> None:
    axes.annotate(
        text, PLACES[name], ha="center", va="center", fontsize=9, zorder=3,
        bbox={"boxstyle": box, "facecolor": colour, "edgecolor": "C6", "linewidth": 1.0},
    )  # fmt: skip


def _line(
    axes: Any, source: str, target: str, colour: str, tip: str, width: float, dashes: Any = "-", cover: float = 0.95,
    bend: float = 0.0,
) -> None:  # fmt: skip
    from matplotlib.patches import FancyArrowPatch

    ends = [NODE + 18 if name in INPUTS else NODE for name in (source, target)]
    axes.add_patch(
        FancyArrowPatch(
            PLACES[source], PLACES[target], arrowstyle=tip, mutation_scale=9, color=colour, linewidth=width,
            linestyle=dashes, alpha=cover, shrinkA=ends[0], shrinkB=ends[1], connectionstyle=f"arc3,rad={bend}",
            zorder=1,
        )
    )  # fmt: skip


def draw_traces(responses: Responses) -> Any:
    """Draws command and motor neurons against rest for every stimulus; grey while the worm is touched."""
    figure = new_figure(11, 4.6)
    rows = figure.subplots(2, len(STIMULI), sharex=True, sharey="row")
    change = MILLIVOLT * (responses.states - responses.states[:, :1])
    time = STEP * (np.arange(change.shape[1]) - BEFORE)
    for axes_row, pair, kind in zip(rows, (("AVA", "AVB"), ("REV", "FWD")), ("command", "motor"), strict=True):
        for k, (stimulus, (_, before)) in enumerate(STIMULI.items()):
            axes = axes_row[k]
            for onset in (0.0, *((-STEP * BEFORE,) if before else ())):
                axes.axvspan(onset, onset + STEP * TOUCH, color="C6", alpha=0.2, linewidth=0)
            for name, colour, dashes in zip(pair, ("C0", "C1"), ("-", (0, (4, 1.2))), strict=True):
                axes.plot(time, change[k, :, NAMES.index(name)], color=colour, linestyle=dashes, label=name)
            axes.axhline(0, color="C6", linewidth=0.6)
            if kind == "command":
                axes.set_title(stimulus)
            else:
                axes.set_xlabel("seconds from touch")
        axes_row[0].set_ylabel(f"{kind}: mV from rest")
        axes_row[0].legend(frameon=False, loc="upper right", fontsize=8)
    return figure


def draw_experiments(outcomes: Sequence[Outcome], numbers: np.ndarray, signs: np.ndarray) -> Any:
    """Draws what every experiment measures with and without the neurons, and how many random circuits agree."""
    figure = new_figure(11, 6.4)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(1.5, 1))
    rows = np.arange(len(EXPERIMENTS))
    for row, outcome in zip(rows, outcomes, strict=True):
        if outcome.reference is None:
            continue
        left.annotate("", (outcome.value, row), (outcome.reference, row),
                      arrowprops={"arrowstyle": "-|>", "color": "C6", "shrinkA": 4, "shrinkB": 4})  # fmt: skip
    compared = [k for k, outcome in enumerate(outcomes) if outcome.reference is not None]
    left.scatter([outcomes[k].reference for k in compared], compared, facecolors="none", edgecolors="C0",
                 label="compared with", zorder=2)  # fmt: skip
    for agrees, colour, marker, label in (
        (True, "C0", "o", "as in the worm"),
        (False, "C1", "X", "not as in the worm"),
    ):
        chosen = [k for k, outcome in enumerate(outcomes) if outcome.agrees is agrees]
        if chosen:
            left.scatter(
                [outcomes[k].value for k in chosen], chosen, color=colour, marker=marker, label=label, zorder=3
            )
    left.axvline(0, color="C6", linewidth=0.8)
    left.set(yticks=rows, xlabel="mV: REV - FWD (direction), REV (reversal) or FWD (acceleration)")
    left.set_yticklabels([f"{one.name}: {one.wanted}" for one in EXPERIMENTS])
    left.invert_yaxis()
    left.legend(frameon=False, loc="lower right", fontsize=8)
    for shift, share, colour, label in (
        (-0.18, numbers, "C0", "other numbers"), (0.18, signs, "C1", "other signs where assumed")
    ):  # fmt: skip
        right.barh(rows + shift, 100 * share.mean(0), height=0.34, color=colour, label=label)
    right.set(xlim=(0, 100), xlabel="% of random circuits that agree")
    right.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize=8)
    return figure
