"""The audit of an agent: everything that can be proved about it inside a box of observations."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ncp_control.audit.attack import ATTACK, attacked
from ncp_control.audit.box import Box, feature_errors, observation_box, units_of
from ncp_control.audit.certificate import Certificate
from ncp_control.audit.certify import (
    certify_actions,
    certify_forgetting,
    certify_neurons,
    certify_paths,
    notes_of,
    on_path,
    ranges_of,
)
from ncp_control.audit.examining import examine
from ncp_control.audit.matter import certify_synapses
from ncp_control.audit.recorded import RecordedPath
from ncp_control.base.intervals import LARGEST
from ncp_control.neurons.ranges import Elapsed
from ncp_control.rl.controller import Controller, read_vector
from ncp_control.rl.files.loaded_policy import LoadedPolicy


def audit(
    agent: LoadedPolicy,
    *,
    box: Box = None,
    elapsed: tuple[float, float] | None = None,
    error: float = 0.01,
    epsilon: float = 0.01,
    recording: Any = None,
    attack: int = ATTACK,
    seed: int = 0,
    sensors: Sequence[str] = (),
    actions: Sequence[str] = (),
    progress: bool = True,
) -> Certificate:
    """Certifies an agent for all sequences of observations inside a box.

    Example::

        certificate = audit(nc.load("checkpoints/halfcheetah-positions.safetensors"))
        print(certificate.actions[0].raw, certificate.forgetting.reason)

    :param agent: a policy that `nc.load` read
    :param box: None for the whole observation space; a number k for k standard deviations around the training's mean; a
        pair (low, high); or recorded observations (T, n), whose range is widened by a tenth
    :param elapsed: the shortest and the longest time between two observations; None is (1, 1)
    :param error: the size of the observation errors, as a share of each observation's standard deviation in training
    :param epsilon: which share of a range counts as forgotten
    :param recording: observations (T, n) of one episode, or a `RecordedPath` with times and starts of episodes, along
        which the effect of an error is computed, too
    :param attack: how many observations to attack the certificate with; the default takes about a second, 0 is none
    :param seed: seed of the attack
    :param sensors: names of the observations
    :param actions: names of the actions
    :param progress: show the progress along a recording and of the attack
    """
    started = time.perf_counter()
    check(elapsed, error, epsilon, attack)
    controller = Controller(agent, sensors=sensors, actions=actions)
    times = Elapsed(*(float(end) for end in elapsed or (1.0, 1.0)))
    observations, origin = observation_box(controller, read_vector(agent.observation_space)[1], box)
    seen = examine(controller, observations, times)
    units = units_of(controller)
    recorded = None if recording is None else RecordedPath.of(recording)
    path = None if recorded is None else on_path(seen, recorded, error * units, times, progress)
    forgotten, acted = None, None
    if seen.differences is not None:
        forgotten, acted = seen.differences.forgotten(epsilon, seen.ranges)
    certificate = Certificate(
        agent=agent.name,
        sha256=agent.sha256,
        cell=cell_in_words(controller),
        counts=counts_of(controller),
        box=origin,
        sensors=controller.sensors,
        observations=ranges_of(observations),
        elapsed=(times.low, times.high),
        error=error,
        error_units=tuple(units.tolist()),
        epsilon=epsilon,
        neurons=certify_neurons(seen, forgotten),
        states=ranges_of(seen.states),
        synapses=() if seen.known is None else certify_synapses(seen),
        actions=certify_actions(seen, feature_errors(controller, error * units), path),
        paths=certify_paths(seen),
        forgetting=certify_forgetting(seen, acted),
        notes=notes_of(seen),
        chooses=controller.chooses,
        seconds=time.perf_counter() - started,
    )
    if not attack:
        return certificate
    tried = None if recorded is None else recorded.observations
    return attacked(certificate, seen, observations, times, attack, seed, tried, progress)


def check(elapsed: tuple[float, float] | None, error: float, epsilon: float, attack: int) -> None:
    """Refuses settings for which no claim could be made."""
    if elapsed is not None and not 0 <= elapsed[0] <= elapsed[1] <= LARGEST:
        raise ValueError(
            f"the elapsed times must be 0 <= shortest <= longest, and below {LARGEST:.2g}, which float32 can hold; got "
            f"{elapsed[0]} and {elapsed[1]}"
        )
    if not 0 < error < np.inf:
        raise ValueError(f"the observation error must be a number above 0, got {error}")
    if not 0 < epsilon < 1:
        raise ValueError(f"epsilon is a share between 0 and 1, got {epsilon}")
    if attack < 0:
        raise ValueError(f"an attack tries a number of observations, got {attack}")


def cell_in_words(controller: Controller) -> str:
    """Returns the cell's name and how it is solved."""
    if controller.rnn is None:
        return "none"
    cell = controller.rnn.cell
    settings = cell.config()
    how = [str(settings[key]) for key in ("solver", "mode", "activation") if key in settings]
    unfolds = settings.get("unfolds")
    if unfolds is not None:
        how.append(f"{unfolds} solver step{'s' * (unfolds != 1)}")
    return type(cell).__name__ + (f" ({', '.join(how)})" if how else "")


def counts_of(controller: Controller) -> dict[str, int]:
    """Returns how many observations, actions, neurons and synapses the agent has."""
    counts = {"observations": len(controller.sensors), "actions": len(controller.actions)}
    if controller.rnn is not None:
        wiring = controller.rnn.cell.wiring
        counts |= {"neurons": wiring.units, "sensory": len(wiring.sensory), "synapses": len(wiring.synapses)}
        counts["gap_junctions"] = len(wiring.gap_junctions)
    return counts
