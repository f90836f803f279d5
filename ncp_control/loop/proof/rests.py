"""Where bodies come to rest: found from many starts anywhere, and proved by an interval Newton method."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ncp_control.base.intervals import Array
from ncp_control.base.progress import tracked
from ncp_control.loop.proof.proving import Proof, Prover, Rest, body_named
from ncp_control.loop.proof.sets import Sets
from ncp_control.rl.files.loaded_policy import LoadedPolicy

PERIODS = 1000  # for which they are followed at most
STILL = 1e-7  # who moves less than this in a period, in the scales, is at rest
SAME = 1e-3  # rests that are this near are one
RADII = 10.0 ** np.arange(-6, -0.9, 0.5)  # of the boxes in which a rest is looked for


def with_rests(agent: LoadedPolicy, proof: Proof, bodies: int, *, seed: int = 0, progress: bool = True) -> Proof:
    """Returns a proof with the rests to which bodies come that start anywhere, with any state of the neurons.

    :param agent: the agent that the proof is about
    :param proof: the proof
    :param bodies: how many are followed, without errors of their sensors
    :param seed: draws their starts
    :param progress: show a progress bar
    """
    proof.check_is_of(agent)
    if bodies < 1:
        raise ValueError(f"to find rests takes bodies, got {bodies}")
    prover, random = Prover(agent, body_named(proof.body), 0.0), np.random.default_rng(seed)
    scales = np.append(prover.body.scales, np.ones(prover.loop.circuit.size))
    reach = np.append(prover.body.anywhere, np.ones(prover.loop.circuit.size))
    points = random.uniform(-1, 1, (bodies, len(scales))) * reach
    with tracked("to rest", PERIODS, unit="periods", shown=progress) as tracker:
        for _ in range(PERIODS):
            before, points = points, prover.simulated(points)
            still = (np.abs(points - before) / scales).max(axis=1) < STILL
            tracker.advance(1, 1)
            if still.all():
                break
    points = points[still]
    found: list[Rest] = []
    while len(points):
        near = (np.abs(points - points[0]) / scales).max(axis=1) < SAME
        at = points[near].mean(axis=0)
        found.append(Rest(tuple(at.tolist()), float(near.sum()) / bodies, proved_rest(prover, at)))
        points = points[~near]
    return replace(proof, rests=tuple(sorted(found, key=lambda one: -one.share)), thrown=bodies)


def proved_rest(prover: Prover, at: Array) -> float | None:
    """Returns a distance from a point within which there is a rest, in exact arithmetic; None if none was proved.

    A period takes `at + r e` to `c + M e + s` with e from -1 to 1 and s within R. With A near the inverse of 1 - M / r,
    a rest is a fixed point of `d - A (at + d - period(at + d))`. If that maps the box into itself, it has one there.
    """
    size = len(at)
    for radius in RADII:
        box = Sets(at[None], radius * np.eye(size)[None])
        passed = prover.loop.period(box)
        if not passed.enclosed.all():
            return None
        after = passed.sets.generators[0]
        step, rest = after[:, :size] / radius, np.abs(after[:, size:]).sum(axis=1)
        inverse = np.linalg.inv(np.eye(size) - step)
        beside = np.abs(np.eye(size) - inverse @ (np.eye(size) - step)).sum(axis=1)
        moved = np.abs(inverse) @ (np.abs(passed.sets.center[0] - at) + rest)
        away = (beside * radius + moved) * (1 + 1e-9)
        if (away < radius).all():
            return float(away.max())
    return None
