"""Pictures of the closed loop: shares of starts, attractors on their own axes, exponents, and multipliers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ncp_control.base.pages import BLUE, GREEN, GREY, ORANGE, PINK, SKY, YELLOW, new_figure, plain
from ncp_control.loop.exponents import LEAST
from ncp_control.loop.printed import kind, letter
from ncp_control.loop.report import ENDED, REST, Attractor, LoopReport

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[Any]
COLOURS = (BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, GREY)
PORTRAITS = 3  # attractors that are drawn
STILL = 1e-6  # what moves less does not move
LEAD = 24  # exponents that are drawn
LOWEST = -1.5  # exponents below this are drawn at the edge


def figures_of(report: LoopReport) -> dict[str, Figure]:
    """Returns the pictures by their names; a picture of which there is nothing to see is left out."""
    found = {
        "attractors": shares(report), "portraits": portraits(report), "spectrum": spectrum(report),
        "multipliers": multipliers(report),
    }  # fmt: skip
    return {name: figure for name, figure in found.items() if figure is not None}


def colour(number: int) -> str:
    """Returns the colour of an attractor."""
    return COLOURS[number % len(COLOURS)]


def named(number: int, one: Attractor) -> str:
    """Returns an attractor's name in a picture."""
    return f"{letter(number)}: {kind(one)}"


def shares(report: LoopReport) -> Figure:
    """Draws how many starts lead to each attractor."""
    rows = [("starts of episodes", "starts", report.starts), ("starts from any pose", "thrown", report.thrown)]
    rows = [row for row in rows if row[2]]
    figure = new_figure(7, 0.9 + 0.45 * len(rows))
    axes = figure.subplots()
    for k, (_, key, count) in enumerate(rows):
        left = 0.0
        for number, one in enumerate(report.attractors):
            part = getattr(one, key) / count
            axes.barh(k, part, left=left, color=colour(number), label=named(number, one) if k == 0 else None)
            if part > 0.04:
                axes.text(left + part / 2, k, letter(number), ha="center", va="center", color="white")
            left += part
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    axes.invert_yaxis()
    axes.set(xlim=(0, 1), xlabel="share of starts")
    figure.legend(loc="outside upper left", ncols=3, frameon=False, fontsize=8)
    plain(axes)
    return figure


def portraits(report: LoopReport) -> Figure | None:
    """Draws what the agent sees on the moving attractors, each on its own axes."""
    moving = [
        (number, one, one.observations)
        for number, one in enumerate(report.attractors)
        if one.kind not in (REST, ENDED)
        and one.observations is not None
        and np.ptp(one.observations, axis=0).max() > STILL
    ][:PORTRAITS]
    if not moving:
        return None
    figure = new_figure(3.6 * len(moving), 3.6)
    for axes, (number, one, seen) in zip(figure.subplots(1, len(moving), squeeze=False)[0], moving, strict=True):
        places, kept = principal(seen)
        axes.plot(*places.T, ".", markersize=2.5, color=colour(number))
        across, along = np.ptp(places, axis=0)
        if along < STILL * across:  # rounding is no shape
            axes.set_ylim(-across / 2, across / 2)
        axes.set_title(named(number, one), fontsize=9)
        axes.set(xlabel=f"1st axis ({100 * kept[0]:.0f} % of the variance)", ylabel=f"2nd axis ({100 * kept[1]:.0f} %)")
        plain(axes)
    return figure


def principal(observations: Array) -> tuple[Array, Array]:
    """Returns observations on the two axes along which they vary most, in standard deviations, and the axes' shares."""
    centred = observations - observations.mean(axis=0)
    centred = centred / np.maximum(centred.std(axis=0), 1e-12)
    _, sizes, axes = np.linalg.svd(centred, full_matrices=False)
    places = centred @ axes[:2].T
    if places.shape[1] < 2:
        places = np.column_stack([places, np.roll(places, 1)])
    kept = np.append(sizes**2 / np.sum(sizes**2), 0.0)
    return places, kept


def spectrum(report: LoopReport) -> Figure | None:
    """Draws the exponents of each attractor."""
    measured = [(k, one) for k, one in enumerate(report.attractors) if one.exponents]
    if not measured:
        return None
    figure = new_figure(7, 3.2)
    axes = figure.subplots()
    axes.axhline(0, color=GREY, linewidth=0.8)
    for number, one in measured:
        lead = one.exponents[:LEAD]
        means = np.array([each.mean for each in lead])
        reach = np.array([[each.mean - each.low for each in lead], [each.high - each.mean for each in lead]])
        shown = means > max(LOWEST, LEAST)
        places = np.arange(1, len(lead) + 1)
        axes.errorbar(
            places[shown], means[shown], reach[:, shown], fmt="o-", markersize=3, linewidth=0.8, capsize=2,
            color=colour(number), label=named(number, one),
        )  # fmt: skip
    axes.set(xlabel="direction", ylabel="exponent a step", xlim=(0, LEAD + 1))
    axes.legend(frameon=False, fontsize=8)
    plain(axes)
    return figure


def multipliers(report: LoopReport) -> Figure | None:
    """Draws the multipliers of rest points and cycles in the complex plane."""
    found = [(k, one, one.cycle.multipliers) for k, one in enumerate(report.attractors) if one.cycle is not None]
    if not found:
        return None
    figure = new_figure(4.2, 3.8)
    axes = figure.subplots()
    turn = np.linspace(0, 2 * math.pi, 200)
    axes.plot(np.cos(turn), np.sin(turn), color=GREY, linewidth=0.8)
    for number, one, values in found:
        axes.plot(values.real, values.imag, "o", markersize=3.5, color=colour(number), label=named(number, one))
    axes.set(xlabel="real part", ylabel="imaginary part", aspect="equal")
    figure.legend(loc="outside upper left", frameon=False, fontsize=8, ncols=2)
    plain(axes)
    return figure
