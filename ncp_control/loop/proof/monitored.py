"""What was proved, watched on a robot: the ranges that no observation and no neuron leaves as long as it holds."""

from __future__ import annotations

import numpy as np

from ncp_control.loop.proof.printed import in_short
from ncp_control.loop.proof.proving import Proof
from ncp_control.rl.monitor import Monitor
from ncp_envs.equations import BODIES


def monitor_of(proof: Proof) -> Monitor:
    """Returns the ranges of observations and neurons, for `Controller` and `ncp-control export`, with what was proved.

    A robot that raises a flag is not the body of the proof, or began elsewhere, or its sensors are worse.

    :param proof: the proof, with its claims shown
    """
    if not proof.shown:
        raise ValueError(f"nothing to monitor: the claims about {proof.agent} are not shown")
    body = BODIES[proof.body]
    everywhere, m = np.array(proof.everywhere).T, len(body.names)
    errors = proof.error * np.array(body.scales)[list(body.seen)]
    observations = everywhere[list(body.seen)] + np.stack([-errors, errors], axis=1)
    return Monitor.around(observations, everywhere[m:], (1.0, 1.0), proof.sha256, in_short(proof))
