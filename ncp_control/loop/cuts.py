"""What each synapse does for the closed loop: how it goes on without it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from ncp_control.loop.closed import ClosedLoop, LoopState
from ncp_control.loop.exponents import LEAST
from ncp_control.neurons import without_synapses
from ncp_control.rnn import RNN

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


def circuit_of(loop: ClosedLoop) -> RNN:
    """Returns the circuit in a loop; refuses an agent without one, and one whose choices jump."""
    rnn = loop.controller.rnn
    if rnn is None or loop.chooses:
        raise ValueError("to cut synapses takes an agent with a circuit whose actions are numbers")
    with cut(rnn, 0):  # refuses neurons whose synapses cannot be cut
        return rnn


def synapses_of(rnn: RNN) -> list[str]:
    """Returns a circuit's synapses, `source->target`, the sensory ones first."""
    wiring = rnn.wiring
    ends = [(wiring.sensory, wiring.input_names), (wiring.synapses, wiring.neuron_names)]
    return [
        f"{sources[int(source)]}->{wiring.neuron_names[int(target)]}"
        for edges, sources in ends
        for source, target in zip(edges.source, edges.target, strict=True)
    ]


def without_each(loop: ClosedLoop, state: LoopState, advance: Callable[[], None] = lambda: None) -> list[Onward]:
    """Returns how the loop goes on with the whole circuit, and then without each of its synapses.

    :param loop: the closed loop
    :param state: a state on an attractor
    :param advance: called after each
    """
    found, rnn = [], circuit_of(loop)
    for k, name in enumerate(["", *synapses_of(rnn)]):
        with cut(rnn, k - 1):
            found.append(Onward(name, *onward(loop, state)))
        advance()
    return found


@contextmanager
def cut(rnn: RNN, synapse: int) -> Iterator[None]:
    """Cuts one synapse of a circuit while the block runs; none for a negative number.

    :param rnn: the circuit
    :param synapse: its number, the sensory ones first
    """
    whole, sensory = rnn.cell, len(rnn.wiring.sensory)
    if synapse >= 0:
        kinds: tuple[list[int], list[int]] = ([], [synapse]) if synapse < sensory else ([synapse - sensory], [])
        rnn.cell = without_synapses(whole, *kinds)
    try:
        yield
    finally:
        rnn.cell = whole


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
