"""A half-cheetah as MuJoCo renders it, picture by picture, from its observations alone."""

from __future__ import annotations

import importlib.util
import inspect
import math
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.recording.activity import Activity
from ncp_control.activity.video.body import camera_path
from ncp_control.storage.temporary import temporary_folder

Array = NDArray[Any]
DEFAULT_FPS = 20.0
PICTURE_SECONDS = 60.0  # longer than MuJoCo takes for any picture, even for the first one
OBSERVATIONS, SPEED, POSITIONS = 17, 8, 8  # how many observations; which one is the speed; how many are positions


class RendererError(RuntimeError):
    """MuJoCo cannot draw here. The message says what could help."""


def is_half_cheetah(activity: Activity) -> bool:
    """Says whether the observations are all 17 of a half-cheetah."""
    names = activity.about.get("observation_names") or ()
    named = "cheetah" in str(activity.about.get("env")).lower() or "back thigh angle" in names
    return named and activity.observations.shape[1:] == (OBSERVATIONS,)


def half_cheetah_poses(activity: Activity) -> Array:
    """Returns the simulation's positions (T, 9): the distance run since the episode began, then the observed ones."""
    seen = np.nan_to_num(np.asarray(activity.observations, np.float64))
    seconds = activity.seconds_per_step or 1 / DEFAULT_FPS
    x = np.zeros(len(seen))
    for where in activity.episodes:
        speed = seen[where, SPEED]
        x[where][1:] = np.cumsum((speed[1:] + speed[:-1]) / 2 * seconds)
    return np.concatenate([x[:, None], seen[:, :POSITIONS]], axis=1)


@contextmanager
def mujoco_pictures(
    activity: Activity, start: int, stop: int, size: tuple[int, int]
) -> Iterator[tuple[Callable[[], Array], str]]:
    """Gives a function that returns the next picture (height, width, 3), and the OpenGL backend that draws them.

    MuJoCo draws in a process of its own, for two reasons: where OpenGL does not work it may end the process it is in,
    and it chooses its OpenGL backend when it is imported.

    :param activity: a recorded rollout of a half-cheetah
    :param start: the first step drawn
    :param stop: the step after the last one drawn
    :param size: width and height in pixels
    """
    poses = half_cheetah_poses(activity)
    for package in ("mujoco", "gymnasium"):
        if importlib.util.find_spec(package) is None:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    backend = os.environ.get("MUJOCO_GL") or ("egl" if sys.platform.startswith("linux") else "")
    # The process runs in this folder, because MuJoCo writes a log where it runs.
    with temporary_folder(Path(tempfile.gettempdir()) / "ncp-control") as folder:
        task = folder / "task.npz"
        np.savez(task, poses=poses[start:stop], look=camera_path(activity, poses[:, 0])[start:stop], size=size)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))}
        if backend:
            environment["MUJOCO_GL"] = backend
        # The process gets the function's source, because importing it would import the whole package with torch.
        program = f"{inspect.getsource(render)}\nimport sys\nrender(sys.argv[1])"
        with (folder / "errors").open("wb+") as errors:
            child = subprocess.Popen(
                [sys.executable, "-c", program, str(task)], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=errors,
            )  # fmt: skip
            pictures = PictureReader(child, size)
            try:
                first = pictures.next(PICTURE_SECONDS)
                if first is None:
                    raise RendererError(
                        f"MuJoCo cannot draw here with MUJOCO_GL={backend or 'unset'}{last_line(errors)}; without a "
                        "screen it needs one of egl and osmesa"
                    )
                waiting = [first]

                def next_picture() -> Array:
                    picture = waiting.pop() if waiting else pictures.next(PICTURE_SECONDS)
                    if picture is None:
                        raise RuntimeError(f'MuJoCo stopped drawing{last_line(errors)}; use renderer="capsules"')
                    return picture

                yield next_picture, backend
            finally:
                child.kill()
                child.wait()


class PictureReader:
    """Reads the pictures that another process writes into a pipe; a thread reads a few of them ahead.

    :param child: the process
    :param size: width and height in pixels
    """

    def __init__(self, child: subprocess.Popen[bytes], size: tuple[int, int]) -> None:
        self.pipe: Any = child.stdout
        self.shape = (size[1], size[0], 3)
        self.pictures: queue.Queue[Array | None] = queue.Queue(maxsize=8)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        """Reads until the other process closes the pipe or ends."""
        count = math.prod(self.shape)
        with self.pipe:
            while len(data := self.pipe.read(count)) == count:
                self.pictures.put(np.frombuffer(data, np.uint8).reshape(self.shape))
        self.pictures.put(None)

    def next(self, seconds: float) -> Array | None:
        """Returns the next picture, or None if none comes within that time."""
        try:
            return self.pictures.get(timeout=seconds)
        except queue.Empty:
            return None


def last_line(errors: Any) -> str:
    """Returns the last line that the other process wrote, in brackets, for the middle of a sentence."""
    errors.seek(0)
    lines = [line.strip() for line in errors.read().decode(errors="replace").splitlines() if line.strip()]
    return f" ({lines[-1][:120]})" if lines else ""


def render(task: str) -> None:
    """Renders a half-cheetah and writes the pictures to standard output, byte for byte.

    It runs in a process that has this function and nothing else of this module.

    :param task: an `.npz` file with poses (T, 9), what the camera looks at (T,), and width and height of the pictures
    """
    import math
    import os

    # What MuJoCo prints must not get between the pictures.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    from pathlib import Path

    import mujoco
    import numpy as np
    from gymnasium.envs import mujoco as tasks

    from ncp_envs.mujoco_messages import without_mass_warning

    with np.load(task) as file:
        poses, look, (width, height) = file["poses"], file["look"], map(int, file["size"])
    with without_mass_warning():
        model: Any = mujoco.MjModel.from_xml_path(str(Path(tasks.__file__).parent / "assets" / "half_cheetah.xml"))
    visual = getattr(model.vis, "global_")  # noqa: B009, not a private name
    visual.offwidth, visual.offheight = width, height
    # Shadows take three quarters of a picture's time when software renders it, and they are hardly visible.
    model.vis.quality.shadowsize = 0
    data: Any = mujoco.MjData(model)
    # The floor ends after 40 m. Its pattern repeats long before, so the body can stay in the middle of the floor.
    floor = int(np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE)[0])
    period = 2 * float(model.geom_size[floor, 0]) / float(model.mat_texrepeat[model.geom_matid[floor], 0])
    camera: Any = mujoco.MjvCamera()
    tall = max(1.75, 3.4 * height / width)
    camera.distance = tall / 2 / math.tan(math.radians(float(visual.fovy)) / 2)
    camera.azimuth, camera.elevation = 90, -6
    with mujoco.Renderer(model, height, width) as renderer:
        for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
            renderer.scene.flags[flag] = 0
        for pose, x in zip(poses, look, strict=True):
            back = math.floor(x / period) * period
            data.qpos[:] = pose
            data.qpos[0] -= back
            mujoco.mj_forward(model, data)
            camera.lookat[:] = (x - back, 0.0, tall * 0.36)
            renderer.update_scene(data, camera)
            out.write(renderer.render().tobytes())
            out.flush()
