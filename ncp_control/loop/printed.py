"""A report on the closed loop in sections, which a terminal and a page show alike."""

from __future__ import annotations

import math

from ncp_control.base.sections import Section, table
from ncp_control.base.text import counted
from ncp_control.loop.cuts import STEPS, Onward
from ncp_control.loop.held import Mode, counts
from ncp_control.loop.report import (
    AGES,
    CALM,
    CHAOS,
    CYCLE,
    ENDED,
    ERROR,
    MOST,
    OPEN,
    REST,
    STEADY,
    Attractor,
    LoopReport,
)  # fmt: skip

NONE = "-"
FEW = 5  # synapses for each figure


def sections_of(report: LoopReport) -> list[Section]:
    """Returns the sections of a report."""
    return [about(report), attractors(report), *errors(report), *cuts(report), *alone(report)]


def letter(number: int) -> str:
    """Returns the name of an attractor: A for the first."""
    return chr(ord("A") + number) if number < 26 else f"A{number}"


def about(report: LoopReport) -> Section:
    """Says what was followed, and in short what was found."""
    body, neurons, actions = report.size
    parts = [counted(body, "number") + " of the body", counted(neurons, "neuron"), counted(actions, "action")]
    rows = [
        ("closed loop", f"{report.agent} in {report.env}, without noise: " + ", ".join(parts)),
        ("followed", f"{counted(report.starts, 'start')} of episodes and {report.thrown:,} from any pose, "
                     f"{report.steps:,} steps each"),
    ]  # fmt: skip
    rows += [(f"attractor {letter(k)}", sentence(report, one)) for k, one in enumerate(report.attractors[:MOST])]
    return Section("in short", rows=tuple(rows))


def sentence(report: LoopReport, one: Attractor) -> str:
    """Describes an attractor in a sentence or two."""
    if one.kind == ENDED:
        first, last = min(one.ends), max(one.ends)
        return f"the episode ends, after {counted(first, 'step')}" + (f" to {last:,}" if last > first else "")
    if one.largest is None:
        return "not measured"
    if one.cycle is None:
        size = beside = ""
    else:
        size = f"{abs(one.cycle.multipliers[0]):.3g}"
        beside = f". In it lies a cycle of {one.cycle.period} steps that repels, with a multiplier of {size}"
    doubled = math.log(2) / abs(one.largest.mean) if one.largest.mean else math.inf
    return {
        REST: f"rest: nothing moves. A small difference is multiplied by {size} in each step, so it dies out",
        CYCLE: f"a cycle{time(report, one)}. A small difference is multiplied by {size} in each round, so it dies out",
        CHAOS: f"chaos: a small difference doubles every {doubled:.1f} steps, until the runs have nothing in common. "
        f"The attractor has a dimension of {one.dimension:.1f}{beside}",
        STEADY: f"neutral: a closed curve or a slow drift. A small difference neither grows much nor dies out{beside}",
        CALM: f"small differences halve every {doubled:.1f} steps; no cycle was found",
        OPEN: "not decided, as the interval of the largest exponent has 0 in it: measure more starts, or longer",
    }[one.kind]


def time(report: LoopReport, one: Attractor) -> str:
    """Writes how long a round takes."""
    if one.cycle is None:
        return ""
    seconds = "" if report.seconds is None else f", {one.cycle.period * report.seconds:.3g} s"
    return f" of {counted(one.cycle.period, 'step')}{seconds}"


def attractors(report: LoopReport) -> Section:
    """Returns a row for each attractor."""
    listed = report.attractors[:MOST]
    spans = [
        NONE if one.largest is None
        else f"{one.largest.mean:+.4f}" if one.largest.low == one.largest.high
        else f"{one.largest.mean:+.3f} [{one.largest.low:+.3f}, {one.largest.high:+.3f}]"
        for one in listed
    ]  # fmt: skip
    left = len(report.attractors) - len(listed)
    lines = [
        "Exponent: the largest Lyapunov exponent a step, with its 95 % interval over starts; from the multipliers of a "
        "cycle there is no interval. Above 0, small differences grow."
    ]
    if left:
        lines.append(f"{counted(left, 'smaller group')} of starts {'is' if left == 1 else 'are'} not listed.")
    return table(
        "attractors",
        [
            ("", [letter(k) for k in range(len(listed))]),
            ("what", [kind(one) for one in listed]),
            ("episodes", [f"{one.starts} of {report.starts}" for one in listed]),
            ("any pose", [f"{one.thrown} of {report.thrown}" for one in listed]),
            (
                "reward a step",
                [NONE if math.isnan(one.reward) else f"{round(one.reward, 3) + 0.0:.3f}" for one in listed],
            ),
            ("exponent", spans),
        ],
        lines,
        left=2,
    )


