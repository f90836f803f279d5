"""How a laboratory draws a body before it has moved: its colours, its ground, and how much room it needs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ncp_control.activity.body import flattened, heights

ROOM = 1.3  # a picture has room for a body of this many times the size that it has at rest
GRAVITY = 9.81  # in m/s^2: forces are measured by what the body weighs on Earth
BENT = 0.3  # in metres and radians, of every joint, to see which pieces move


def body_data(env: Any) -> dict[str, Any]:
    """Returns what never changes about the picture of an environment's MuJoCo body."""
    from ncp_envs.body import Body, poses_of

    unwrapped = env.unwrapped
    model = unwrapped.model
    body = Body(model)
    rest = np.asarray(unwrapped.init_qpos, np.float64)
    poses = poses_of(model, np.stack([rest, rest + BENT]))
    capsules = body.capsules(*poses)
    about = {"seen_from": body.seen_from, "ground": body.ground}
    flat = flattened(capsules.ends, capsules.radii, body.shapes, about)
    still = flat._replace(ends=flat.ends[:1])
    low, high = heights(still, rare=0)
    around = still.ends[0, :, :, 0] - still.middle[0, 0]
    side = float(np.abs(around[flat.moving]).max() + flat.radii.max())
    down = low if flat.above or flat.ground is None else min(low, flat.ground)
    return {
        "radii": flat.radii.tolist(),
        "moving": flat.moving.tolist(),
        "other": flat.other.tolist(),
        "above": flat.above,
        "flat": body.is_flat,
        "ground": None if flat.above else flat.ground,
        "side": ROOM * side,
        "down": ROOM * low if flat.above else down,
        "up": ROOM * high if flat.above else down + ROOM * (high - down),
        "weight": float(GRAVITY * model.body_mass.sum()),
        # The number in the world's `bodies` of the body that has each piece; -1 for the world itself.
        "owners": [int(model.geom_bodyid[geom]) - 1 for geom in body.geoms],
    }
