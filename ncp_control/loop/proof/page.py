"""A proof as one web page: the tube, the cells and the set that no body leaves, over phase portraits and over time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ncp_control.base.intervals import Array
from ncp_control.base.pages import BLUE, GREEN, GREY, ORANGE, SKY, new_figure, plain
from ncp_control.loop.page import write_page
from ncp_control.loop.proof.adversary import Adversary
from ncp_control.loop.proof.printed import sections_of
from ncp_control.loop.proof.proving import Forever, Proof
from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_envs.equations import BODIES, Equations

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BODIES_DRAWN = 40
AFTER = 1.5  # bodies are drawn for so many times the claims' periods
PORTRAIT = (
    "Phase portraits",
    "Light blue: where the body can be in each period, from all starts for which the claims are shown. Grey: the cells "
    "of the starts. Blue: bodies with errors of their sensors, at whole periods. Green: the set that no body leaves. "
    "Orange: the limits of the claims.",
)
TIMES = (
    "Over time",
    "Light blue: between which ends the body stays in each period. Blue: bodies with errors of their sensors. Orange: "
    "what the claims forbid. Green: between which ends the body stays for ever.",
)


def write_proof(agent: LoadedPolicy, proof: Proof, path: str | Path, seed: int = 0) -> None:
    """Writes a proof as a page.

    :param agent: the agent that the proof is about
    :param proof: the proof
    :param path: the `.html` file; it is replaced as a whole if it exists
    :param seed: draws the bodies in the pictures
    """
    ways = Adversary(agent, proof, seed).ways(BODIES_DRAWN, round(AFTER * len(proof.tube)))
    pictures = [(*PORTRAIT, portraits(proof, ways)), (*TIMES, over_time(proof, ways))]
    write_page(path, f"{proof.agent} and {proof.body}", sections_of(proof), pictures)


def portraits(proof: Proof, ways: Array) -> Figure:
    """Draws the body's numbers against their speeds."""
    pairs = phases(BODIES[proof.body])
    figure = new_figure(4.6 * len(pairs), 4.2)
    shown = any(cell.shown for cell in proof.cells)
    for axes, pair in zip(figure.subplots(1, len(pairs), squeeze=False)[0], pairs, strict=True):
        for low, high in proof.tube if shown else ():
            axes.add_patch(box(low, high, pair, facecolor=SKY, alpha=0.2, edgecolor="none"))
        axes.plot(*(ways[..., number] for number in pair), color=BLUE, linewidth=0.4, marker=".", markersize=1.5)
        for cell in proof.cells:
            axes.add_patch(box(cell.low, cell.high, pair, fill=False, edgecolor=GREY, linewidth=0.6))
        for claim in proof.claims:
            for number, draw in zip(pair, (axes.axvline, axes.axhline), strict=True):
                for limit in (claim.low[number], claim.high[number]):
                    if np.isfinite(limit):
                        draw(limit, color=ORANGE, linewidth=0.8)
        if proof.forever is not None:
            axes.plot(*outline(proof.forever, pair), color=GREEN, linewidth=1.2)
        axes.set(xlabel=proof.names[pair[0]], ylabel=proof.names[pair[1]])
        axes.margins(0.08)
        plain(axes)
    return figure


def over_time(proof: Proof, ways: Array) -> Figure:
    """Draws each number of the body over time."""
    period = BODIES[proof.body].period
    low, high = np.array(proof.tube).swapaxes(0, 1)
    edges = period * np.arange(len(low) + 1)
    figure = new_figure(7, 1.7 * len(proof.names))
    every = figure.subplots(len(proof.names), 1, sharex=True, squeeze=False)[:, 0]
    for at, (axes, name) in enumerate(zip(every, proof.names, strict=True)):
        if any(cell.shown for cell in proof.cells):
            ends = [np.append(end[:, at], end[-1, at]) for end in (low, high)]
            axes.fill_between(edges, *ends, step="post", color=SKY, alpha=0.4, linewidth=0)
        axes.plot(period * np.arange(len(ways)), ways[..., at], color=BLUE, linewidth=0.4)
        if proof.forever is not None:
            for limit in (proof.forever.low[at], proof.forever.high[at]):
                axes.axhline(limit, color=GREEN, linewidth=0.8, linestyle="--")
        bottom, top = axes.get_ylim()
        for claim in proof.claims:
            until = period * len(ways) if claim.end >= edges[-1] else claim.end
            for limit, beyond in ((claim.low[at], bottom), (claim.high[at], top)):
                if bottom < limit < top:
                    axes.fill_between([claim.begin, until], limit, beyond, color=ORANGE, alpha=0.15, linewidth=0)
        axes.set(ylabel=name, ylim=(bottom, top), xlim=(0, period * (len(ways) - 1)))
        plain(axes)
    every[-1].set_xlabel("seconds")
    return figure


def phases(body: Equations) -> list[tuple[int, int]]:
    """Returns the numbers of a body's state whose derivative is another number of it, with that one."""
    state = tuple(np.linspace(0.1, 0.9, len(body.names)))
    moved = body.slope(state, (0.0,) * body.actions, np)
    return [(i, j) for i, slope in enumerate(moved) for j, number in enumerate(state) if slope == number]


def box(low: Any, high: Any, pair: tuple[int, int], **style: Any) -> Any:
    """Returns a box in two of its dimensions."""
    from matplotlib.patches import Rectangle

    i, j = pair
    return Rectangle((low[i], low[j]), high[i] - low[i], high[j] - low[j], **style)


def outline(forever: Forever, pair: tuple[int, int]) -> Array:
    """Returns the outline of the set that no body leaves in two dimensions, (2, P)."""
    sides = np.array(forever.generators)[list(pair)]
    sides = np.where(sides[1] < 0, -sides, sides)
    sides = sides[:, np.arctan2(sides[1], sides[0]).argsort()]
    half = 2 * np.cumsum(sides, axis=1) - sides.sum(axis=1, keepdims=True)
    around = np.concatenate([half, -half, half[:, :1]], axis=1)
    found: Array = np.array(forever.center)[list(pair), None] + around
    return found
