"""Names for the numbers of an agent's observations and actions, from the environment that it was trained in."""

from __future__ import annotations

from typing import Any


def names_of(env: Any, agent: Any) -> dict[str, Any]:
    """Returns the environment's names of sensors and actions, as `Controller` takes them, where it has any."""
    from gymnasium import spaces

    from ncp_control.activity.recording.environment import action_names
    from ncp_control.data.rollouts import usual_names
    from ncp_control.rl.controller import read_vector
    from ncp_envs.names import observation_names

    named: dict[str, Any] = {}
    acted, size = agent.action_space, read_vector(agent.observation_space)[1].shape[0]
    if len(sensors := observation_names(env)) >= size:
        named["sensors"] = sensors[:size]
    moves = action_names(env)
    named_by_nobody = tuple(moves) == usual_names(len(moves), "action")
    if isinstance(acted, spaces.Box) and len(moves) == spaces.flatdim(acted) and not named_by_nobody:
        named["actions"] = moves
    return named