def kind(one: Attractor) -> str:
    """Returns what an attractor is, in a few words."""
    if one.kind == OPEN and not one.exponents:
        return "not measured"
    return f"{one.kind} of {counted(one.cycle.period, 'step')}" if one.kind == CYCLE and one.cycle else one.kind


def errors(report: LoopReport) -> list[Section]:
    """Returns how far errors of the sensors move the actions, on the first attractor on which this was measured."""
    for k, one in enumerate(report.attractors):
        if one.carried is not None:
            columns = [("sensor", list(report.sensors))]
            columns += [
                ("at once" if age == 0 else f"{age} steps later", [share(ERROR * value) for value in one.carried[age]])
                for age in AGES
            ]
            lines = [
                f"How far the actions move on attractor {letter(k)} after an error of {100 * ERROR:g} % of a sensor's "
                "standard deviation in one step, as a share of their range: the root of the mean square along the way."
            ]
            return [table("errors of sensors", columns, lines)]
    return []


def cuts(report: LoopReport) -> list[Section]:
    """Returns the synapses that do the most for the reward, and those that do the most for the exponent."""
    if not report.cuts:
        return []
    whole, *without = report.cuts

    def most(figure: str) -> list[Onward]:
        """Returns those without which a figure changes most; where the episode ends, that is the greatest change."""
        changes = [abs(getattr(one, figure) - getattr(whole, figure)) for one in without]
        order = sorted(range(len(without)), key=lambda k: math.inf if math.isnan(changes[k]) else changes[k])
        return [without[k] for k in order[: -FEW - 1 : -1]]

    listed = [("whole circuit", "", whole)]
    listed += [(one.synapse, figure, one) for figure in ("reward", "exponent") for one in most(figure)]
    columns = [
        ("without", [name for name, _, _ in listed]),
        ("moves most", [figure for _, figure, _ in listed]),
        ("reward a step", [ends(one.reward, "{:.3f}") for _, _, one in listed]),
        ("exponent", [ends(one.exponent, "{:+.3f}") for _, _, one in listed]),
    ]
    lines = [
        "How the loop goes on from where the first start led, without one synapse: the mean reward and the largest "
        f"exponent of {STEPS // 2} steps, after {STEPS - STEPS // 2} others. Listed are the {FEW} synapses that move "
        "each figure most; --json has all."
    ]
    return [table("synapses", columns, lines, left=2)]


def ends(value: float, form: str) -> str:
    """Writes a figure of a run that may have ended."""
    return "the episode ends" if math.isnan(value) else form.format(round(value, 3) + 0.0)


def alone(report: LoopReport) -> list[Section]:
    """Returns a row for each observation that is held: where the circuit alone comes to rest, and how it gets there."""
    if not report.held:
        return []
    tallies = [counts(one.points) for one in report.held]
    led = [next((point for point in one.points if point.attracts), None) for one in report.held]
    slowest = [None if point is None else point.modes[0] for point in led]
    turning = [
        None if point is None else next((mode for mode in point.modes if is_turning(mode)), None) for point in led
    ]
    return [
        table(
            "circuit alone",
            [
                ("held input", [one.name for one in report.held]),
                ("attract", [str(tally[0]) for tally in tallies]),
                ("repel", [str(tally[1]) for tally in tallies]),
                ("slow", [str(tally[2]) for tally in tallies]),
                ("remembers", [NONE if mode is None else steps(mode.time_constant) for mode in slowest]),
                ("oscillates in", [NONE if mode is None else steps(mode.period) for mode in turning]),
                (
                    "tuned to",
                    [NONE if mode is None else report.sensors[mode.sensor] for mode in slowest],
                ),
            ],
            [
                "Where the circuit comes to rest while it sees the same observation all the time, one of the last 400 "
                "of a run: how many fixed points attract and repel, and slow points, where a step is shortest but not "
                "zero. Remembers: the time constant of the slowest mode at the first point that attracts; tuned to "
                "what drives it most."
            ],
        )
    ]


def is_turning(mode: Mode) -> bool:
    """Whether a mode oscillates before it has died out, over more than two steps."""
    return 2 < mode.period < math.inf and mode.time_constant > 1


def steps(count: float) -> str:
    """Writes a number of steps that need not be whole."""
    if not math.isfinite(count):
        return "for ever"
    return f"{count:,.0f} steps" if count >= 100 else f"{count:.3g} steps"


def share(value: float) -> str:
    """Writes a share of the actions' range."""
    if not math.isfinite(value):
        return NONE
    return "whole range" if value >= 1 else f"{100 * value:.2g} %"
