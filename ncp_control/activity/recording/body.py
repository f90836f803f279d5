"""The poses of an environment's body while an agent is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ncp_envs.body import Capsules

Array = NDArray[Any]


class BodyPoses:
    """Keeps the poses of the body in a MuJoCo environment; for any other environment it keeps nothing."""

    def __init__(self, env: Any) -> None:
        unwrapped = getattr(env, "unwrapped", env)
        self.model: Any = getattr(unwrapped, "model", None)
        self.data: Any = getattr(unwrapped, "data", None)
        self.has_body = hasattr(self.model, "geom_type") and hasattr(self.data, "geom_xpos")
        self.poses: list[tuple[Array, Array]] = []

    def keep(self) -> None:
        """Keeps the present pose."""
        if self.has_body:
            import mujoco

            # After a step, MuJoCo's positions are those before the step's last part.
            mujoco.mj_kinematics(self.model, self.data)
            self.poses.append((self.data.geom_xpos.copy(), self.data.geom_xmat.copy()))

    def take(self, count: int) -> Capsules | None:
        """Returns the first poses as capsules and forgets all poses; None if the body has no capsules."""
        if not self.has_body:
            return None
        from ncp_envs.body import capsules_of

        poses, self.poses = self.poses[:count], []
        found = capsules_of(self.model, *(np.stack(parts) for parts in zip(*poses, strict=True)))
        return found if len(found.radii) else None
