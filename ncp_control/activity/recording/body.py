"""The poses of an environment's body while an agent is recorded."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


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
