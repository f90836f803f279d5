"""Names for the positions and velocities of a MuJoCo model, made from the names of its joints and bodies."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

# MuJoCo's numbers of the types of joints (mjtJoint). They are written here so that a name needs no import of mujoco.
_FREE, _BALL, _SLIDE = 0, 1, 2
_MOVES_JOINT = 0  # MuJoCo's number of the transmission to a joint (mjtTrn)
_ENDINGS = ("joint", "rot")  # of joints' names, which say nothing more
_SIDES = ("left", "right")
_TURNS = ("orientation w", "orientation x", "orientation y", "orientation z")
_SPINS = tuple(f"angular velocity {axis}" for axis in "xyz")
_FORCES = (*(f"contact torque {axis}" for axis in "xyz"), *(f"contact force {axis}" for axis in "xyz"))


def position_names(model: Any) -> list[str]:
    """Returns a name for each of the model's `nq` positions, such as "torso height" or "left thigh angle"."""
    return [name for joint in range(model.njnt) for name in _names_of(model, joint)[0]]


def velocity_names(model: Any) -> list[str]:
    """Returns a name for each of the model's `nv` velocities, such as "left thigh angular velocity"."""
    return [name for joint in range(model.njnt) for name in _names_of(model, joint)[1]]


def contact_names(model: Any) -> list[str]:
    """Returns six names for each body but the world, for the torque and the force of its contacts."""
    return [f"{_body(model, body)} {force}" for body in range(1, model.nbody) for force in _FORCES]


def actuator_names(model: Any) -> list[str]:
    """Returns a name for each actuator: its own or, if it has none, that of the joint that it moves."""
    names = []
    for actuator in range(model.nu):
        moves_joint = int(model.actuator_trntype[actuator]) == _MOVES_JOINT
        joint = _joint(model, int(model.actuator_trnid[actuator][0])) if moves_joint else f"action {actuator}"
        names.append(model.actuator(actuator).name or joint)
    return names


def _names_of(model: Any, joint: int) -> tuple[list[str], list[str]]:
    """Returns the names of a joint's positions and of its velocities."""
    kind, body = int(model.jnt_type[joint]), int(model.jnt_bodyid[joint])
    # The first body's joints move it in the world. Their names seldom say more than its own.
    is_first = int(model.body_parentid[body]) == 0
    own = _body(model, body) if is_first else _joint(model, joint)
    if kind == _FREE:
        places, speeds = ("x", "y", "height"), tuple(f"{axis} velocity" for axis in "xyz")
        return [f"{own} {one}" for one in (*places, *_TURNS)], [f"{own} {one}" for one in (*speeds, *_SPINS)]
    if kind == _BALL:
        return [f"{own} {one}" for one in _TURNS], [f"{own} {one}" for one in _SPINS]
    if kind != _SLIDE:
        return [f"{own} angle"], [f"{own} angular velocity"]
    axis = "xyz"[int(np.argmax(np.abs(model.jnt_axis[joint])))]
    if not is_first:
        return [f"{own} position"], [f"{own} velocity"]
    start, height = model.qpos0[model.jnt_qposadr[joint]], model.body_pos[body][2]
    return [f"{own} {'height' if axis == 'z' and start == height else axis}"], [f"{own} {axis} velocity"]


def _joint(model: Any, joint: int) -> str:
    return _spoken(model.joint(joint).name) or f"joint {joint}"


def _body(model: Any, body: int) -> str:
    """Returns a body's name, or that of its first joint if it has none."""
    if name := _spoken(model.body(body).name):
        return name
    return _joint(model, int(model.body_jntadr[body])) if model.body_jntnum[body] else f"body {body}"


def _spoken(name: str) -> str:
    """Returns a name of a model file as words: "thigh_left_joint" gives "left thigh", and "motor1_rot" "motor 1"."""
    words = re.sub(r"(?<=[a-z])(?=\d)", " ", name.replace("_", " ")).split()
    if len(words) > 1 and words[-1] in _ENDINGS:
        words.pop()
    if len(words) > 1 and words[-1] in _SIDES:
        words.insert(0, words.pop())
    return " ".join(words)
