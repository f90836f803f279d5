"""The attack on a certificate: the searches that try to break its claims, and how large each of them is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ncp_control.audit.box import finite_box, units_of
from ncp_control.audit.certificate import Attack, Certificate
from ncp_control.audit.copies import Copies, Probes
from ncp_control.audit.differences import Differences, product_up
from ncp_control.audit.examining import Examined
from ncp_control.audit.findings import Apart, Probed, Rounded, violations_of, with_findings
from ncp_control.audit.layers import through
from ncp_control.audit.matter import links_of, spread
from ncp_control.audit.sequences import Sequences
from ncp_control.audit.widest import LONGEST, Attacker
from ncp_control.base.intervals import Array, Interval, rounding
from ncp_control.base.progress import tracked
from ncp_control.neurons.ranges import Elapsed, Slopes

ATTACK = 200_000  # observations, about a second's worth; the command line repeats this number
ROUNDING = 2.0**-47  # 64 times the unit roundoff of float64: an operation's, and room for all that is not counted
NEARLY_ALL = 0.999  # a claim of more than this share of a range cannot be broken, as nothing moves an action further
MOST_PROBES = 128  # at most so many synapses are tried, and so many neurons
# Each part of an attack has its share of the observations, and the climbing has what they leave.
RANDOM, CREEPING, LONG = 0.1, 0.25, 0.25
ALWAYS, KEPT, RAISED, COPIES = 0.06, 0.03, 0.02, 0.15  # three searches with two copies, and all such searches together
MOST_CREEPING, MOST_LONG = 100_000, 200_000  # more of these reaches hardly further
PARTS = 10  # the climbing stops so often to show its progress
INPUTS_A_STEP = 2000  # the sequences in which sources are replaced have one step for so many observations of the attack


def attacked(
    certificate: Certificate,
    seen: Examined,
    observations: Interval,
    elapsed: Elapsed,
    inputs: int,
    seed: int,
    recording: Any,
    progress: bool,
) -> Certificate:
    """Attacks a certificate, and returns it with what the attack found.

    :param certificate: the claims
    :param seen: the agent, taken apart
    :param observations: the certified box, (n,)
    :param elapsed: the certified times
    :param inputs: about how many observations the agent sees
    :param seed: seed of all that is drawn
    :param recording: observations (T, n) that are tried, too; or None
    :param progress: show a progress bar
    """
    start, controller = time.perf_counter(), seen.controller
    drawn = Sequences(finite_box(controller, observations), elapsed, seed)
    attacker, copies = Attacker(controller, drawn), Copies(controller, drawn)
    if recording is not None and len(recording):
        # An observation outside the box would break no claim.
        recorded = torch.as_tensor(np.asarray(recording), dtype=torch.float32)[None].clamp(drawn.low, drawn.high)
        attacker.note(recorded, torch.full(recorded.shape[:2], elapsed.low))
    crept, enough = min(CREEPING * inputs, MOST_CREEPING), (1 - COPIES) * inputs
    climbed = enough - crept - min(LONG * inputs, MOST_LONG)
    climbs = [(attacker.climb, goal) for goal in np.linspace(RANDOM * inputs, climbed, PARTS + 1)[1:]]
    # The climbing starts from what the exploring found, and the last two parts from where the climbing ended.
    parts = [(attacker.explore, RANDOM * inputs), *climbs, (attacker.creep, climbed + crept), (attacker.go_on, enough)]
    with tracked("attacking", inputs, unit="inputs", shown=progress) as tracker:
        for part, goal in parts:
            before = attacker.inputs
            part(int(goal))
            tracker.advance(attacker.inputs - before, attacker.inputs - before, "")
        apart = come_apart(certificate, seen, copies, inputs, attacker.inputs)
        tracker.advance(copies.inputs, copies.inputs, "")
    reached = attacker.reached()
    compared = with_findings(certificate, reached, apart)
    tight = [state.tightness for state in compared.states if state.tightness is not None]
    attack = Attack(
        inputs=attacker.inputs + copies.inputs,
        violations=violations_of(compared, reached, apart),
        tightness=float(np.median(tight)) if tight else None,
        seconds=time.perf_counter() - start,
        longest=max(reached.longest, copies.longest),
    )
    return replace(compared, attack=attack)


def come_apart(certificate: Certificate, seen: Examined, copies: Copies, inputs: int, done: int) -> Apart:
    """Drives two copies of an agent apart in every way that a certificate bounds.

    :param inputs: how many observations the whole attack has
    :param done: how many of them the agent has seen already
    """
    errors, rounded = certificate.error * units_of(seen.controller), rounded_by(seen)
    # An endless range has no share, and rounding alone keeps two copies a little apart.
    allowed = np.where(np.isfinite(seen.ranges), certificate.epsilon * seen.ranges, np.inf) + rounded.actions
    synapses, neurons = probed_of(certificate, seen, copies.drawn)
    probed = probe(seen, synapses, neurons, copies, max(8, min(LONGEST, inputs // INPUTS_A_STEP)))
    moved_in_episode = copies.always(errors, int(ALWAYS * inputs))
    kept, raised = copies.kept(allowed, int(KEPT * inputs)), copies.raised(int(RAISED * inputs))
    # It comes last, with all observations that the other parts left.
    moved_in_step = copies.now(errors, inputs - done - copies.inputs)
    return Apart(
        now=moved_in_step,
        always=np.maximum(moved_in_episode, moved_in_step),  # an error in one step is one of errors in all steps
        kept=kept,
        raised=raised,
        synapses=dict(zip(synapses, probed, strict=False)),
        neurons=dict(zip(neurons, probed[len(synapses) :], strict=True)),
        rounded=rounded,
    )


def probed_of(certificate: Certificate, seen: Examined, drawn: Sequences) -> tuple[list[int], list[int]]:
    """Returns the numbers of the synapses and of the neurons whose claims are tried: first the dead ones, then others.

    :param drawn: chooses among claims of equal urgency
    """
    if seen.differences is None or seen.known is None or not seen.known.has_neurons:
        return [], []
    chosen = []
    everything: tuple[Sequence[Any], ...] = (certificate.synapses, certificate.neurons)
    for every in everything:
        order = torch.randperm(len(every), generator=drawn.random).tolist()
        urgent = {k: urgency(every[k].matters, every[k].condition, getattr(every[k], "sign", "?")) for k in order}
        shown = sorted((k for k in order if urgent[k]), key=lambda k: -urgent[k])
        chosen.append(shown[:MOST_PROBES])
    return chosen[0], chosen[1]


def urgency(matters: float | None, condition: str, sign: str) -> int:
    """Returns how urgent it is to try a claim about a synapse or a neuron: 3 for a dead one, 0 if nothing is claimed.

    A claim that something moves an action through its whole range cannot be broken: nothing moves it further.
    """
    if matters is None:
        return 0
    if condition == "dead" or sign == "0":
        return 3
    return 2 if matters < NEARLY_ALL else 1 if sign in "+-" else 0


def probe(seen: Examined, synapses: list[int], neurons: list[int], copies: Copies, steps: int) -> list[Probed]:
    """Replaces what some synapses, and behind them some neurons, carry, and returns what each of them moved."""
    if not synapses and not neurons:
        return []
    known = seen.known
    assert known is not None
    links, count = links_of(known.cell), len(synapses) + len(neurons)
    tries = max(1, MOST_PROBES // count)  # each probe runs so many times, side by side
    sensory = np.array([links.kind[k] == "sensory" for k in synapses] + [False] * len(neurons))
    source = np.concatenate([links.source[synapses], np.array(neurons, dtype=np.int64)])
    target = np.concatenate([links.target[synapses], np.full(len(neurons), -1)])
    # Where the source is of the other kind, index 0 only fills the place.
    inner, outer = np.where(sensory, 0, source), np.where(sensory, source, 0)
    ends = [
        np.where(sensory, read[outer], state[inner]) for read, state in zip(seen.features, seen.states, strict=True)
    ]
    sensory, source, target, low, high = (np.tile(values, tries) for values in (sensory, source, target, *ends))
    probes = Probes(sensory, source, target, known.layer, Interval(low, high))
    carried = copies.carried(probes, steps, known.substeps)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = np.nan_to_num(carried.actions / seen.ranges, posinf=0.0).max(axis=1)
    share, moved, least, most = (values.reshape(tries, count) for values in (shares, carried.target, *carried.steepest))
    rows = zip(share.max(axis=0), moved.max(axis=0), least.min(axis=0), most.max(axis=0), strict=True)
    return [Probed(*map(float, row)) for row in rows]


def rounded_by(seen: Examined) -> Rounded:
    """Returns how far rounding in float64 can drive two copies apart: by as much as it widens the intervals."""
    controller, known = seen.controller, seen.known

    def ends() -> tuple[Interval, Interval]:
        if known is None:
            return through(controller.head, seen.features), seen.states
        return through(controller.head, known.outputs(seen.states)), known.after(seen.states, seen.features)

    with rounding(0.0):
        narrow = ends()
    with rounding(ROUNDING):
        wide = ends()
    with np.errstate(invalid="ignore"):
        lost = [np.maximum(one.low - two.low, two.high - one.high) for one, two in zip(narrow, wide, strict=True)]
    # Each of the two copies rounds.
    actions, step = (2 * np.nan_to_num(one, nan=np.inf, posinf=np.inf) for one in lost)
    if controller.squashes:
        actions = actions * seen.ranges / 2  # numbers from -1 to 1 are stretched to the range

    def added_up(slopes: Slopes | None, differences: Differences | None) -> tuple[Array, Array, Array]:
        """Returns how far the actions, the states, and the states within one solver step can come apart."""
        if slopes is None or differences is None:
            return actions, step, step
        # What every neuron reads is rounded, too, which does not widen an interval that lies at its limit already.
        among, inputs = slopes.before.size + slopes.same.size, slopes.inputs.size
        read = product_up(among, seen.states.size) + product_up(inputs, seen.features.size)
        once = step + 2 * ROUNDING * sum(inputs.shape) * read
        states = spread(differences, once[:, None])[:, 0]
        return actions + differences.moved(states), states, once

    held, states, once = added_up(seen.held, seen.held_differences)
    free = held if seen.held is seen.slopes else added_up(seen.slopes, seen.differences)[0]
    moving = seen.ranges > 0
    share = float(np.nan_to_num(held[moving] / seen.ranges[moving], nan=0.0, posinf=np.inf).max(initial=0.0))
    return Rounded(free, share, states, once)
