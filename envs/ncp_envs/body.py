"""The half-cheetah's body as capsules, from its positions alone: for pictures that need no renderer."""

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

    :param ends: (T, G, 2, 2): for each time and capsule both ends, x and z, in metres
    :param radii: (G,)
    """

    ends: Array
    radii: Array


def capsules_of(model: Any, positions: Array, rotations: Array) -> Capsules:
    """The capsules of a MuJoCo model; other geometry is left out.

    :param model: MuJoCo's
    :param positions: (T, geoms, 3), `geom_xpos` at each time
    :param rotations: (T, geoms, 9), `geom_xmat`
    """
    import mujoco

    chosen = np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_CAPSULE)
    middle = positions[:, chosen]
    axis = rotations[:, chosen].reshape(*middle.shape, 3)[..., 2] * model.geom_size[chosen, 1:2]
    ends = np.stack([middle - axis, middle + axis], axis=2)[..., [0, 2]]
    return Capsules(ends, model.geom_size[chosen, 0].copy())


def half_cheetah_capsules(observations: Any, x: Any = None) -> Capsules:
    """The body of a half-cheetah from its observations.

    :param observations: (T, 17), or (T, 8) of positions: height and angle of the torso and the six joints' angles first
    :param x: (T,), how far it has run; with velocities in the observations their sum by default, else zeros
    """
    import mujoco
    from gymnasium.envs import mujoco as tasks

    seen = np.asarray(observations, np.float64)
    if seen.ndim != 2 or seen.shape[1] not in (8, 17):
        raise ValueError(f"a half-cheetah is seen in 17 observations, or 8 positions, a step: got shape {seen.shape}")
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
