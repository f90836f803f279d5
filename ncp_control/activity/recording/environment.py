"""What a recording says about its environment: its id, its time step, the names of observations and actions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def env_id(env: Any) -> str | None:
    """Returns the environment's id, if it has one."""
    spec = getattr(env, "spec", None)
    return None if spec is None else str(spec.id)


def seconds_per_step(env: Any) -> float | None:
    """Returns the seconds between two steps, if the environment says them."""
    unwrapped = getattr(env, "unwrapped", env)
    for name in ("dt", "tau"):
        value = getattr(unwrapped, name, None)
        if isinstance(value, int | float):
            return float(value)
    return None


def as_vector(observation: Any) -> Array:
    """Returns one observation as a vector.

    Of a window of observations it is the newest. The entries of any other dictionary stand side by side, without the
    elapsed time.
    """
    if isinstance(observation, dict):
        if {"observations", "starts"} <= set(observation):
            return np.asarray(observation["observations"][-1], np.float32)
        rest = [np.asarray(value, np.float32).reshape(-1) for key, value in observation.items() if key != "elapsed"]
        return np.concatenate(rest)
    return np.asarray(observation, np.float32).reshape(-1)


def vector_names(env: Any) -> list[str]:
    """Returns a name for each entry of `as_vector(observation)`."""
    from ncp_envs import observation_names

    found = list(observation_names(env))
    size = len(as_vector(env.observation_space.sample()))
    return found if len(found) == size else [f"observation {k}" for k in range(size)]


def action_names(env: Any) -> list[str]:
    """Returns a name for each entry of an action: MuJoCo's names of the actuators or of their joints, if it has any."""
    unwrapped = getattr(env, "unwrapped", env)
    size = int(np.prod(env.action_space.shape)) if env.action_space.shape else 1
    model: Any = getattr(unwrapped, "model", None)
    if getattr(model, "nu", None) == size:
        from ncp_envs.joints import actuator_names

        return actuator_names(model)
    return [f"action {k}" for k in range(size)]
