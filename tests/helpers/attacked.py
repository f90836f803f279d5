"""Attacks on certificates of other agents, or of the same ones after a claim was changed."""

from typing import Any

from ncp_control.audit.attack import attacked
from ncp_control.audit.box import Box, observation_box
from ncp_control.audit.certificate import Certificate
from ncp_control.audit.examining import examine
from ncp_control.neurons.ranges import Elapsed
from ncp_control.rl import Controller
from ncp_control.rl.controller import read_vector


def broken_claims(
    certificate: Certificate, agent: Any, inputs: int = 40_000, box: Box = None, backend: str = "auto"
) -> tuple[str, ...]:
    """What an attack of an agent says about a certificate.

    :param certificate: the claims
    :param agent: the agent that is attacked
    :param inputs: about how many observations it sees
    :param box: the box that they come from
    :param backend: runs its circuit
    """
    controller, once = Controller(agent, backend), Elapsed(1.0, 1.0)
    observations, _ = observation_box(controller, read_vector(agent.observation_space)[1], box)
    seen = examine(controller, observations, once)
    found = attacked(certificate, seen, observations, once, inputs, 0, None, False)
    assert found.attack is not None
    return found.attack.violations
