"""A certificate together with what an attack on it has found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ncp_control.audit.attack import Found, attack
from ncp_control.audit.box import finite_box, units_of
from ncp_control.audit.cells.known import Elapsed
from ncp_control.audit.certificate import Attack, Certificate
from ncp_control.audit.examining import Examined
from ncp_control.audit.intervals import Interval

# Differences are certified in exact arithmetic, and the attack subtracts the results of two runs in float32.
ROUNDING_SHARE, ROUNDING = 1e-3, 1e-5


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
    """Attacks a certificate, and returns it with what was found."""
    controller = seen.controller
    errors, box = certificate.error * units_of(controller), finite_box(controller, observations)
    recorded = None if recording is None else np.clip(np.asarray(recording, dtype=np.float64), *box)
    found = attack(
        controller, box, elapsed, inputs, errors=errors, epsilon=certificate.epsilon, ranges=seen.ranges, seed=seed,
        recorded=recorded, progress=progress,
    )  # fmt: skip
    return with_findings(certificate, found)


def with_findings(certificate: Certificate, found: Found) -> Certificate:
    """Returns a certificate with what an attack reached, and a sentence for every claim that it broke."""
    states = tuple(
        replace(one, found_low=float(low), found_high=float(high))
        for one, low, high in zip(certificate.states, *found.states, strict=True)
    )
    neurons = tuple(
        replace(
            one,
            state=states[j] if one.state == certificate.states[j] else one.state,
            time_constant=replace(
                one.time_constant,
                found_low=float(found.time_constants.low[j]),
                found_high=float(found.time_constants.high[j]),
            )
            if found.time_constants.high[j] >= found.time_constants.low[j]
            else one.time_constant,
        )
        for j, one in enumerate(certificate.neurons)
    )
    actions = tuple(
        replace(
            one,
            raw=replace(one.raw, found_low=float(found.raw.low[k]), found_high=float(found.raw.high[k])),
            found_moved=float(found.moved[k]),
        )
        for k, one in enumerate(certificate.actions)
    )
    tight = [one.tightness for one in states if one.tightness is not None]
    forgetting = certificate.forgetting
    if forgetting is not None:
        forgetting = replace(forgetting, found_steps=found.kept)
    changed = replace(certificate, states=states, neurons=neurons, actions=actions, forgetting=forgetting)
    tightness = float(np.median(tight)) if tight else None
    lost = ("an action was no number",) if found.lost else ()
    return replace(changed, attack=Attack(found.inputs, (*lost, *violations_of(changed)), tightness, found.seconds))


def violations_of(certificate: Certificate) -> tuple[str, ...]:
    """Returns a sentence for every claim that what was found breaks."""
    named = [(f"the state of {one.name}", one.state) for one in certificate.neurons]
    if len(certificate.states) != len(certificate.neurons):
        named = [(f"state {k}", one) for k, one in enumerate(certificate.states)]
    named += [(f"the time constant of {one.name}", one.time_constant) for one in certificate.neurons]
    named += [(f"{one.name} before clipping", one.raw) for one in certificate.actions]
    broken = [
        f"{what} was certified to lie from {one.low:.6g} to {one.high:.6g}, and reached {one.found_low:.6g} to "
        f"{one.found_high:.6g}"
        for what, one in named
        if one.is_broken
    ]
    broken += [
        f"{one.name} was certified to move by at most {one.moved_now:.6g}, and moved by {one.found_moved:.6g}"
        for one in certificate.actions
        if one.moved_now is not None
        and one.found_moved is not None
        and one.found_moved > one.moved_now * (1 + ROUNDING_SHARE) + ROUNDING
    ]
    forgetting = certificate.forgetting
    if forgetting is not None and forgetting.steps is not None and (forgetting.found_steps or 0) > forgetting.steps:
        broken.append(
            f"two pasts were certified to differ for at most {forgetting.steps} steps, and differed for "
            f"{forgetting.found_steps}"
        )
    return tuple(broken)
