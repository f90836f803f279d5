"""The geometry of a recorded body in space: as it was recorded or, of a half-cheetah, from its observations."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.body import FlatBody, flat_body, flattened
from ncp_control.activity.recording.activity import Activity

Array = NDArray[Any]
CAPSULE, DRAWN = 3, (2, 3, 4, 5, 6)  # MuJoCo's numbers of sphere, capsule, ellipsoid, cylinder and box
SMALLEST, LARGEST, FARTHEST = 1e-4, 1e3, 1e6  # sizes and distances in metres that can be drawn
OBSERVATIONS, SPEED, POSITIONS = 17, 8, 8  # how many observations; which one is the speed; how many are positions


class Geometry(NamedTuple):
    """The pieces of geometry of a body.

    :param shapes: (K, 8), the MuJoCo type, sizes and colour of each
    :param places: (T, K, 7), the position and the orientation of each, a quaternion
    :param flat: the same body as capsules in a plane
    :param is_flat: whether it stays in that plane
    """

    shapes: Array
    places: Array
    flat: FlatBody
    is_flat: bool

    @property
    def aside(self) -> Array:
        """How far from the plane through the origin the body is, (T,), for a camera that looks from the side."""
        return np.zeros(len(self.places)) if self.is_flat else np.asarray(self.places[:, :, 1].mean(axis=1))


def has_geometry(activity: Activity) -> bool:
    """Says whether a recording has geometry that MuJoCo can draw, or is of a half-cheetah."""
    shapes = activity.get("body_shapes")
    if shapes is None or activity.get("body_places") is None or flat_body(activity) is None:
        return is_half_cheetah(activity)
    return bool(np.isin(shapes[:, 0], DRAWN).any())


def geometry(activity: Activity) -> Geometry:
    """Returns the geometry of a recorded body (see `has_geometry`), with sizes and places that can be drawn."""
    flat, shapes, places = flat_body(activity), activity.get("body_shapes"), activity.get("body_places")
    if flat is None or shapes is None or places is None:
        return _half_cheetah(activity)
    about = activity.about.get("body")
    return _drawable(shapes, places, flat, isinstance(about, dict) and about.get("flat") is True)


def _drawable(shapes: Array, places: Array, flat: FlatBody, is_flat: bool) -> Geometry:
    """Returns geometry with sizes and places that can be drawn, whatever a file has."""
    kept = np.isin(shapes[:, 0], DRAWN)
    shapes = np.nan_to_num(np.asarray(shapes[kept], np.float64))
    shapes[:, 1:4] = shapes[:, 1:4].clip(SMALLEST, LARGEST)
    shapes[:, 4:] = shapes[:, 4:].clip(0, 1)
    places = np.nan_to_num(np.asarray(places[:, kept], np.float64)).clip(-FARTHEST, FARTHEST)
    return Geometry(shapes, places, flat, is_flat)


def is_half_cheetah(activity: Activity) -> bool:
    """Says whether the observations are all 17 of a half-cheetah, or its 8 positions."""
    names = activity.about.get("observation_names") or ()
    named = "cheetah" in str(activity.about.get("env")).lower() or "back thigh angle" in names
    return named and activity.observations.shape[1:] in ((OBSERVATIONS,), (POSITIONS,))


def _half_cheetah(activity: Activity) -> Geometry:
    """Returns the geometry of a half-cheetah that was recorded without it."""
    from ncp_envs.body import Body, half_cheetah_model, half_cheetah_positions, poses_of

    model = half_cheetah_model()
    body = Body(model)
    seen = np.nan_to_num(np.asarray(activity.real_observations, np.float64))
    poses = poses_of(model, half_cheetah_positions(seen, _distance(activity, seen)))
    ends, radii = body.capsules(*poses)
    known = activity.get("body_ends")
    if seen.shape[1] == POSITIONS and known is not None and known.shape == ends.shape:
        # Its observations do not say how far it has run, but the recorded capsules do.
        x = np.nan_to_num((np.asarray(known, np.float64) - ends)[..., 0]).mean(axis=(1, 2))
        poses.positions[..., 0] += x[:, None]
        ends[..., 0] += x[:, None, None]
    flat = flattened(ends, radii, body.shapes, {"seen_from": body.seen_from, "ground": body.ground})
    return _drawable(body.shapes, body.places(*poses), flat, body.is_flat)


def _distance(activity: Activity, seen: Array) -> Array:
    """Returns the distance run since the episode began, (T,), or zeros if the speed was not observed."""
    x = np.zeros(len(seen))
    if seen.shape[1] == OBSERVATIONS:
        seconds = activity.seconds_per_step or 0.05
        for where in activity.episodes:
            speed = seen[where, SPEED]
            x[where][1:] = np.cumsum((speed[1:] + speed[:-1]) / 2 * seconds)
    return x
