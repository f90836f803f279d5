"""Teach students with more and more weight on calm actions, and draw what the calm costs and what it gives.

    python scripts/calm_frontier.py --out runs/calm

Prints a table in Markdown: the return of each student undisturbed and under noise, and the largest Lyapunov exponent of
its closed loop. Draws the first return against the other two. A stopped run goes on with the same command.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from ncp_control.base.machine import use_threads
from ncp_control.base.pages import BLUE, ORANGE, new_figure, plain, save_figure
from ncp_control.distil import DistilSettings, distil
from ncp_control.loop import analyse, disturbed
from ncp_control.loop.exponents import MeanInterval
from ncp_control.rl import load_policy
from ncp_control.rl.recipes.env_making import make_env

ENV = "ncp/HalfCheetahNoVel-v0"
RANDOM = [{"RandomActionOverwrite": {"probability": 0.05}}]  # of the training


@dataclass
class Arguments:
    """Teach calm students of the shipped teacher, and draw their returns against the exponents of their loops."""

    weights: tuple[float, ...] = (0.0, 0.03, 0.1, 0.3)
    """The weights of the calm."""

    steps: int = 120_000
    """Environment steps of each distillation."""

    noise: float = 0.03
    """The noise on the eight positions."""

    episodes: int = 20
    """Episodes of each evaluation."""

    starts: int = 8
    """Starts from which the exponent is measured."""

    seed: int = 0
    """Of the distillations."""

    out: Path = Path("runs/calm")
    """The folder of the runs and of the figure, frontier.svg."""


@dataclass(frozen=True)
class Calm:
    """A student that was taught with a weight on calm actions.

    :param weight: the weight
    :param plain: its returns undisturbed
    :param noisy: its returns under noise
    :param exponent: the largest exponent of its closed loop
    """

    weight: float
    plain: list[float]
    noisy: list[float]
    exponent: MeanInterval


def taught(arguments: Arguments, weight: float) -> Calm:
    """Teaches a student and measures it."""
    found = distil(
        load_policy("checkpoints/halfcheetah-teacher.safetensors"), ENV, env_wrapper=RANDOM, seed=arguments.seed,
        settings=DistilSettings(steps=arguments.steps, calm=weight), out=arguments.out / f"{weight:g}", resume=True,
    )  # fmt: skip
    noise = [{"ObservationNoise": {"std": arguments.noise}}]
    rows = disturbed(
        found.agent, {"undisturbed": lambda: make_env(ENV), "noise": lambda: make_env(ENV, noise)}, arguments.episodes,
        seed=1000,
    )  # fmt: skip
    report = analyse(found.agent, make_env(ENV), arguments.starts, thrown=0)
    exponent = report.attractors[0].largest or MeanInterval(np.nan, np.nan, np.nan)
    return Calm(weight, rows[0].episodes.returns, rows[1].episodes.returns, exponent)


def table(students: list[Calm], noise: float) -> str:
    """Returns a table in Markdown."""
    lines = [f"| calm | undisturbed | noise of {noise:g} | of that | exponent a step |", "|---|---|---|---|---|"]
    for one in students:
        both, exponent = (one.plain, one.noisy), one.exponent
        cells = [f"{np.mean(own):,.0f} ± {np.std(own, ddof=1):,.0f} ({min(own):,.0f})" for own in both]
        share = f"{np.mean(one.noisy) / np.mean(one.plain):.0%}"
        ends = f"{exponent.mean:+.3f} ({exponent.low:+.3f} to {exponent.high:+.3f})"
        lines.append(f"| {one.weight:g} | {' | '.join([*cells, share, ends])} |")
    return "\n".join(lines)


def draw(students: list[Calm], noise: float, out: Path) -> None:
    """Draws the undisturbed return against the return under noise, and against the exponent, by weight."""
    figure = new_figure(7.6, 3.2)
    panels = figure.subplots(1, 2, sharey=True)
    returns = [float(np.mean(one.plain)) for one in students]
    noisy, exponents = [float(np.mean(one.noisy)) for one in students], [one.exponent.mean for one in students]
    for panel, places, label, colour in (
        (panels[0], noisy, f"return in noise of {noise:g}", ORANGE),
        (panels[1], exponents, "largest exponent of the closed loop, a step", BLUE),
    ):
        panel.plot(places, returns, "o-", color=colour, linewidth=1.5)
        for one, place in zip(students, zip(places, returns, strict=True), strict=True):
            panel.annotate(f"{one.weight:g}", place, xytext=(7, 3), textcoords="offset points", fontsize=8)
        panel.set(xlabel=label, xlim=(0, 1.15 * max(places)))
        panel.grid(alpha=0.3)
        plain(panel)
    panels[0].set(ylabel="return undisturbed", ylim=(0, 1.1 * max(returns)))
    save_figure(figure, out, dpi=130)


def main() -> None:
    """Teaches the students, prints the table and draws the figure."""
    arguments = tyro.cli(Arguments)
    use_threads(1)
    students = []
    for weight in arguments.weights:
        students.append(taught(arguments, weight))
        print(table(students[-1:], arguments.noise).splitlines()[-1], flush=True)
    print("\n" + table(students, arguments.noise))
    draw(students, arguments.noise, arguments.out / "frontier.svg")


if __name__ == "__main__":
    main()
