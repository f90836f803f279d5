"""What a recording says about its environment: its id, its time step, the names of its numbers, its body's poses."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from ncp_control.data.rollouts import usual_names
from ncp_envs.names import named_entries

Array = NDArray[Any]


def env_id(env: Any) -> str | None:
    """Returns the environment's id, if it has one."""
    spec = getattr(env, "spec", None)
    return None if spec is None else str(spec.id)


def seconds_per_step(env: Any) -> float | None:
    """Returns the seconds between two steps, if the environment says them; those of NeuroGym say milliseconds."""
    unwrapped = getattr(env, "unwrapped", env)
    unit = 1e-3 if any(kind.__module__.startswith("neurogym.") for kind in type(unwrapped).__mro__) else 1.0
    for name in ("dt", "tau"):
        value = getattr(unwrapped, name, None)
        if isinstance(value, int | float):
            return unit * float(value)
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

    names = list(observation_names(env))
    size = len(as_vector(env.observation_space.sample()))
    return names if len(names) == size else list(usual_names(size))


def action_names(env: Any) -> list[str]:
    """Returns a name for each entry of an action: the environment's `action_names`, the names in its space, or MuJoCo's
    names of the actuators or of their joints, if it has any."""
    unwrapped = getattr(env, "unwrapped", env)
    size = int(np.prod(env.action_space.shape)) if env.action_space.shape else 1
    if len(own := getattr(unwrapped, "action_names", ())) == size:
        return list(own)
    if isinstance(env.action_space, gym.spaces.Box) and (named := named_entries(env.action_space, size)):
        return named
    model: Any = getattr(unwrapped, "model", None)
    if getattr(model, "nu", None) == size:
        from ncp_envs.joints import actuator_names

        return actuator_names(model)
    return list(usual_names(size, "action"))


def choice_names(env: Any) -> list[str]:
    """Returns a name for each choice of a `Discrete` action space whose `name` says them, or else an empty list."""
    space = env.action_space
    return named_entries(space, int(space.n)) if isinstance(space, gym.spaces.Discrete) else []


class BodyPoses:
    """Keeps the poses of the body in a MuJoCo environment; for any other environment it keeps nothing.

    :ivar about: what a recording says about the body in words (see the module `activity`), or None without a body
    :ivar fixed: the arrays of a recording that are the same at every step
    """

    def __init__(self, env: Any) -> None:
        self.about: dict[str, Any] | None = None
        self.fixed: dict[str, Array] = {}
        self.poses: list[tuple[Array, Array]] = []
        unwrapped = getattr(env, "unwrapped", env)
        self.model: Any = getattr(unwrapped, "model", None)
        self.data: Any = getattr(unwrapped, "data", None)
        if not (hasattr(self.model, "geom_type") and hasattr(self.data, "geom_xpos")):
            return
        import mujoco

        from ncp_envs.body import Body

        self.body = Body(self.model)
        if not len(self.body.geoms):
            return
        self.about = {"seen_from": self.body.seen_from, "flat": self.body.is_flat, "ground": self.body.ground}
        self.fixed = {"body_radii": self.body.radii, "body_shapes": self.body.shapes}
        # The environment's own data stay as they are: some rewards compare places before and after a step.
        self.copy: Any = mujoco.MjData(self.model)

    def keep(self) -> None:
        """Keeps the present pose."""
        if self.about is None:
            return
        import mujoco

        self.copy.qpos[:] = self.data.qpos
        self.copy.mocap_pos[:], self.copy.mocap_quat[:] = self.data.mocap_pos, self.data.mocap_quat
        # After a step, the places of the geometry are those before the step's last part, so they are computed anew.
        mujoco.mj_kinematics(self.model, self.copy)
        self.poses.append((self.copy.geom_xpos.copy(), self.copy.geom_xmat.copy()))

    def take(self, count: int) -> dict[str, Array]:
        """Returns rows of a recording for the first poses, and forgets all poses."""
        if self.about is None:
            return {}
        poses, self.poses = self.poses[:count], []
        where = [np.stack(parts) for parts in zip(*poses, strict=True)]
        return {"body_ends": self.body.capsules(*where).ends, "body_places": self.body.places(*where)}
