"""What each synapse does for the closed loop: how it goes on without it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ncp_control.activity.recording.interventions import intervened
from ncp_control.loop.closed import ClosedLoop, LoopState
from ncp_control.loop.exponents import LEAST

STEPS = 200  # after a cut; what is told is measured in the second half of them
NEAR = 1e-6  # the distance of the other run, whose growth is the exponent


class Onward(NamedTuple):
    """How the loop goes on from a state.

    :param synapse: the synapse that was cut, `source->target`; empty for the whole circuit
    :param reward: the mean reward of a step; NaN if the episode ended
    :param exponent: the largest Lyapunov exponent a step, from one start; NaN if the episode ended
    """

    synapse: str
    reward: float
    exponent: float


def synapses_of(loop: ClosedLoop) -> list[str]:
    """Returns the circuit's synapses, `source->target`, the sensory ones first; refuses an agent without any."""
    rnn = loop.controller.rnn
    if rnn is None or loop.chooses:
        raise ValueError("to cut synapses takes an agent with a circuit whose actions are numbers")
    wiring = rnn.wiring
    ends = [(wiring.sensory, wiring.input_names), (wiring.synapses, wiring.neuron_names)]
    names = [
        f"{sources[int(source)]}->{wiring.neuron_names[int(target)]}"
        for edges, sources in ends
        for source, target in zip(edges.source, edges.target, strict=True)
    ]
    with intervened(loop.controller, {}, names[:1]):  # refuses neurons whose synapses cannot be cut
        return names


def without_each(
    loop: ClosedLoop, state: LoopState, synapses: Sequence[str], advance: Callable[[], None] = lambda: None
) -> list[Onward]:
    """Returns how the loop goes on with the whole circuit, and then without each of some synapses.

    :param loop: the closed loop
    :param state: a state on an attractor
    :param synapses: from `synapses_of`
    :param advance: called after each
    """
    found = []
    for name in ["", *synapses]:
        with intervened(loop.controller, {}, [name] if name else []):
            found.append(Onward(name, *onward(loop, state)))
        advance()
    return found


def onward(loop: ClosedLoop, state: LoopState) -> tuple[float, float]:
    """Returns the mean reward of a step from a state on, and the rate at which a small difference grows."""
    away = np.random.default_rng(0).normal(size=loop.size)
    rewards, growth = [], []
    for _ in range(STEPS):
        away *= NEAR / np.linalg.norm(away)
        one, other = loop.step_all([state, loop.deviated(state, away)])
        if one.ended or other.ended:
            return math.nan, math.nan
        state, away = one.state, loop.deviation(other.state, one.state)
        rewards.append(one.reward)
        size = float(np.linalg.norm(away)) / NEAR
        growth.append(math.log(size) if size > math.exp(LEAST) else LEAST)
        if not size > 0:
            away = np.random.default_rng(1).normal(size=loop.size)
    half = STEPS // 2
    return float(np.mean(rewards[half:])), float(np.mean(growth[half:]))
