"""One agent inside a box, taken apart for an audit: where its states, outputs and actions can be, and their slopes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ncp_control.audit.box import features_in
from ncp_control.audit.differences import Differences
from ncp_control.audit.layers import slopes_through, through
from ncp_control.base.intervals import Array, Interval, add, between, multiply, point
from ncp_control.base.slopes import product_of
from ncp_control.neurons.ranges import Elapsed, Known, Slopes, known_of, numbers
from ncp_control.rl.controller import Controller

MOST_NUMBERS = 2_000  # of a state: matrices of twice as many take gigabytes
MOST_ROUNDS = 1000  # a limit of time alone, because the result of every round holds
SETTLED = 1e-7  # a round that shrinks no interval by more than this share of its width is the last one


@dataclass(frozen=True, eq=False)
class Examined:
    """What interval arithmetic says about an agent inside a box.

    :param controller: the agent
    :param known: what is known about its cell; None for an agent without a memory
    :param features: bounds of what the circuit reads, (F,)
    :param states: bounds of the states, (N,)
    :param raw: bounds of the actions before clipping, or of the values of choices, (A,)
    :param actions: bounds of the actions, (A,); of a choice, how far its value exceeds that of the best other choice
    :param slopes: the derivatives of a solver step; None if they are not known
    :param held: the same where any neuron may be held anywhere in `states`
    :param gain: the derivatives of the actions by the states, or by the features without a memory, (A, N or F)
    """

    controller: Controller
    known: Known | None
    features: Interval
    states: Interval
    raw: Interval
    actions: Interval
    slopes: Slopes | None
    held: Slopes | None
    gain: Interval

    @cached_property
    def differences(self) -> Differences | None:
        """The system of the distances between two copies; None if the derivatives are not known."""
        if self.known is None or self.slopes is None:
            return None
        return Differences.of(self.slopes, self.gain, self.states, self.known.substeps)

    @cached_property
    def held_differences(self) -> Differences | None:
        """The same system where one of the copies may have a neuron held anywhere in its certified range."""
        if self.held is self.slopes or self.known is None or self.held is None:
            return self.differences
        return Differences.of(self.held, self.gain, self.states, self.known.substeps)

    @property
    def ranges(self) -> Array:
        """The range of each action, (A,), which shares refer to: that of its space, or of a choice's value."""
        if self.controller.chooses:
            return self.raw.width
        return np.asarray(numbers(self.controller.high - self.controller.low).reshape(-1))


def examine(controller: Controller, observations: Interval, elapsed: Elapsed) -> Examined:
    """Computes everything that does not depend on an attack.

    :param controller: the agent
    :param observations: the box, (n,), before normalisation
    :param elapsed: the times between two observations
    """
    features = features_in(controller, observations, elapsed)
    if controller.rnn is None:
        raw, gain = through(controller.head, features), slopes_through(controller.head, features)
        empty = between(0.0, 0.0, 0)
        return Examined(
            controller, None, features, empty, raw, clipped(controller, raw), None, None, scaled(controller, gain)
        )
    known = known_of(controller.rnn.cell, elapsed)
    if known.size > MOST_NUMBERS:
        raise ValueError(
            f"an audit compares every number of a state with all others: it takes at most {MOST_NUMBERS:,}, and this "
            f"circuit has {known.size:,}"
        )
    states = of_numbers(known, reachable(known, features), features)
    outputs = known.outputs(states)
    # A state that is NaN may reach an output, and the head adds up all outputs for every action.
    raw = through(controller.head, outputs).where(states.is_finite.all() or known.stays_finite)
    gain = product_of(slopes_through(controller.head, outputs), known.output_slopes(states))
    slopes = known.slopes(states, features)
    held = known.held_slopes(states, features, slopes)
    return Examined(
        controller, known, features, states, raw, clipped(controller, raw), slopes, held, scaled(controller, gain)
    )


