"""A body as MuJoCo renders it, picture by picture, from its recorded geometry."""

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
from ncp_control.activity.video.frame import body_view, camera_path, tick_distance
from ncp_control.activity.video.geometry import CAPSULE, Geometry, geometry
from ncp_control.base.files import temporary_folder

Array = NDArray[Any]
DEFAULT_FPS = 20.0
PICTURE_SECONDS = 60.0  # longer than MuJoCo takes for any picture, even for the first one
AROUND = 1.15  # how much more than the body's plane the camera sees, because nearer parts look larger
HALF_ANGLE = math.radians(45) / 2  # of the camera's view, upwards


class RendererError(RuntimeError):
    """MuJoCo cannot draw here. The message says what could help."""


def scene_of(activity: Activity, body: Geometry, size: tuple[int, int]) -> dict[str, Any]:
    """Returns the arrays that `render` reads, for all recorded steps.

    :param activity: a recorded rollout
    :param body: its body
    :param size: width and height of the pictures in pixels
    """
    view = body_view(activity, body.flat, size[0] / size[1])
    look, elevation = np.zeros((activity.steps, 3)), -90.0
    look[:, :2] = view.middle
    if not body.flat.above:
        look[:, 1], look[:, 2] = camera_path(activity, body.aside), view.low + view.height / 2
        elevation = -6.0 if body.is_flat else -25.0
    tall = max(AROUND * view.height, fitting_height(body, look, elevation, size[0] / size[1]))
    return {
        "shapes": body.shapes, "places": body.places, "look": look, "size": size, "tall": tall,
        "elevation": elevation, "ground": math.nan if body.flat.ground is None else body.flat.ground,
        "pattern": tick_distance(0.7 * tall), "half_angle": HALF_ANGLE,
    }  # fmt: skip


def fitting_height(body: Geometry, look: Array, elevation: float, aspect: float) -> float:
    """Returns how much the camera must see upwards, in metres at the place it looks at, to see the whole body.

    :param body: the body
    :param look: (T, 3), what the camera looks at
    :param elevation: the angle at which it looks, in degrees, negative if it looks down
    :param aspect: the picture's width over its height
    """
    moving = np.ptp(body.places, axis=0).any(axis=1)
    places, shapes = body.places[:, moving], body.shapes[moving]
    if not len(shapes):
        return 0.0
    w, x, y, z = np.moveaxis(places[..., 3:], 2, 0)
    along = np.stack([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)], axis=2)
    capsule = shapes[:, 0] == CAPSULE
    along *= np.where(capsule, shapes[:, 2], 0.0)[:, None]
    radius = np.where(capsule, shapes[:, 1], np.linalg.norm(shapes[:, 1:4], axis=1))
    middle = places[..., :3] - look[:, None]
    points = np.concatenate([middle - along, middle + along], axis=1)
    down, radii = math.radians(elevation), np.tile(radius, 2)
    ahead = points @ [0, math.cos(down), math.sin(down)]
    upward, aside = np.abs(points @ [0, -math.sin(down), math.cos(down)]), np.abs(points[..., 0])
    # How far away the camera must be for each point, if it is seen at the very edge of the picture.
    distance = np.maximum(upward + radii, (aside + radii) / aspect) / math.tan(HALF_ANGLE) + radii - ahead
    return 1.02 * 2 * math.tan(HALF_ANGLE) * float(distance.max())


