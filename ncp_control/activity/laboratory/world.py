"""An environment as a laboratory builds it anew in a browser: its body, its task and its wrappers.

Everything that the page computes follows from these data, and from a seed: the same starts, the same random actions and
the same noise as in Python, bit for bit, and the same movements as far as two builds of one simulator agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ncp_control.activity.laboratory.layers import layers_data
from ncp_control.activity.laboratory.numpy_normal import normal_widths
from ncp_control.activity.laboratory.world_model import body_names, model_data
from ncp_control.activity.recording.environment import action_names, vector_names
from ncp_control.base.packed import packed

# The settings of Gymnasium's tasks, by the names that `tasks.js` has for them.
NUMBERS = {
    "_forward_reward_weight": "forward",
    "_ctrl_cost_weight": "control",
    "_contact_cost_weight": "contact",
    "_contact_force_range": "forces",
    "_healthy_reward": "healthy",
    "_healthy_z_range": "heights",
    "_healthy_angle_range": "angles",
    "_healthy_state_range": "states",
}
FLAGS = {
    "_terminate_when_unhealthy": "falls",
    "_exclude_current_positions_from_observation": "hides",
    "_include_cfrc_ext_in_observation": "feels",
}
# These draw the velocities of a start from a normal distribution, and the others from a uniform one.
NORMAL_STARTS = ("HalfCheetah", "Ant", "InvertedDoublePendulum")
RESETS = ("reset", "reset_model", "set_state")
SEEDS = 2  # with which the starts are compared


def world_data(env: Any) -> dict[str, Any]:
    """Returns what `World` of `world.js` needs of an environment, as JSON values.

    :param env: an environment of Gymnasium with one of its MuJoCo bodies, with its wrappers. What the page cannot
        build is refused with a ValueError
    """
    body = env.unwrapped
    task = task_name(body)
    layers, below = layers_data(env)
    space = env.action_space
    return {
        "task": task,
        "settings": settings_of(body),
        "start": {
            "positions": packed(body.init_qpos),
            "velocities": packed(body.init_qvel),
            "noise": float(body._reset_noise_scale),
            "normal": task in NORMAL_STARTS,
        },
        "frames": int(body.frame_skip),
        "dt": float(body.dt),
        "model": model_data(body),
        "layers": layers,
        "below": below,
        "low": packed(space.low.astype(np.float64)),
        "high": packed(space.high.astype(np.float64)),
        "widths": packed(normal_widths()),
        "bodies": body_names(body.model),
        "geometry": geometry_data(body.model),
        "observationNames": vector_names(env),
        "actionNames": action_names(env),
    }


def task_name(body: Any) -> str:
    """Returns the name of an environment's task, such as "HalfCheetah".

    :param body: the environment without its wrappers
    """
    from ncp_envs.mujoco_bodies import class_of, kind_of, obstacle

    reason = obstacle(body)
    if reason is not None:
        raise ValueError(f"a laboratory cannot build this environment: {reason}")
    kind = class_of(body)
    known = kind_of(kind)
    own = next((name for name in RESETS if getattr(kind, name) is not getattr(known, name) or name in vars(body)), None)
    if own is not None:
        raise ValueError(f"a laboratory cannot build this environment: {kind.__name__} has a {own} of its own")
    task = str(known.__name__).removesuffix("Env")
    if not starts_as_known(body, task):
        raise ValueError(
            "a laboratory cannot build this environment: this version of Gymnasium begins the episodes of "
            f"{kind.__name__} in another way"
        )
    return task


def starts_as_known(body: Any, task: str) -> bool:
    """Whether an environment draws its starts as the page does."""
    import mujoco

    twin: Any = object.__new__(type(body))
    twin.__dict__.update(vars(body), data=mujoco.MjData(body.model))
    scale = body._reset_noise_scale
    for seed in range(SEEDS):
        twin._np_random = np.random.default_rng(seed)
        twin.reset_model()
        random = np.random.default_rng(seed)
        positions = body.init_qpos + random.uniform(-scale, scale, body.model.nq)
        drawn = (
            scale * random.standard_normal(body.model.nv)
            if task in NORMAL_STARTS
            else random.uniform(-scale, scale, body.model.nv)
        )
        if not (np.array_equal(twin.data.qpos, positions) and np.array_equal(twin.data.qvel, body.init_qvel + drawn)):
            return False
    return True


def settings_of(body: Any) -> dict[str, Any]:
    """Returns the settings of a task: numbers and ranges packed, because some are infinite, and yes or no."""
    found: dict[str, Any] = {}
    for name, short in NUMBERS.items():
        if hasattr(body, name):
            found[short] = packed(np.atleast_1d(np.asarray(getattr(body, name), np.float64)))
    for name, short in FLAGS.items():
        if hasattr(body, name):
            found[short] = bool(getattr(body, name))
    if hasattr(body, "_main_body"):
        found["main"] = int(body.model.body(body._main_body).id)
    return found


def geometry_data(model: Any) -> dict[str, Any]:
    """Returns what is drawn of a model, for `BodyShape` of `shape.js`; see `ncp_envs.body.Body`."""
    from ncp_envs.body import Body

    body = Body(model)
    return {
        "geoms": packed(body.geoms),
        "along": packed(body.along),
        "lengths": packed(body.lengths),
        "radii": packed(body.radii),
        "shapes": packed(body.shapes),
        "seenFrom": body.seen_from,
        "flat": body.is_flat,
        "ground": body.ground,
        **root_of(model),
    }


def root_of(model: Any) -> dict[str, int]:
    """Returns the body that carries the first joints, and the number of the velocity that moves it along x, or -1."""
    import mujoco

    root, kinds = int(model.jnt_bodyid[0]), mujoco.mjtJoint
    forward = -1
    for joint in np.flatnonzero(model.jnt_bodyid == root):
        slides = model.jnt_type[joint] == kinds.mjJNT_SLIDE and np.argmax(np.abs(model.jnt_axis[joint])) == 0
        if slides or model.jnt_type[joint] == kinds.mjJNT_FREE:
            forward = int(model.jnt_dofadr[joint])
            break
    return {"root": root, "forward": forward}
