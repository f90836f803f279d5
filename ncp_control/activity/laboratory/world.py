"""An environment as a laboratory builds it anew in a browser: its body, its task and its wrappers.

Everything that the page computes follows from these data, and from a seed: the same starts, the same random actions and
the same noise as in Python, bit for bit, and the same movements as far as two builds of one simulator agree. Of a task
that this package does not know, the page has the starts of some seeds and what is observed, and no reward; see
`recognised.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from numpy.typing import NDArray

import ncp_envs
from ncp_control.activity.laboratory.recognised import NEEDED, recognised, twin_of
from ncp_control.activity.laboratory.world_model import body_names, model_data
from ncp_control.activity.recording.environment import action_names, vector_names
from ncp_control.base.pages import packed
from ncp_control.data.finite import CheckFinite
from ncp_envs.streams import wrappers_of

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
SEEDS = 2  # the starts are compared with so many
Layer = dict[str, Any]
# `gymnasium.make` and `make_env` add these; the disturbances of a laboratory come around them.
MADE = (OrderEnforcing, PassiveEnvChecker, TimeLimit, CheckFinite)
_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645  # PCG64 multiplies its state by it in every step
_MODULUS = 1 << 128  # its state has 128 bits


def world_data(env: Any) -> dict[str, Any]:
    """Returns what `World` of `world.js` needs of an environment, as JSON values.

    :param env: an environment with a MuJoCo body, such as those of Gymnasium, with its wrappers. What the page cannot
        build is refused with a ValueError
    """
    body = env.unwrapped
    task, unknown = task_name(body)
    layers, below = layers_data(env)
    if unknown and any(layer["kind"] == "previous" and layer["reward"] for layer in layers):
        raise ValueError(f"a laboratory cannot build PreviousAction with the reward, which it does not know: {unknown}")
    space = env.action_space
    return {
        "task": task,
        "unknown": unknown,
        **(task_data(body, task) if unknown is None else recognised(body)),
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


def task_name(body: Any) -> tuple[str, str | None]:
    """Returns the name of an environment's task, such as "HalfCheetah", and None; or "Recognised", and why the page
    does not know the task.

    :param body: the environment without its wrappers
    """
    from ncp_envs.mujoco_bodies import class_of, kind_of, obstacle

    reason = obstacle(body)
    if reason is None:
        kind = class_of(body)
        known = kind_of(kind)
        task = str(known.__name__).removesuffix("Env")
        of_its_own = (name for name in RESETS if getattr(kind, name) is not getattr(known, name) or name in vars(body))
        own = next(of_its_own, None)
        if own is not None:
            reason = f"{kind.__name__} has a {own} of its own"
        elif starts_as_known(body, task):
            return task, None
        else:
            reason = f"this version of Gymnasium begins the episodes of {kind.__name__} in another way"
    if not all(hasattr(body, name) for name in NEEDED):
        raise ValueError(f"a laboratory cannot build this environment: {reason}, and no MujocoEnv of Gymnasium")
    return "Recognised", reason


def task_data(body: Any, task: str) -> dict[str, Any]:
    """Returns the settings and the starts of a task that the page knows."""
    return {
        "settings": settings_of(body),
        "start": {
            "positions": packed(body.init_qpos),
            "velocities": packed(body.init_qvel),
            "noise": float(body._reset_noise_scale),
            "normal": task in NORMAL_STARTS,
        },
    }


def starts_as_known(body: Any, task: str) -> bool:
    """Whether an environment draws its starts as the page does."""
    twin = twin_of(body)
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
    """Returns the settings of a task: flags, and numbers and ranges, which are packed because some are infinite."""
    settings: dict[str, Any] = {}
    for name, short in NUMBERS.items():
        if hasattr(body, name):
            settings[short] = packed(np.atleast_1d(np.asarray(getattr(body, name), np.float64)))
    for name, short in FLAGS.items():
        if hasattr(body, name):
            settings[short] = bool(getattr(body, name))
    if hasattr(body, "_main_body"):
        settings["main"] = int(body.model.body(body._main_body).id)
    return settings


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


def layers_data(env: Any) -> tuple[list[Layer], int]:
    """Returns the wrappers of an environment, the innermost first, and how many of them lie inside disturbances.

    Disturbances come between the environment as it was made and the wrappers of the training, as those of
    `ncp-control record` do.
    """
    layers: list[Layer] = []
    below = 0
    for wrapper in reversed(wrappers_of(env)):
        kind = type(wrapper)
        if kind not in KINDS:
            raise ValueError(
                f"a laboratory cannot build the wrapper {kind.__name__}: it knows "
                f"{', '.join(sorted(known.__name__ for known in KINDS))}"
            )
        described = KINDS[kind](wrapper)
        if described is not None:
            layers.append(described)
        if kind in MADE:  # the outermost of them counts
            below = len(layers)
    return layers, below


def _nothing(wrapper: Any) -> None:
    """A wrapper that changes nothing in a right use of the environment."""


def _limit(wrapper: Any) -> Layer:
    return {"kind": "limit", "steps": int(wrapper._max_episode_steps)}


def _finite(wrapper: Any) -> Layer:
    return {"kind": "finite"}


def _keep(wrapper: Any) -> Layer:
    return {"kind": "keep", "indices": packed(wrapper._kept)}


def _random(wrapper: Any) -> Layer:
    return {"kind": "random", "probability": wrapper._rule._probability}


def _noise(wrapper: Any) -> Layer:
    return {"kind": "noise", "std": packed(wrapper._rule._std), "clean": bool(wrapper._rule._clean)}


def _dropout(wrapper: Any) -> Layer:
    rule = wrapper._rule
    fill = float(np.ravel(rule._blank)[0]) if rule._blank.size else 0.0
    return {
        "kind": "dropout",
        "probability": rule._probability,
        "whole": bool(rule._whole),
        "holds": bool(rule._holds),
        "fill": fill,
    }


def _delay(wrapper: Any) -> Layer:
    (low, high), first = wrapper._rule.range, np.asarray(wrapper._rule._first, float)
    return {"kind": "delay", "low": low, "high": high, "told": bool(wrapper._told), "first": packed(first)}


def _previous(wrapper: Any) -> Layer:
    return {"kind": "previous", "reward": bool(wrapper._reward)}


def _irregular(wrapper: Any) -> Layer:
    return {
        "kind": "irregular",
        "low": wrapper._low,
        "high": wrapper._high,
        "nominal": wrapper._nominal,
        "apart": wrapper._observes == "apart",
        "observed": wrapper._observes is True,
    }


KINDS: dict[type, Callable[[Any], Layer | None]] = {
    OrderEnforcing: _nothing,
    PassiveEnvChecker: _nothing,
    TimeLimit: _limit,
    CheckFinite: _finite,
    ncp_envs.KeepObservations: _keep,
    ncp_envs.RandomActionOverwrite: _random,
    ncp_envs.ObservationNoise: _noise,
    ncp_envs.ObservationDropout: _dropout,
    ncp_envs.ActionDelay: _delay,
    ncp_envs.PreviousAction: _previous,
    ncp_envs.IrregularTime: _irregular,
}


def normal_widths() -> NDArray[np.float64]:
    """Returns the widths of the 256 layers of NumPy's ziggurat, each divided by 2^52.

    NumPy does not show them. It draws a number as a random place in a layer, times the layer's width; so the number at
    place 1 is the width. The generator is put into the states whose next 64 bits say this place and each layer.
    """
    bits = np.random.PCG64(0)
    generator, back = np.random.Generator(bits), pow(_MULTIPLIER, -1, _MODULUS)
    widths = []
    for layer in range(256):
        # Of the 64 bits, the lowest 8 choose the layer, the next one the sign, and those above it the place.
        wanted = 1 << 9 | layer
        # PCG64 multiplies its state and adds `inc`, and a state below 2^64 is returned as it is.
        before = (wanted - 1) * back % _MODULUS
        bits.state = {"bit_generator": "PCG64", "state": {"state": before, "inc": 1}, "has_uint32": 0, "uinteger": 0}
        widths.append(generator.standard_normal())
    return np.array(widths)