@contextmanager
def mujoco_pictures(
    activity: Activity, start: int, stop: int, size: tuple[int, int]
) -> Iterator[tuple[Callable[[], Array], str]]:
    """Gives a function that returns the next picture (height, width, 3), and the OpenGL backend that draws them.

    MuJoCo draws in a process of its own, for two reasons: where OpenGL does not work it may end the process it is in,
    and it chooses its OpenGL backend when it is imported.

    :param activity: a recorded rollout of a body with known geometry
    :param start: the first step drawn
    :param stop: the step after the last one drawn
    :param size: width and height in pixels
    """
    for package in ("mujoco", "gymnasium"):
        if importlib.util.find_spec(package) is None:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    scene = scene_of(activity, geometry(activity), size)
    scene |= {name: scene[name][start:stop] for name in ("places", "look")}
    backend = os.environ.get("MUJOCO_GL") or ("egl" if sys.platform.startswith("linux") else "")
    # The process runs in this folder, because MuJoCo writes a log where it runs.
    with temporary_folder(Path(tempfile.gettempdir()) / "ncp-control") as folder:
        task = folder / "task.npz"
        np.savez(task, **scene)
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
    """Renders a body and writes the pictures to standard output, byte for byte.

    It runs in a process that has this function and nothing else of this module.

    :param task: an `.npz` file with the arrays of `scene_of`
    """
    import math
    import os

    # What MuJoCo prints must not get between the pictures.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    import mujoco
    import numpy as np

    with np.load(task) as file:
        shapes, places, look, (width, height) = (file[name] for name in ("shapes", "places", "look", "size"))
        tall, elevation, ground = (float(file[name]) for name in ("tall", "elevation", "ground"))
        pattern, half_angle = float(file["pattern"]), float(file["half_angle"])

    def listed(numbers: list[float]) -> str:
        return " ".join(f"{number:.9g}" for number in numbers)

    kinds = {2: "sphere", 3: "capsule", 4: "ellipsoid", 5: "cylinder", 6: "box"}  # mjtGeom
    pieces = "".join(
        f'<body mocap="true"><geom type="{kinds[int(kind)]}" size="{listed(numbers[:3])}" rgba="{listed(numbers[3:])}" '
        'contype="0" conaffinity="0"/></body>'
        for kind, *numbers in shapes.tolist()
    )
    floor = ""
    if math.isfinite(ground):
        floor = f'<geom type="plane" size="{listed([50 * pattern] * 3)}" pos="0 0 {ground:.9g}" material="floor"/>'
    model: Any = mujoco.MjModel.from_xml_string(f"""
        <mujoco>
          <visual>
            <global fovy="{2 * math.degrees(half_angle):.9g}" offwidth="{width}" offheight="{height}"/>
            <headlight ambient=".3 .3 .3"/>
          </visual>
          <asset>
            <texture type="skybox" builtin="gradient" rgb1="1 1 1" rgb2=".45 .5 .55" width="100" height="600"/>
            <texture name="squares" type="2d" builtin="checker" rgb1=".25 .28 .26" rgb2=".6 .65 .62" width="100"
                     height="100"/>
            <material name="floor" texture="squares" texuniform="true" texrepeat="{listed([1 / pattern] * 2)}"/>
          </asset>
          <worldbody>
            <light directional="true" pos="0 0 1.3" dir="0 0 -1" diffuse=".6 .6 .6" specular=".1 .1 .1"/>
            {floor}{pieces}
          </worldbody>
        </mujoco>
    """)
    # Shadows take three quarters of a picture's time when software renders it, and they are hardly visible.
    model.vis.quality.shadowsize = 0
    # What is near and far depends on the size of the whole model, which is here that of the view.
    model.stat.extent = tall
    data: Any = mujoco.MjData(model)
    camera: Any = mujoco.MjvCamera()
    camera.distance = tall / 2 / math.tan(half_angle)
    camera.azimuth, camera.elevation = 90, elevation
    with mujoco.Renderer(model, int(height), int(width)) as renderer:
        for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
            renderer.scene.flags[flag] = 0
        for place, at in zip(places, look, strict=True):
            # The pattern of the floor repeats, so the body can stay near the origin, where numbers are exact.
            back = np.array([*(np.floor(at[:2] / pattern) * pattern), 0.0])
            data.mocap_pos[:], data.mocap_quat[:] = place[:, :3] - back, place[:, 3:]
            mujoco.mj_kinematics(model, data)
            mujoco.mj_camlight(model, data)
            camera.lookat[:] = at - back
            renderer.update_scene(data, camera)
            out.write(renderer.render().tobytes())
            out.flush()