def clipped(controller: Controller, raw: Interval) -> Interval:
    """Returns the actions for values before clipping; of choices, how far each value exceeds the best other value.

    Where a value can be NaN, and so has no range, the action has none either.
    """
    if controller.chooses:
        others = [np.delete(np.arange(len(raw.low)), k) for k in range(len(raw.low))]
        least = [raw.low[k] - raw.high[other].max(initial=-np.inf) for k, other in enumerate(others)]
        most = [raw.high[k] - raw.low[other].max(initial=-np.inf) for k, other in enumerate(others)]
        return Interval(np.array(least), np.array(most))
    low, high = (numbers(end).reshape(-1) for end in (controller.low, controller.high))
    if controller.squashes:
        half = (high - low) / 2
        scaled = add(multiply(add(raw, point(np.ones_like(half))), point(half)), point(low))
        # Without a range a value can be NaN, which no limit holds back.
        return scaled.within(between(low, high, low.shape)) if (raw.size <= 1).all() else scaled
    return Interval(*(np.minimum(np.maximum(end, low), high) for end in raw)).where(raw.is_finite)


def scaled(controller: Controller, gain: Interval) -> Interval:
    """Returns derivatives of the clipped actions (A, ...) for those before clipping, which has no slope above 1."""
    if controller.squashes:
        half = numbers(controller.high - controller.low).reshape(-1, 1) / 2
        return Interval(gain.low * half, gain.high * half)
    return gain


def step_from(seen: Examined, states: Interval, features: Interval) -> tuple[Interval, Interval]:
    """Returns bounds of the states and of the actions (or the values of choices) a step after states in an interval."""
    controller, known = seen.controller, seen.known
    outputs = features
    if known is not None:
        for _ in range(known.substeps):
            states = known.after(states, features)
        outputs = known.outputs(states)
    raw = through(controller.head, outputs)
    return states, raw if controller.chooses else clipped(controller, raw)


def reachable(known: Known, features: Interval) -> Interval:
    """Returns bounds of every state that the cell can reach from zero while it reads `features`, (N,).

    It begins with bounds that hold for any input, and makes them smaller round by round: while all states lie in X,
    none leaves the hull of zero and `known.settled(X)`, so that hull bounds them, too. In a circuit without cycles this
    ends after as many rounds as the circuit is deep. Every round's result holds for all states that are numbers.

    :param features: bounds of what the cell reads, (F,)
    """
    states, zero = known.outer(), between(0.0, 0.0, known.size)
    for _ in range(MOST_ROUNDS):
        smaller = known.settled(states, features).hull(zero).within(states)
        with np.errstate(invalid="ignore"):
            moved = [smaller.low - states.low, states.high - smaller.high]
            # An infinite end that stays is infinity less infinity, and has not moved.
            shrunk = np.nan_to_num(moved, nan=0.0, posinf=np.inf).max(axis=0)
        states = smaller
        if not (shrunk > SETTLED * np.nan_to_num(states.width, posinf=0.0)).any():
            break
    return states


def of_numbers(known: Known, states: Interval, features: Interval) -> Interval:
    """Returns the bounds of the states that are surely numbers, and infinite ones for those that can become NaN.

    Every state that can overflow can become NaN, and so can all behind it: even a synapse of weight zero passes NaN on.

    :param states: what `reachable` returned
    :param features: bounds of what the cell reads, (F,)
    """
    numbers = known.settled(states, features).is_finite | known.stays_finite
    return states.where(~behind(known, ~numbers))


def behind(known: Known, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Returns the chosen numbers of the state and all that synapses carry them to, (N,)."""
    if not known.has_neurons:  # every number can depend on every other one
        return np.full(known.size, bool(chosen.any()))
    synapses, gaps = known.cell.wiring.synapses, known.cell.wiring.gap_junctions
    source = np.concatenate([synapses.source, gaps[:, 0], gaps[:, 1]])
    target = np.concatenate([synapses.target, gaps[:, 1], gaps[:, 0]])
    affected: NDArray[np.bool_] = chosen.copy()
    count = 0
    while affected.sum() > count:
        count = int(affected.sum())
        affected[target[affected[source]]] = True
    return affected
