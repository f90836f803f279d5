"""Writing a recorded rollout as a video."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.body import flat_body
from ncp_control.activity.continued import BodyAhead, continued_of
from ncp_control.activity.figures.states import last_step
from ncp_control.activity.recording.activity import Activity
from ncp_control.activity.recording.pictures import pictures_of
from ncp_control.activity.video.encoder import encoder
from ncp_control.activity.video.frame import body_box, pixels
from ncp_control.activity.video.geometry import has_geometry
from ncp_control.activity.video.rendered import DEFAULT_FPS, RendererError, mujoco_pictures
from ncp_control.activity.video.scene import Scene
from ncp_control.base.progress import tracked
from ncp_control.base.text import shown

Array = NDArray[Any]
SUFFIXES, RENDERERS = (".mp4", ".gif"), ("auto", "mujoco", "capsules")
LEAST_PIXELS = 160


def write_video(
    activity: Activity,
    path: str | Path,
    fps: float | None = None,
    width: int = 1280,
    height: int = 720,
    start: int = 0,
    steps: int | None = None,
    renderer: str = "auto",
    progress: bool = True,
    look: int | None = None,
) -> str:
    """Writes a video with a frame for each step: the moving body, the circuit's activity, the raster and a few traces.

    The file appears when it is complete; after an error or a Ctrl-C no file appears.

    Example::

        sentence = write_video(Activity.load("cheetah.npz"), "cheetah.mp4", steps=100)

    :param activity: a recorded rollout
    :param path: ending in .mp4 or .gif; it is replaced if it exists
    :param fps: frames a second; by default real time, or 20 if the recording does not say how long a step takes
    :param width: in pixels, even
    :param height: in pixels, even
    :param start: the first step shown
    :param steps: how many steps are shown; all by default
    :param renderer: what draws the body: "capsules" draws the recorded capsules; "mujoco" renders its geometry, which
        needs OpenGL; "auto" is MuJoCo where it can draw, and otherwise capsules. Without a body it shows what the
        environment drew of itself
    :param progress: show a progress bar
    :param look: of a recorded model, the first step that it does not see: from there on the outline of the body that
        it predicts is drawn over the real one, from capsules. By default the step from which on the two stay together
        longest while they are shown
    :return: a sentence that says how the body was drawn, and why
    """
    path = Path(path)
    check(path, fps, width, height, renderer)
    stop = last_step(activity, start, steps)
    run = run_of(activity, look, start, stop)
    rate = fps or 1 / (activity.seconds_per_step or 1 / DEFAULT_FPS)
    with ExitStack() as stack:
        rendered, how = choose_renderer(stack, activity, start, stop, renderer, width, height, run)
        body = flat_body(activity) if rendered is None else None
        scene = Scene(activity, start, stop, width, height, rendered, body, run)
        send = stack.enter_context(encoder(path, (width, height), rate))
        tracker = stack.enter_context(tracked("drawing", stop - start, unit="frames", shown=progress))
        for step in range(start, stop):
            send(scene.frame(step))
            tracker.advance(done=1, work=1)
    unknown = "" if activity.currents_are_known else "; no currents are drawn, because they are not known"
    return f"{stop - start} frames, {rate:g} a second; {how}{unknown}"


def run_of(activity: Activity, look: int | None, start: int, stop: int) -> BodyAhead | None:
    """Returns the continuation of a recorded model whose body is drawn, or None."""
    continued = continued_of(activity)
    if continued is None:
        if look is not None:
            raise ValueError("look is for a recorded model of dynamics, and this recording has no predictions ahead")
        return None
    return continued.run(look, start, stop)


def check(path: Path, fps: float | None, width: int, height: int, renderer: str) -> None:
    """Refuses arguments of which no video can be made."""
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"a video is a {' or '.join(SUFFIXES)} file, not {str(path)!r}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist: create it first")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file")
    if fps is not None and not (math.isfinite(fps) and fps > 0):
        raise ValueError(f"fps must be above 0, got {fps}")
    for name, size in (("width", width), ("height", height)):
        if size < LEAST_PIXELS or size % 2:
            raise ValueError(f"the {name} must be an even number of at least {LEAST_PIXELS} pixels, got {size}")
    if renderer not in RENDERERS:
        raise ValueError(f"the renderer is {', '.join(RENDERERS[:-1])} or {RENDERERS[-1]}, not {renderer!r}")


def choose_renderer(
    stack: ExitStack,
    activity: Activity,
    start: int,
    stop: int,
    renderer: str,
    width: int,
    height: int,
    run: BodyAhead | None = None,
) -> tuple[Callable[[], Array] | None, str]:
    """Chooses what draws the body.

    :param stack: ends MuJoCo's process when it is closed
    :param run: what a model predicted, if its body is drawn over the real one
    :return: a function that returns the next picture, of MuJoCo or of the environment, or None; and a clause that says
        how the body is drawn, and why
    """
    capsules = flat_body(activity) is not None
    if renderer == "capsules":
        if not capsules:
            raise ValueError('no body was recorded that could be drawn from capsules: leave the renderer at "auto"')
        return None, "the body is drawn from its capsules, as asked for"
    if run is not None and renderer == "auto":
        return None, f"the predicted body is drawn over the real one, open loop from step {run.start} on"
    if renderer == "auto" and "pictures" in activity.extras:
        size, own = pixels(body_box(width, height), height), pictures_of(activity, start, stop)
        return lambda: fitted(next(own), size), "the pictures are those that the environment draws"
    if not has_geometry(activity):
        why = "MuJoCo draws a body whose geometry was recorded, and this recording has none"
    else:
        size = pixels(body_box(width, height), height)
        try:
            pictures, backend = stack.enter_context(mujoco_pictures(activity, start, stop, size))
            return pictures, f"the body is drawn by MuJoCo (MUJOCO_GL={backend or 'not set'})"
        except RendererError as error:
            why = str(error)
        except ModuleNotFoundError as error:
            if renderer == "mujoco":
                raise
            why = f"{error.name} is not installed"
    if renderer == "mujoco":
        raise ValueError(f'{why}; set the renderer to "capsules" or "auto" to draw without MuJoCo')
    if capsules:
        return None, f"the body is drawn from its capsules: {why}"
    described = activity.about.get("pictures")
    if isinstance(described, dict) and "reason" in described:
        why = f"{shown(str(described['reason']))}, and MuJoCo draws bodies whose geometry was recorded"
    return None, f"no body is drawn, because none was recorded: {why}"


def fitted(picture: Array, size: tuple[int, int]) -> Array:
    """Returns a picture in the middle of a white one of that width and height, as large as it fits."""
    from PIL import Image, ImageOps

    return np.asarray(ImageOps.pad(Image.fromarray(picture), size, color="white"))
