"""The half-cheetah's body as capsules, computed from its positions, for pictures without a renderer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ncp_envs.mujoco_messages import without_mass_warning

Array = NDArray[np.float64]
SECONDS = 0.05  # between two observations


class Capsules(NamedTuple):
    """Capsules in the plane in which the cheetah runs.

    :param ends: (T, G, 2, 2), x and z of both ends of each capsule at each time, in metres
    :param radii: (G,), in metres
    """

    ends: Array
    radii: Array


def capsules_of(model: Any, positions: Array, rotations: Array) -> Capsules:
    """Returns the capsules of a MuJoCo model, without its other geometry.

    :param model: a model of MuJoCo
    :param positions: (T, geoms, 3), `geom_xpos` at each time
    :param rotations: (T, geoms, 9), `geom_xmat` at each time
    """
    import mujoco

    chosen = np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_CAPSULE)
    middle = positions[:, chosen]
    axis = rotations[:, chosen].reshape(*middle.shape, 3)[..., 2] * model.geom_size[chosen, 1:2]
    ends = np.stack([middle - axis, middle + axis], axis=2)[..., [0, 2]]
    return Capsules(ends, model.geom_size[chosen, 0].copy())


def half_cheetah_capsules(observations: Any, x: Any = None) -> Capsules:
    """Returns the body of a half-cheetah from its observations.

    :param observations: (T, 17), or (T, 8) if only the positions are observed. The first 8 entries are the height and
        the angle of the torso and the angles of the six joints
    :param x: (T,), the distance that it has run; by default the integral of the observed velocity, or zeros if no
        velocity is observed
    """
    import mujoco
    from gymnasium.envs import mujoco as tasks

    seen = np.asarray(observations, np.float64)
    if seen.ndim != 2 or seen.shape[1] not in (8, 17):
        raise ValueError(f"a half-cheetah has 17 observations at each step, or 8 positions: got shape {seen.shape}")
    if x is None:
        speed = seen[:, 8] if seen.shape[1] == 17 else np.zeros(len(seen))
        x = np.concatenate([[0.0], np.cumsum((speed[1:] + speed[:-1]) / 2 * SECONDS)])
    file = Path(tasks.__file__).parent / "assets" / "half_cheetah.xml"
    with without_mass_warning():
        model: Any = mujoco.MjModel.from_xml_path(str(file))
    data: Any = mujoco.MjData(model)
    poses = []
    for row, along in zip(seen, np.asarray(x, np.float64), strict=True):
        data.qpos[:] = [along, *row[:8]]
        mujoco.mj_kinematics(model, data)
        poses.append((data.geom_xpos.copy(), data.geom_xmat.copy()))
    return capsules_of(model, *(np.stack(parts) for parts in zip(*poses, strict=True)))
