"""What an agent and its body do together in the long run: attractors, exponents, how far errors of sensors carry."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.recording.ends import LoopEnd, memory_of
from ncp_control.base.progress import tracked
from ncp_control.base.values import strict_json
from ncp_control.loop.attractors import SettledRun, grouped, settle
from ncp_control.loop.closed import ClosedLoop
from ncp_control.loop.cuts import Onward, synapses_of, without_each
from ncp_control.loop.cycles import SAME, Cycle, find_cycle
from ncp_control.loop.exponents import AHEAD, LEAST, SPIN_UP, LoopPath, MeanInterval, dimension, follow, interval
from ncp_control.loop.held import FIXED, HeldPoint, held_points

Array = NDArray[Any]
STARTS, THROWN, STEPS, MEASURED = 10, 30, 1000, 500
ENDED, REST, CYCLE, STEADY, CHAOS, CALM, OPEN = (
    "the episode ends", "rest", "cycle", "neutral", "chaos", "shrinking differences", "not decided",
)  # fmt: skip
# A largest exponent this near to 0 is told as 0. On a closed curve it is 0; in a slow drift, where a difference grows
# in proportion to time, ln(t) / t is measured.
NEUTRAL = 0.005
SURE = 0.02  # a largest exponent this far from 0 is believed of one start
STRONG = 0.05  # in chaos stronger than this, no cycle is looked for
MOST = 6  # so many groups of starts are measured
AGES = (0, 10, AHEAD - 1)  # steps after an error at which its effect is told
HELD = 5  # observations that are held, beside their mean
SEARCHES = 24  # states from which points are looked for
LEAD = 8  # modes that are told
ERROR = 0.01  # the size of an error, as a share of the observation's standard deviation


@dataclass(frozen=True)
class Attractor:
    """What a group of starts settles to.

    :param kind: one of the kinds above: `ENDED`, `REST`, `CYCLE`, `STEADY`, `CHAOS`, `CALM` or `OPEN`
    :param starts: how many starts of episodes lead here
    :param thrown: how many starts from any pose lead here
    :param reward: the mean reward of a step; NaN where the episode ends
    :param ends: for each start whose episode ended, after how many steps
    :param exponents: the Lyapunov exponents a step, the largest first
    :param measured: from how many starts these were measured; 0 if they follow from a cycle's multipliers
    :param dimension: that of the attractor by Kaplan and Yorke
    :param cycle: the rest point or the cycle; on an attractor of another kind, one that lies in it and does not attract
    :param observations: what the agent saw in one of the runs, (T, n)
    :param carried: how far an error of one standard deviation of each sensor moves the actions 0, 1, ... steps later,
        as a share of their range, (AHEAD, n); None if it was not measured
    :param moment: a moment on it, from which a recording can go on
    """

    kind: str
    starts: int
    thrown: int
    reward: float
    ends: tuple[int, ...] = ()
    exponents: tuple[MeanInterval, ...] = ()
    measured: int = 0
    dimension: float = math.nan
    cycle: Cycle | None = None
    observations: Array | None = None
    carried: Array | None = None
    moment: LoopEnd | None = None

    @property
    def largest(self) -> MeanInterval | None:
        """The largest exponent."""
        return self.exponents[0] if self.exponents else None


class HeldInput(NamedTuple):
    """An observation that is held, and where the circuit alone comes to rest.

    :param name: which observation it is, such as "step 100"
    :param observation: (n,)
    :param points: fixed points and slow points, the fixed ones first
    """

    name: str
    observation: Array
    points: tuple[HeldPoint, ...]


@dataclass(frozen=True)
class LoopReport:
    """What an agent and its body do together in the long run.

    :param agent: the agent's name
    :param env: the environment's id
    :param seconds: the seconds of a step; None if the environment does not say them
    :param starts: how many starts of episodes were followed
    :param thrown: how many starts from any pose
    :param steps: for how many steps
    :param size: the number of entries of the loop's state that matter: of the body, the neurons and the action
    :param sensors: a name for each observation
    :param attractors: what was found, first that to which the most starts of episodes lead
    :param held: where the circuit alone comes to rest, for observations of the first attractor; empty without a circuit
    :param cuts: how the loop goes on where the first start led that did not end: with the whole circuit, and without
        each synapse; empty if that was not asked for
    """

    agent: str
    env: str
    seconds: float | None
    starts: int
    thrown: int
    steps: int
    size: tuple[int, int, int]
    sensors: tuple[str, ...]
    attractors: tuple[Attractor, ...]
    held: tuple[HeldInput, ...] = ()
    cuts: tuple[Onward, ...] = ()

    def to_json(self) -> str:
        """Returns the report as one JSON object."""
        return json.dumps(
            {
                "agent": self.agent, "env": self.env, "seconds_per_step": self.seconds, "starts": self.starts,
                "thrown": self.thrown, "steps": self.steps,
                "size": dict(zip(("body", "neurons", "actions"), self.size, strict=True)),
                "sensors": list(self.sensors), "attractors": [as_json(one) for one in self.attractors],
                "held": [held_json(one, self.sensors) for one in self.held],
                "cuts": [strict_json(one._asdict()) for one in self.cuts],
            }
        )  # fmt: skip


def analyse(
    agent: Any,
    env: Any,
    starts: int = STARTS,
    thrown: int = THROWN,
    steps: int = STEPS,
    measured: int = MEASURED,
    seed: int = 0,
    *,
    synapses: bool = False,
    name: str = "",
    seconds: float | None = None,
    progress: bool = True,
) -> LoopReport:
    """Follows an agent and its body from many starts, and measures what they settle to.

    Example::

        agent = load_policy("checkpoints/halfcheetah.safetensors")
        report = analyse(agent, gym.make("HalfCheetah-v5"))
        print(report.attractors[0].kind, report.attractors[0].largest)

    :param agent: a policy from `load_policy`
    :param env: its environment, with no disturbance around it
    :param starts: how many starts of episodes are followed, with the seeds from `seed` on
    :param thrown: how many starts from any pose are followed as well
    :param steps: for how many steps each is followed until it counts as settled
    :param measured: over how many steps exponents are measured, from up to `starts` starts of each attractor
    :param seed: of the starts
    :param synapses: cut each synapse of the circuit for a while as well, to see what it does for the loop
    :param name: the agent's name in the report; by default its own
    :param seconds: of a step
    :param progress: show progress bars
    """
    if starts < 0 or thrown < 0 or starts + thrown < 1:
        raise ValueError(f"the closed loop needs at least one start, got {starts} of episodes and {thrown} thrown")
    if steps < 2 * AHEAD or measured < AHEAD:
        raise ValueError(
            f"a run needs at least {2 * AHEAD} steps to settle and {AHEAD} to be measured, got {steps} and {measured}"
        )
    loop = ClosedLoop(agent, env)
    names = synapses_of(loop) if synapses else []
    random = np.random.default_rng(seed)
    first = [loop.start(seed + k) for k in range(starts)] + [loop.thrown(random) for _ in range(thrown)]
    with tracked("settling", steps, shown=progress) as tracker:
        settled = settle(loop, first, [k >= starts for k in range(len(first))], steps, lambda: tracker.advance(1, 1))
    groups = [[settled[k] for k in group] for group in grouped(settled)]
    most = max(starts, 1)
    total = sum(min(len(group), most) for group in groups[:MOST] if group[0].ended is None)
    with tracked("measuring", total * (SPIN_UP + measured), shown=progress) as tracker:
        found = [
            measure(agent, loop, group, most if k < MOST else 0, measured, lambda count: tracker.advance(count, count))
            for k, group in enumerate(groups)
        ]
    cuts, led = [], next((run.states[-1] for run in settled if run.ended is None), None)
    if names and led is not None:
        with tracked("cutting", 1 + len(names), unit="synapses", shown=progress) as tracker:
            cuts = without_each(loop, led, names, lambda: tracker.advance(1, 1))
    found = sorted(merged(loop, found), key=lambda one: (one.starts, one.thrown), reverse=True)
    spec = getattr(env, "spec", None)
    return LoopReport(
        name or agent.name, "" if spec is None else str(spec.id), seconds, starts, thrown, steps,
        (len(loop.kept), loop.neurons, loop.actions), tuple(loop.body.sensors), tuple(found), alone(loop, settled),
        tuple(cuts),
    )  # fmt: skip


def alone(loop: ClosedLoop, settled: Sequence[SettledRun]) -> tuple[HeldInput, ...]:
    """Returns where the circuit comes to rest while it sees single observations of the first run, or their mean."""
    runs = [run for run in settled if run.ended is None]
    if not loop.neurons or not runs:
        return ()
    neurons = np.array([state.neurons for state in runs[0].states])
    seen = runs[0].observations[-len(neurons) :]
    chosen = np.linspace(0, len(seen) - 1, HELD).round().astype(int) if seen.std(axis=0).max() > FIXED else []
    inputs = [*((f"step {k + 1}", seen[k]) for k in chosen), ("the mean", seen.mean(axis=0))]
    starts = neurons[np.unique(np.linspace(0, len(neurons) - 1, SEARCHES).round().astype(int))]
    points = held_points(loop, np.array([shown for _, shown in inputs]), starts, seen.std(axis=0))
    return tuple(HeldInput(name, shown, tuple(own)) for (name, shown), own in zip(inputs, points, strict=True))


def measure(
    agent: Any, loop: ClosedLoop, group: Sequence[SettledRun], most: int, steps: int, advance: Callable[[int], None]
) -> Attractor:
    """Returns what one group of runs settled to.

    :param agent: the agent
    :param loop: the closed loop
    :param group: the runs
    :param most: from how many of them exponents are measured
    :param steps: over how many steps
    :param advance: called with the number of steps that were measured
    """
    counts = sum(not one.thrown for one in group), sum(one.thrown for one in group)
    one, whole = group[0], min(len(group), most) * (SPIN_UP + steps)
    if one.ended is not None:
        return Attractor(ENDED, *counts, math.nan, ends=tuple(run.ended or 0 for run in group))
    reward = float(np.mean([run.rewards.mean() for run in group]))
    memory = memory_of(agent.policy, one.states[-2].neurons)
    moment = LoopEnd(one.states[-1].body, one.observations[-1], memory, 0)
    plain = Attractor(OPEN, *counts, reward, observations=one.observations, moment=moment)
    if not most:
        return plain
    returned = has_returned(loop, one)
    cycle = find_cycle(loop, one.states) if returned else None
    if cycle is not None and cycle.attracts:
        path = follow(loop, one.states[-1], steps) if cycle.period > 1 else None
        advance(whole)
        return replace(with_cycle(plain, cycle), carried=None if path is None else shares(loop, [path]))
    paths: list[LoopPath] = []
    for run in group[:most]:
        paths.append(follow(loop, run.states[-1], steps))
        advance(SPIN_UP + steps)
    paths = [path for path in paths if np.isfinite(path.exponents).all()]
    if loop.chooses or not paths:  # a choice jumps, and has no derivative
        return plain
    exponents = tuple(interval([path.exponents[k] for path in paths]) for k in range(len(paths[0].exponents)))
    means = np.array([each.mean for each in exponents])
    measured = replace(
        plain, kind=kind_of(exponents[0]), exponents=exponents, measured=len(paths), dimension=dimension(means),
        carried=shares(loop, paths),
    )  # fmt: skip
    if exponents[0].mean > STRONG or returned:
        return measured
    cycle = find_cycle(loop, paths[0].states)
    if cycle is not None and cycle.attracts:
        return replace(with_cycle(plain, cycle), carried=measured.carried)
    return replace(measured, cycle=cycle)


def merged(loop: ClosedLoop, found: Sequence[Attractor]) -> list[Attractor]:
    """Returns attractors, of which those that are the same cycle, or the same rest point, are one."""
    kept: list[Attractor] = []
    for one in found:
        same = [k for k, other in enumerate(kept) if is_same(loop, one, other)]
        if not same:
            kept.append(one)
            continue
        other = kept[same[0]]
        share = other.starts + other.thrown, one.starts + one.thrown
        kept[same[0]] = replace(
            other, starts=other.starts + one.starts, thrown=other.thrown + one.thrown,
            reward=(share[0] * other.reward + share[1] * one.reward) / sum(share),
        )  # fmt: skip
    return kept


def is_same(loop: ClosedLoop, one: Attractor, other: Attractor) -> bool:
    """Whether two attractors are the same cycle, which may begin at another of its states."""
    if one.kind not in (REST, CYCLE) or one.kind != other.kind or one.cycle is None or other.cycle is None:
        return False
    first = one.cycle.states[0]
    return min(float(np.linalg.norm(loop.deviation(state, first))) for state in other.cycle.states) < SAME


def has_returned(loop: ClosedLoop, run: SettledRun) -> bool:
    """Whether the last state of a run was there before, up to the last thousandth of a per cent of what it moves."""
    away = np.linalg.norm([loop.deviation(state, run.states[-1]) for state in run.states[:-1]], axis=1)
    return bool(away.min() <= max(1e-5 * away.max(), 1e-7))


def kind_of(largest: MeanInterval) -> str:
    """Returns the kind of an attractor whose largest exponent was measured."""
    if abs(largest.mean) <= NEUTRAL:
        return STEADY
    if largest.low == largest.high:  # of one start, which has no interval
        return CHAOS if largest.mean > SURE else CALM if largest.mean < -SURE else OPEN
    if largest.low > 0:
        return CHAOS
    return CALM if largest.high < 0 else OPEN


def with_cycle(plain: Attractor, cycle: Cycle) -> Attractor:
    """Returns an attractor that is a cycle; its exponents follow from the multipliers."""
    sizes = np.maximum(np.abs(cycle.multipliers), math.exp(LEAST * cycle.period))
    exponents = tuple(MeanInterval(*3 * [float(value)]) for value in np.log(sizes) / cycle.period)
    kind = REST if cycle.period == 1 else CYCLE
    return replace(plain, kind=kind, exponents=exponents, dimension=0.0, cycle=cycle)


def shares(loop: ClosedLoop, paths: Sequence[LoopPath]) -> Array | None:
    """Returns `Attractor.carried`."""
    if loop.range is None:
        return None
    width = float(np.linalg.norm(loop.range[1] - loop.range[0]))
    units = np.mean([path.observations.std(axis=0) for path in paths], axis=0)
    found: Array = np.sqrt(np.nanmean([path.carried**2 for path in paths], axis=0)) * units / width
    return found


def as_json(one: Attractor) -> dict[str, Any]:
    """Returns an attractor as JSON values."""
    finite = [None if math.isnan(value) else value for value in (one.reward, one.dimension)]
    found: dict[str, Any] = {
        "kind": one.kind, "starts": one.starts, "thrown": one.thrown, "reward": finite[0], "ends": list(one.ends),
        "exponents": [each._asdict() for each in one.exponents], "measured": one.measured, "dimension": finite[1],
    }  # fmt: skip
    if one.cycle is not None:
        found["period"], found["residual"] = one.cycle.period, one.cycle.residual
        found["multipliers"] = [[float(each.real), float(each.imag)] for each in one.cycle.multipliers]
    if one.carried is not None:
        found["errors_move_actions"] = {str(age): (ERROR * one.carried[age]).tolist() for age in AGES}
    return found


def held_json(one: HeldInput, sensors: Sequence[str]) -> dict[str, Any]:
    """Returns what a held observation leads to as JSON values, with the slowest modes."""
    points = [
        {
            "neurons": point.neurons.tolist(), "speed": point.speed, "attracts": point.attracts,
            "modes": [
                {
                    "multiplier": [mode.multiplier.real, mode.multiplier.imag],
                    "time_constant": mode.time_constant if math.isfinite(mode.time_constant) else None,
                    "period": mode.period if math.isfinite(mode.period) else None,
                    "tuned_to": sensors[mode.sensor],
                }
                for mode in point.modes[:LEAD]
            ],
        }
        for point in one.points
    ]  # fmt: skip
    return {"input": one.name, "observation": one.observation.tolist(), "points": points}
