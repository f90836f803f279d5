"""Recordings of bodies, and videos of them read back."""

from pathlib import Path
from typing import Any

import imageio_ffmpeg as ffmpeg
import numpy as np

from helpers.recordings import WORM, make_recording
from ncp_control.activity import Activity
from ncp_control.activity.video.scene import Scene
from ncp_control.wiring import Wiring

SIZE: dict[str, Any] = {"width": 480, "height": 270, "progress": False}
# Its neurons have their names beside them, so the middle of a neuron has the neuron's colour.
NAMED = Wiring.from_edges(
    ["touch"], inter=["the left one", "the right one"], motor=["the muscle"], sensory=[(0, 0), (0, 1)],
    synapses=[(0, 2), (1, 2, -1)],
)  # fmt: skip


def with_body(wiring: Wiring = WORM, steps: int = 12, **changed: Any) -> Activity:
    """Makes a recording of a body of two capsules that moves to the right."""
    ends = np.zeros((steps, 2, 2, 2)) + np.array([[[-0.4, 0.5], [0.4, 0.5]], [[0.3, 0.5], [0.3, 0.1]]])
    ends[..., 0] += 0.5 * np.arange(steps)[:, None, None]
    return make_recording(wiring, steps, body_ends=ends, body_radii=np.array([0.1, 0.05]), **changed)


def half_cheetah(steps: int = 4) -> Activity:
    """Makes a recording of a half-cheetah that runs at 2 m/s."""
    observations = np.zeros((steps, 17))
    observations[:, 8] = 2.0
    return with_body(steps=steps, observations=observations, about={"env": "HalfCheetah-v5", "dt": 0.05})


def read_video(path: Path) -> tuple[dict[str, Any], np.ndarray]:
    """Returns what a file says about itself, and its frames, (n, height, width, 3)."""
    frames = ffmpeg.read_frames(str(path))
    about = next(frames)
    width, height = about["size"]
    return about, np.stack([np.frombuffer(frame, np.uint8).reshape(height, width, 3) for frame in frames])


def neuron_pixels(scene: Scene) -> np.ndarray:
    """Returns rows and columns of the middles of all neurons in a frame, (2, N)."""
    axes = next(axes for axes in scene.figure.axes if any(one.get_gid() == "neurons" for one in axes.collections))
    discs = next(one for one in axes.collections if one.get_gid() == "neurons")
    middles = [(path.vertices.min(0) + path.vertices.max(0)) / 2 for path in discs.get_paths()]
    columns, rows = axes.transData.transform(middles).T
    return np.stack([scene.figure.bbox.height - rows, columns]).astype(int)
