"""The recorded body as every view draws it: capsules in a plane, over the ground or seen from above."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.recording.activity import Activity

Array = NDArray[Any]
ABOVE = "above"
LIMBS, OTHER_LIMBS = "#44546a", "#8fa3bd"
# A piece has another colour if it differs by more than this from the most frequent one, in red, green or blue.
OTHER_COLOUR = 0.25
RARE = 1  # in this per cent of the steps the body may leave a view upwards, and in as many downwards


class FlatBody(NamedTuple):
    """The capsules of a recorded body.

    :param ends: (T, K, 2, 2), across and up of both ends: x and z, or x and y if it is seen from above, in metres
    :param radii: (K,), in metres
    :param moving: (K,) bool, whether it moves at all; all of them if none does
    :param other: (K,) bool, whether its colour differs clearly from most others', such as that of a second leg
    :param above: whether it is seen from above
    :param ground: the height of the ground, or None if there is none near a body that is seen from the side
    :param depth: (T, K), how far away each is from the viewer; None for a body that stays in the plane
    """

    ends: Array
    radii: Array
    moving: NDArray[np.bool_]
    other: NDArray[np.bool_]
    above: bool
    ground: float | None
    depth: Array | None = None

    @property
    def middle(self) -> Array:
        """The mean place of what moves, (T, 2)."""
        return np.asarray(self.ends[:, self.moving].mean(axis=(1, 2)))

    def drawn(self, step: int, middle: Array) -> tuple[Array, list[str]]:
        """Returns the outlines of the capsules, (K, P, 2), and their colours, in the order in which they are drawn.

        :param step: the step
        :param middle: (2,), the place that becomes the origin
        """
        outlines = capsule_outlines(np.nan_to_num(self.ends[step]) - middle, self.radii)
        # Those that are farther away come first.
        order = np.arange(len(outlines)) if self.depth is None else np.argsort(-self.depth[step], kind="stable")
        return outlines[order], [OTHER_LIMBS if self.other[k] else LIMBS for k in order]


def flat_body(activity: Activity) -> FlatBody | None:
    """Returns the capsules of a recording, or None if it has none. Files of earlier versions stand on a ground at 0."""
    ends, radii = activity.get("body_ends"), activity.get("body_radii")
    if ends is None or radii is None or not len(radii):
        return None
    about = activity.about.get("body")
    if not isinstance(about, Mapping):
        return flattened(ends, radii, None, {})._replace(ground=0.0)
    body = flattened(ends, radii, activity.get("body_shapes"), about)
    places = activity.get("body_places")
    if about.get("flat") is True or places is None or places.shape[1] != len(radii):
        return body
    return body._replace(depth=np.nan_to_num(np.asarray(places[..., 1], np.float64)))


def flattened(ends: Array, radii: Array, shapes: Array | None, about: Mapping[str, Any]) -> FlatBody:
    """Returns the capsules of a body.

    :param ends: (T, K, 2, 2)
    :param radii: (K,)
    :param shapes: (K, 8), with the colours, or None if they are not known
    :param about: how the body is seen (see the module `recording.activity`)
    """
    ends, radii = np.asarray(ends, np.float64), np.asarray(radii, np.float64)
    moving = np.ptp(np.nan_to_num(ends), axis=0).any(axis=(1, 2))
    if not moving.any():
        moving[:] = True
    unusual = np.zeros(len(radii), bool)
    if shapes is not None and len(shapes) == len(radii):
        own = np.nan_to_num(np.asarray(shapes, np.float64))[:, 4:7]  # red, green and blue, without the opacity
        alike = np.abs(own[:, None] - own[moving]).max(axis=2) <= OTHER_COLOUR
        # The usual colour is that of the piece that most moving pieces look like, the first one of several.
        unusual = ~alike[:, alike[moving].sum(axis=1).argmax()]
    ground = about.get("ground")
    if not isinstance(ground, int | float) or isinstance(ground, bool) or not np.isfinite(ground):
        ground = None
    body = FlatBody(ends, radii, moving, unusual, about.get("seen_from") == ABOVE, ground)
    low, high = heights(body)
    # A floor farther below than the body is high would leave little room for the body in a picture.
    far = ground is not None and not body.above and ground < low - (high - low)
    return body._replace(ground=None) if far else body


def heights(body: FlatBody, rare: float = RARE) -> tuple[float, float]:
    """Returns the lowest and the highest place of what moves; of a body seen from above, relative to its middle.

    :param body: the body
    :param rare: the share of the steps, in per cent, that may come lower, and that may come higher
    """
    up = np.nan_to_num(body.ends[..., 1][:, body.moving])
    if body.above:
        up = up - np.nan_to_num(body.middle[:, 1])[:, None, None]
    radii = body.radii[body.moving][:, None]
    low, high = (up - radii).min(axis=(1, 2)), (up + radii).max(axis=(1, 2))
    return float(np.percentile(low, rare)), float(np.percentile(high, 100 - rare))


def capsule_outlines(ends: Array, radii: Array, points: int = 17) -> Array:
    """Returns the outlines of capsules, each with a half circle at either end, (K, 2 P, 2).

    :param ends: (K, 2, 2)
    :param radii: (K,)
    :param points: P, how many points a half circle has
    """
    along = ends[:, 1] - ends[:, 0]
    angle = np.arctan2(along[:, 1], along[:, 0])
    turn = np.linspace(-np.pi / 2, np.pi / 2, points)
    arcs = []
    for end, towards in ((1, angle), (0, angle + np.pi)):
        at = towards[:, None] + turn
        arcs.append(ends[:, end, None] + radii[:, None, None] * np.stack([np.cos(at), np.sin(at)], -1))
    return np.concatenate(arcs, axis=1)
