"""What an environment without a MuJoCo body draws of itself, kept in a recording picture by picture."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.recording.activity import Activity, ActivityError
from ncp_control.activity.recording.environment import env_id

Array = NDArray[Any]
MODE = "rgb_array"
TALLEST = 480  # of taller pictures, rows and columns are left out: a video has room for half of that
LARGEST = 4096  # pixels along an edge, in a file
FAST = 1  # level of zlib: flat colours need no more


def offers_pictures(env: Any) -> bool:
    """Whether an environment can be made with `render_mode="rgb_array"`."""
    return MODE in ((getattr(env, "metadata", None) or {}).get("render_modes") or ())


class Pictures:
    """Keeps what `env.render()` returns before every step, each picture compressed by itself.

    :param env: the environment, made with `render_mode="rgb_array"`
    :ivar about: what a recording says: {"size": [height, width]}, or {"reason": why there are none}
    """

    def __init__(self, env: Any) -> None:
        self.env, self.about = env, dict[str, Any]()
        self.waiting: list[bytes] = []
        self.kept = bytearray()
        name = env_id(env) or type(getattr(env, "unwrapped", env)).__name__
        if not offers_pictures(env):
            self.about["reason"] = f'{name} has no render mode "{MODE}"'
        elif getattr(env, "render_mode", None) != MODE:
            self.about["reason"] = f'{name} was made without render_mode="{MODE}"'
        self.name = name

    def keep(self) -> None:
        """Keeps the present picture. If the first one cannot be drawn, there are none."""
        if "reason" in self.about:
            return
        try:
            picture = np.asarray(self.env.render())
        except Exception as error:  # drawing can fail in any way, and the recording is worth having without it
            if self.about:
                raise
            self.about["reason"] = f"{self.name} cannot draw itself: {' '.join(str(error).split())}"
            return
        if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8 or not picture.size:
            self.about["reason"] = (
                f"{self.name} draws arrays of {picture.dtype} and shape {picture.shape}, not pictures of uint8 and "
                "shape (height, width, 3)"
            )
            return
        every = -(-picture.shape[0] // TALLEST)
        picture = np.ascontiguousarray(picture[::every, ::every])
        size = self.about.setdefault("size", list(picture.shape[:2]))
        if list(picture.shape[:2]) != size:
            raise ValueError(f"{self.name} draws pictures of different sizes: let render() return one size")
        self.waiting.append(zlib.compress(picture.tobytes(), FAST))

    def take(self, count: int) -> dict[str, Array]:
        """Returns the row of a recording for the first pictures, and keeps these alone."""
        if "size" not in self.about:
            return {}
        pictures, self.waiting = self.waiting[:count], []
        self.kept += b"".join(pictures)
        return {"picture_sizes": np.array([len(picture) for picture in pictures])}

    @property
    def fixed(self) -> dict[str, Array]:
        """The array of a recording that has all pictures, one after the other."""
        return {"pictures": np.frombuffer(self.kept, np.uint8)} if "size" in self.about else {}


def pictures_of(activity: Activity, start: int, stop: int) -> Iterator[Array]:
    """Yields the pictures (height, width, 3) of steps that were recorded."""
    described, data, sizes = activity.about.get("pictures"), activity.get("pictures"), activity.get("picture_sizes")
    size = described.get("size") if isinstance(described, dict) else None
    is_size = isinstance(size, list) and len(size) == 2 and all(isinstance(n, int) and 0 < n <= LARGEST for n in size)
    if size is None or not is_size or data is None or sizes is None:
        raise ActivityError("the recording's pictures have no size: the file was altered")
    ends = np.cumsum(sizes, dtype=np.int64)
    for step in range(start, stop):
        part = data[ends[step] - int(sizes[step]) : ends[step]].tobytes()
        try:
            # no more than the picture, whatever the file holds
            raw = zlib.decompressobj().decompress(part, 3 * size[0] * size[1])
            yield np.frombuffer(raw, np.uint8).reshape(*size, 3)
        except (zlib.error, ValueError) as error:
            raise ActivityError(f"the picture of step {step} is damaged ({error}): the file was altered") from error
