"""The findings of an attack, set beside the claims of a certificate, and a sentence for every claim that they break."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ncp_control.audit.certificate import Certificate, Range
from ncp_control.audit.matter import NEGLIGIBLE
from ncp_control.audit.widest import Reached
from ncp_control.base.intervals import Array, Interval

SHARE = 1 + 1e-9  # a bound of differences may be passed by so much, because it is computed in float64


class Probed(NamedTuple):
    """What a synapse or a neuron moved when its value was replaced in one of two copies.

    :param share: how far it moved an action, as a share of the action's range
    :param target: how far a synapse moved its target
    :param least: the least change of the target in a solver step in which the source rose
    :param most: the greatest such change
    """

    share: float
    target: float
    least: float
    most: float


class Rounded(NamedTuple):
    """How far rounding alone can drive two copies in float64 apart.

    :param actions: how far it moves each action, (A,), while no neuron is held
    :param share: how far it moves the action that it moves furthest while a neuron may be held, as a share of the range
    :param states: how far it moves each number of the state while a neuron may be held, (N,)
    :param step: how far it moves each number of the state in one solver step while a neuron may be held, (N,)
    """

    actions: Array
    share: float
    states: Array
    step: Array


@dataclass(frozen=True, eq=False)
class Apart:
    """How far two copies came apart.

    :param now: how far an error of one observation moved each action in the same step, (A,)
    :param always: how far errors of all observations moved it, (A,)
    :param kept: for how many steps two pasts kept some action apart by more than `epsilon` of its range
    :param raised: the least and the greatest change of each action by one higher sensor, (A, n)
    :param synapses: what some synapses did, by their numbers
    :param neurons: what some neurons did
    :param rounded: what rounding can do
    """

    now: Array
    always: Array
    kept: int
    raised: Interval
    synapses: dict[int, Probed]
    neurons: dict[int, Probed]
    rounded: Rounded


def with_findings(certificate: Certificate, reached: Reached, apart: Apart) -> Certificate:
    """Returns a certificate with what an attack found beside each claim."""
    states = tuple(
        replace(state, found_low=float(low), found_high=float(high))
        for state, low, high in zip(certificate.states, *reached.states, strict=True)
    )
    neurons = tuple(
        replace(
            neuron,
            # The attack notes the ranges of the state's numbers, and a neuron may be made of several of them.
            state=states[j] if neuron.state in certificate.states[j : j + 1] else neuron.state,
            time_constant=replace(
                neuron.time_constant,
                found_low=float(reached.time_constants.low[j]),
                found_high=float(reached.time_constants.high[j]),
            )
            if reached.time_constants.high[j] >= reached.time_constants.low[j]  # it was seen at least once
            else neuron.time_constant,
            found_matters=apart.neurons[j].share if j in apart.neurons else None,
        )
        for j, neuron in enumerate(certificate.neurons)
    )
    synapses = tuple(
        replace(synapse, found_matters=apart.synapses[k].share if k in apart.synapses else None)
        for k, synapse in enumerate(certificate.synapses)
    )
    actions = tuple(
        replace(
            action,
            raw=replace(action.raw, found_low=float(reached.raw.low[k]), found_high=float(reached.raw.high[k])),
            found_moved=float(apart.now[k]),
            found_always=float(apart.always[k]),
        )
        for k, action in enumerate(certificate.actions)
    )
    forgetting = certificate.forgetting
    if forgetting is not None:
        forgetting = replace(forgetting, found_steps=apart.kept)
    changed = {"states": states, "neurons": neurons, "synapses": synapses, "actions": actions}
    return replace(certificate, **changed, forgetting=forgetting)  # type: ignore[arg-type]


def violations_of(certificate: Certificate, reached: Reached, apart: Apart) -> tuple[str, ...]:
    """Returns a sentence for every claim that the attack broke.

    :param certificate: what `with_findings` returned
    """
    parts = ranges_left, actions_moved, targets_moved, signs_broken
    return tuple(sentence for part in parts for sentence in part(certificate, reached, apart))


def ranges_left(certificate: Certificate, reached: Reached, apart: Apart) -> Iterator[str]:
    """Says which ranges were left, which actions were NaN, and which impossible choices were made."""
    named: list[tuple[str, Range]] = [(f"the state of {neuron.name}", neuron.state) for neuron in certificate.neurons]
    if len(certificate.states) != len(certificate.neurons):
        named = [(f"state {k}", state) for k, state in enumerate(certificate.states)]
    named += [(f"the time constant of {neuron.name}", neuron.time_constant) for neuron in certificate.neurons]
    named += [(f"{action.name} before clipping", action.raw) for action in certificate.actions]
    for what, certified in named:
        if certified.is_broken:
            seen = f"{certified.found_low:.6g} to {certified.found_high:.6g}"
            yield f"{what} was certified to lie from {certified.low:.6g} to {certified.high:.6g}, and reached {seen}"
    for k, action in enumerate(certificate.actions):
        if reached.lost[k] and np.isfinite([action.value.low, action.value.high]).any():
            low, high = action.value.low, action.value.high
            yield f"{action.name} was certified to lie from {low:.6g} to {high:.6g}, and was no number"
        if reached.made[k] and not action.possible:
            yield f"{action.name} was certified never to be made, and was made"


def actions_moved(certificate: Certificate, reached: Reached, apart: Apart) -> Iterator[str]:
    """Says which actions were moved further than certified, or for longer."""
    for k, action in enumerate(certificate.actions):
        for bound, found, when in (
            (action.moved_in_step, apart.now[k], "in one step"),
            (action.moved_in_episode, apart.always[k], "by errors in every step"),
        ):
            if bound is not None and found > bound * SHARE + apart.rounded.actions[k]:
                yield f"{action.name} was certified to move by at most {bound:.6g} {when}, and moved by {found:.6g}"
    forgetting = certificate.forgetting
    if forgetting is not None and forgetting.steps is not None and apart.kept > forgetting.steps:
        yield f"two pasts were certified to differ for at most {forgetting.steps} steps, and differed for {apart.kept}"
    for k, probed in apart.synapses.items():
        synapse = certificate.synapses[k]
        if synapse.matters is not None and probed.share > synapse.matters * SHARE + apart.rounded.share:
            yield moved_too_far(f"the synapse {synapse.source} -> {synapse.target}", synapse.matters, probed.share)
    for k, probed in apart.neurons.items():
        neuron = certificate.neurons[k]
        if neuron.matters is not None and probed.share > neuron.matters * SHARE + apart.rounded.share:
            yield moved_too_far(neuron.name, neuron.matters, probed.share)


def moved_too_far(name: str, bound: float, found: float) -> str:
    """Says that something moved an action further than certified."""
    return f"{name} was certified to move an action by at most {bound:.6g} of its range, and moved it by {found:.6g}"


def targets_moved(certificate: Certificate, reached: Reached, apart: Apart) -> Iterator[str]:
    """Says which synapses moved their targets against their certified sign."""
    number = {neuron.name: j for j, neuron in enumerate(certificate.neurons)}
    for k, probed in apart.synapses.items():
        synapse = certificate.synapses[k]
        target = number[synapse.target]
        state, rounded = certificate.neurons[target].state, 2 * apart.rounded.step[target]
        name = f"the synapse {synapse.source} -> {synapse.target}"
        if synapse.sign == "0" and probed.target > NEGLIGIBLE * (state.high - state.low) + apart.rounded.states[target]:
            yield f"{name} was certified never to move its target, and moved it by {probed.target:.6g}"
        if synapse.sign == "+" and probed.least < -rounded:
            yield f"{name} was certified to raise its target, and lowered it by {-probed.least:.6g}"
        if synapse.sign == "-" and probed.most > rounded:
            yield f"{name} was certified to lower its target, and raised it by {probed.most:.6g}"


def signs_broken(certificate: Certificate, reached: Reached, apart: Apart) -> Iterator[str]:
    """Says which actions a higher sensor moved against the certified signs of its paths."""
    # Without derivatives no paths were followed, so a missing path claims nothing.
    if certificate.forgetting is not None and any(action.moved_in_step is None for action in certificate.actions):
        return
    signs = {(path.sensor, path.action): path.sign for path in certificate.paths}
    for s, sensor in enumerate(certificate.sensors):
        for a, action in enumerate(certificate.actions):
            sign, rounded = signs.get((sensor, action.name), "0"), apart.rounded.actions[a]
            least, most = apart.raised.low[a, s], apart.raised.high[a, s]
            if (sign in "0+" and least < -rounded) or (sign in "0-" and most > rounded):
                never = {"0": "never to reach", "+": "never to lower", "-": "never to raise"}[sign]
                change = least if sign != "-" and least < -rounded else most
                yield f"{sensor} was certified {never} {action.name}, and changed it by {change:.6g}"
