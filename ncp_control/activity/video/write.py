"""A recorded rollout as a video: the body that moves, the circuit with its activity, the raster and a few traces.

    sentence = write_video(Activity.load("cheetah.npz"), "cheetah.mp4", steps=100)

What stays the same from frame to frame is drawn once; a frame adds what moves, which takes some milliseconds.
"""

from __future__ import annotations

import functools
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
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.figures.draw import (
    INK,
    colour_nodes,
    current_limit,
    draw_labels,
    draw_nodes,
    draw_raster,
    draw_scale,
    draw_starts,
    draw_synapses,
    episode_slices,
    halo,
    last_step,
    limits,
    liveliest,
    name_layers,
    place_legend,
    polarity_colours,
    polarity_handles,
    seconds_per_step,
    set_up,
    synapse_lines,
    title_of,
)
from ncp_control.activity.layout import FONT, Layout, input_labels, place, shortened
from ncp_control.activity.recording.activity import Activity
from ncp_control.support.pictures import plain
from ncp_control.support.progress import tracked

Array = NDArray[Any]
SUFFIXES, RENDERERS = (".mp4", ".gif"), ("auto", "mujoco", "capsules")
DEFAULT_FPS = 20.0
# The figure is as many inches high, whatever the pixels: text and lines grow with the frame.
INCHES = 7.2
LEAST_PIXELS = 160
# Raster and traces show as many steps at once, and then the next.
PAGE = 120
TRACES = 3
# Only the strongest currents of a moment are drawn anew in each frame.
STRONGEST = 60
FIRST_FRAME_SECONDS = 60.0
BODY, SKY, GROUND = "#44546a", "#eef3f8", "#d9d4c7"


class RendererError(RuntimeError):
    """MuJoCo cannot draw here; the message says what could help."""


class View(NamedTuple):
    """What of the plane of the body the camera sees.

    :param x: (T,), the middle, in metres, for every recorded step
    :param low: the lowest height
    :param width: metres
    :param height: metres
    """

    x: Array
    low: float
    width: float
    height: float


class Box(NamedTuple):
    """A rectangle of the frame in inches from its lower left corner."""

    left: float
    bottom: float
    width: float
    height: float


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
) -> str:
    """Writes a video with a frame for each step, and returns a sentence on how the body was drawn and why.

    The file appears when it is complete; an error or a Ctrl-C leaves nothing behind.

    :param activity: a recorded rollout
    :param path: ending in .mp4 or .gif; replaced if it exists
    :param fps: frames a second; by default real time, or 20 where the recording does not say how long a step takes
    :param width: pixels, even
    :param height: pixels, even
    :param start: the first step shown
    :param steps: how many are shown, all by default
    :param renderer: of the body: "capsules" draws the recorded body; "mujoco" renders a half-cheetah, which needs
        OpenGL; "auto" is MuJoCo where it can draw, else capsules
    :param progress: shows how far it is
    """
    path = Path(path)
    check(path, fps, width, height, renderer)
    stop = last_step(activity, start, steps)
    rate = fps or 1 / (seconds_per_step(activity) or 1 / DEFAULT_FPS)
    with ExitStack() as stack:
        frames, how = choose_renderer(stack, activity, start, stop, renderer, width, height)
        scene = Scene(activity, start, stop, width, height, frames, has_body(activity) and frames is None)
        send = stack.enter_context(encoder(path, (width, height), rate))
        tracker = stack.enter_context(tracked("drawing", stop - start, unit="frames", shown=progress))
        for step in range(start, stop):
            send(scene.frame(step))
            tracker.advance(done=1, work=1)
    return f"{stop - start} frames, {rate:g} a second; {how}"


def check(path: Path, fps: float | None, width: int, height: int, renderer: str) -> None:
    """Refuses what no video can be made of."""
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


# The body


def has_body(activity: Activity) -> bool:
    """Whether capsules were recorded."""
    return activity.get("body_ends") is not None and activity.get("body_radii") is not None


def is_half_cheetah(activity: Activity) -> bool:
    """Whether the observations are those of a half-cheetah, all 17."""
    names = activity.about.get("observation_names") or ()
    named = "cheetah" in str(activity.about.get("env")).lower() or "back thigh angle" in names
    return named and activity.observations.shape[1:] == (17,)


def choose_renderer(
    stack: ExitStack, activity: Activity, start: int, stop: int, renderer: str, width: int, height: int
) -> tuple[Callable[[], Array] | None, str]:
    """What gives the next picture of the body, or None for capsules; and in words how the body is drawn, and why."""
    capsules = has_body(activity)
    if renderer == "capsules":
        if not capsules:
            raise ValueError('no body was recorded that could be drawn from capsules: leave the renderer at "auto"')
        return None, "the body is drawn from its capsules, as asked for"
    if not is_half_cheetah(activity):
        why = "MuJoCo draws a half-cheetah whose 17 observations were recorded, and this is none"
    else:
        size = pixels(body_box(width, height), height)
        try:
            frames, backend = stack.enter_context(mujoco_frames(activity, start, stop, size))
            return frames, f"the body is drawn by MuJoCo (MUJOCO_GL={backend or 'not set'})"
        except RendererError as error:
            why = str(error)
        except ModuleNotFoundError as error:
            if renderer == "mujoco":
                raise
            why = f"{error.name} is not installed"
    if renderer == "mujoco":
        raise ValueError(f'{why}; set the renderer to "capsules" or "auto" to draw without it')
    if capsules:
        return None, f"the body is drawn from its capsules: {why}"
    return None, f"no body is drawn, since none was recorded: {why}"


def camera_path(activity: Activity, x: Array) -> Array:
    """(T,): where the camera looks: a mean of about a second of (T,) positions, so that strides can be seen."""
    found = np.empty(len(x))
    half = 10
    for where in episode_slices(activity):
        padded = np.pad(np.nan_to_num(x[where]), half, mode="edge")
        found[where] = np.convolve(padded, np.full(2 * half + 1, 1 / (2 * half + 1)), mode="valid")
    return found


def body_view(activity: Activity, aspect: float) -> View:
    """A view of the recorded body that fits every step.

    :param aspect: width over height
    """
    ends, radius = activity.extras["body_ends"], float(activity.extras["body_radii"].max(initial=0.0))
    ends = np.nan_to_num(np.asarray(ends, np.float64))
    x = camera_path(activity, ends[..., 0].mean((1, 2)))
    reach = float(np.abs(ends[..., 0] - x[:, None, None]).max()) + radius
    # A flight that happens once should not shrink all the rest; below the ground there is little to see.
    top = float(np.percentile(ends[..., 1].max((1, 2)), 99)) + radius
    low = min(0.0, float(np.percentile(ends[..., 1].min((1, 2)), 1)) - radius)
    tall = max(1.3 * (top - low), 2.2 * reach / aspect)
    return View(x, low - 0.13 * tall, tall * aspect, tall)


def capsule_outlines(ends: Array, radii: Array, points: int = 9) -> Array:
    """(K, 2 P, 2): outlines of capsules with ends (K, 2, 2) and radii (K,), each of their ends half a circle."""
    along = ends[:, 1] - ends[:, 0]
    angle = np.arctan2(along[:, 1], along[:, 0])
    turn = np.linspace(-np.pi / 2, np.pi / 2, points)
    arcs = []
    for end, towards in ((1, angle), (0, angle + np.pi)):
        at = towards[:, None] + turn
        arcs.append(ends[:, end, None] + radii[:, None, None] * np.stack([np.cos(at), np.sin(at)], -1))
    return np.concatenate(arcs, axis=1)


def half_cheetah_poses(activity: Activity) -> Array:
    """(T, 9): positions of the simulation: how far it has run since the episode began, and what it saw."""
    seen = np.nan_to_num(np.asarray(activity.observations, np.float64))
    seconds = seconds_per_step(activity) or 1 / DEFAULT_FPS
    x = np.zeros(len(seen))
    for where in episode_slices(activity):
        speed = seen[where, 8]
        x[where][1:] = np.cumsum((speed[1:] + speed[:-1]) / 2 * seconds)
    return np.concatenate([x[:, None], seen[:, :8]], axis=1)


@contextmanager
def mujoco_frames(
    activity: Activity, start: int, stop: int, size: tuple[int, int]
) -> Iterator[tuple[Callable[[], Array], str]]:
    """What gives the next picture, (height, width, 3), of a half-cheetah; and the OpenGL that drew it.

    MuJoCo draws in another process: where OpenGL does not work, it may end the process that it is in, and which OpenGL
    it takes is settled when it is imported.
    """
    poses = half_cheetah_poses(activity)
    for package in ("mujoco", "gymnasium"):
        if importlib.util.find_spec(package) is None:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    backend = os.environ.get("MUJOCO_GL") or ("egl" if sys.platform.startswith("linux") else "")
    with tempfile.TemporaryDirectory(prefix="ncp-control-") as folder:
        task = Path(folder) / "task.npz"
        np.savez(task, poses=poses[start:stop], look=camera_path(activity, poses[:, 0])[start:stop], size=size)
        # In a folder of its own, since MuJoCo writes a log where it runs.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))}
        if backend:
            environment["MUJOCO_GL"] = backend
        # The function alone: to import it from here would import the whole package, which takes many times as long.
        program = f"{inspect.getsource(render)}\nimport sys\nrender(sys.argv[1])"
        with (Path(folder) / "errors").open("wb+") as errors:
            child = subprocess.Popen(
                [sys.executable, "-c", program, str(task)], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=errors,
            )  # fmt: skip
            received = Received(child, size)
            try:
                first = received.next(FIRST_FRAME_SECONDS)
                if first is None:
                    raise RendererError(
                        f"MuJoCo cannot draw here with MUJOCO_GL={backend or 'unset'}, and without a screen it needs "
                        f"one of egl and osmesa{last_words(errors)}"
                    )
                waiting = [first]

                def following() -> Array:
                    frame = waiting.pop() if waiting else received.next(FIRST_FRAME_SECONDS)
                    if frame is None:
                        raise RuntimeError(f'MuJoCo stopped drawing{last_words(errors)}; use renderer="capsules"')
                    return frame

                yield following, backend
            finally:
                child.kill()
                child.wait()


class Received:
    """Pictures that another process writes into a pipe, read ahead by a thread."""

    def __init__(self, child: subprocess.Popen[bytes], size: tuple[int, int]) -> None:
        self.pipe: Any = child.stdout
        self.shape = (size[1], size[0], 3)
        self.frames: queue.Queue[Array | None] = queue.Queue(maxsize=8)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        """Until the pipe ends, which the other process does or its end."""
        count = math.prod(self.shape)
        with self.pipe:
            while len(data := self.pipe.read(count)) == count:
                self.frames.put(np.frombuffer(data, np.uint8).reshape(self.shape))
        self.frames.put(None)

    def next(self, seconds: float) -> Array | None:
        """The next picture, or None if none came in that time."""
        try:
            return self.frames.get(timeout=seconds)
        except queue.Empty:
            return None


def last_words(errors: Any) -> str:
    """The last line that the other process wrote, to go on with a sentence."""
    errors.seek(0)
    lines = [line.strip() for line in errors.read().decode(errors="replace").splitlines() if line.strip()]
    return f" ({lines[-1][:120]})" if lines else ""


def render(task: str) -> None:
    """Runs in a process of its own: renders a half-cheetah and writes the pictures as they are to standard output.

    That process has this function and nothing else of this module.
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
    # Three quarters of a frame's time in software, and hardly seen.
    model.vis.quality.shadowsize = 0
    data: Any = mujoco.MjData(model)
    # The floor ends after 40 m. It repeats long before, so the body may as well stay in the middle of it.
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


# The scene


def body_box(width: int, height: int) -> Box:
    """Where the body is, if there is one."""
    wide = INCHES * width / height
    return Box(0.25, 4.25, 0.46 * wide - 0.1, 2.4)


def pixels(box: Box, height: int) -> tuple[int, int]:
    """A box's size in pixels."""
    dpi = height / INCHES
    return round(box.width * dpi), round(box.height * dpi)


class Scene:
    """All that is seen, drawn frame by frame.

    :param rendered: gives the next picture of the body, if it is not drawn here
    :param capsules: whether the body is drawn here
    """

    def __init__(
        self,
        activity: Activity,
        start: int,
        stop: int,
        width: int,
        height: int,
        rendered: Callable[[], Array] | None,
        capsules: bool,
    ) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.activity, self.start, self.stop, self.rendered = activity, start, stop, rendered
        self.size = Box(0, 0, INCHES * width / height, INCHES)
        # A little more than the pixels, since Agg cuts what rounding leaves below a whole one.
        dpi = height / INCHES
        self.figure: Any = Figure(figsize=((width + 0.01) / dpi, (height + 0.01) / dpi), dpi=dpi, facecolor="white")
        self.canvas: Any = FigureCanvasAgg(self.figure)
        self.moving: list[Any] = []
        self.updates: list[Callable[[int], None]] = []
        self.page = range(0)
        self.turned: list[Callable[[range], None]] = []
        self.background: Any = None
        box = body_box(width, height)
        self.body_box = box
        if capsules:
            self.add_body(box)
        self.add_time(box, rendered is not None or capsules)
        self.add_circuit(Box(box.left + box.width + 0.35, 0.62, self.size.width - box.left - box.width - 0.55, 6.4))

    def frame(self, step: int) -> Array:
        """(height, width, 4): the picture of a step, good until the next is drawn."""
        if step not in self.page:
            self.turn(step)
        self.canvas.restore_region(self.background)
        for update in self.updates:
            update(step)
        renderer = self.canvas.get_renderer()
        for artist in self.moving:
            artist.draw(renderer)
        picture = np.asarray(self.canvas.buffer_rgba())
        if self.rendered is not None:
            picture = picture.copy()
            body = self.rendered()
            dpi = len(picture) / INCHES
            left, top = round(self.body_box.left * dpi), round((INCHES - self.body_box.bottom) * dpi) - len(body)
            picture[top : top + len(body), left : left + body.shape[1], :3] = body
        return picture

    def turn(self, step: int) -> None:
        """The page of the raster and the traces that has this step; the last one is as long as the others."""
        length = min(PAGE, self.stop - self.start)
        first = min(self.start + (step - self.start) // length * length, self.stop - length)
        self.page = range(first, first + length)
        for turned in self.turned:
            turned(self.page)
        self.canvas.draw()
        self.background = self.canvas.copy_from_bbox(self.figure.bbox)

    def axes(self, box: Box) -> Any:
        """Axes in a box."""
        wide, tall = self.size.width, self.size.height
        return self.figure.add_axes((box.left / wide, box.bottom / tall, box.width / wide, box.height / tall))

    def text(self, x: float, y: float, text: str, **how: Any) -> Any:
        """Text at inches of the frame."""
        return self.figure.text(x / self.size.width, y / self.size.height, text, color=INK, parse_math=False, **how)

    def add(self, artist: Any) -> Any:
        """An artist that every frame draws anew, in the order in which they are added."""
        artist.set_animated(True)
        self.moving.append(artist)
        return artist

    def add_body(self, box: Box) -> None:
        """Capsules on a ground with a tick each metre, or so."""
        from matplotlib.collections import LineCollection, PolyCollection

        axes = self.axes(box)
        view = body_view(self.activity, box.width / box.height)
        axes.set(xlim=(-view.width / 2, view.width / 2), ylim=(view.low, view.low + view.height), facecolor=SKY)
        axes.set(xticks=[], yticks=[])
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.axhspan(view.low, 0, color=GROUND, linewidth=0)
        axes.axhline(0, color=INK, linewidth=1)
        distance = tick_distance(view.width / 3)
        ticks = self.add(axes.add_collection(LineCollection([], colors=INK, linewidths=1)))
        numbers = self.add(axes.add_patch(lettering()))
        count, metres = int(view.width / distance) + 2, view.height / box.height / 72
        body = self.add(axes.add_collection(PolyCollection([], facecolors=BODY, edgecolors="white", linewidths=0.8)))
        ends, radii = self.activity.extras["body_ends"], self.activity.extras["body_radii"]

        def update(step: int) -> None:
            x = float(view.x[step])
            first = math.ceil((x - view.width / 2) / distance)
            marks = (first + np.arange(count)) * distance - x
            ticks.set_segments([[(mark, 0), (mark, view.low * 0.4)] for mark in marks])
            texts = [(f"{(first + k) * distance:g} m", mark, view.low * 0.72, 0.5) for k, mark in enumerate(marks)]
            numbers.set_path(outline(texts, 8 * metres))
            here = np.nan_to_num(np.asarray(ends[step], np.float64))
            body.set_verts(list(capsule_outlines(here - (x, 0.0), radii)))

        self.updates.append(update)

    def add_time(self, body: Box, has_body: bool) -> None:
        """The title with the time, the raster and below it a few traces, with a line at the present step."""
        left, right = body.left + 0.65, body.left + body.width - 0.6
        top = body.bottom - 0.3 if has_body else body.bottom + body.height - 0.1
        traces = trace_rows(self.activity)
        bottom, row = 0.5, 0.46
        middle = bottom + row * len(traces)
        raster = self.axes(Box(left, middle + 0.12, right - left, top - middle - 0.12))
        image = draw_raster(raster, self.activity, self.start, self.start + 1)
        raster.set_xticks([])
        raster.set_yticks([])
        name_layers(raster, self.activity.wiring, fontsize=7)
        raster.set_ylabel("neurons", fontsize=7)
        rows = []
        for k, (name, values) in enumerate(traces):
            axes = self.axes(Box(left, middle - (k + 1) * row + 0.06, right - left, row - 0.06))
            (line,) = axes.plot([], [], color=INK, linewidth=1)
            low, high = np.nanmin(values, initial=0.0), np.nanmax(values, initial=0.0)
            room = 0.08 * max(high - low, 1e-6)
            axes.set(ylim=(low - room, high + room), yticks=[])
            axes.set_ylabel(
                shortened(name, 12), rotation=0, ha="right", va="center", fontsize=7, labelpad=4, parse_math=False
            )
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.tick_params(labelsize=7, length=2, labelbottom=k == len(traces) - 1, bottom=k == len(traces) - 1)
            plain(axes)
            rows.append((axes, line, values))
        rows[-1][0].set_xlabel("step", fontsize=7, labelpad=1)
        marks: list[Any] = []

        def turned(page: range) -> None:
            image.set_data(self.activity.neurons[page.start : page.stop].T)
            ends = (page.start - 0.5, page.stop - 0.5)
            image.set_extent((*ends, self.activity.wiring.units - 0.5, -0.5))
            while marks:
                marks.pop().remove()
            for axes in (raster, *(axes for axes, _, _ in rows)):
                axes.set_xlim(ends)
                marks.extend(draw_starts(axes, self.activity, page.start, page.stop))
            for _, line, values in rows:
                line.set_data(page, values[page.start : page.stop])

        self.turned.append(turned)
        self.add_cursor(left, right, bottom, top)
        title = title_of(self.activity)
        self.text(body.left, 6.9, shortened(title, 48), fontsize=11, va="center", weight="bold")
        clock = self.add(self.figure.add_artist(lettering()))
        clock.set_transform(self.figure.dpi_scale_trans)
        seconds = seconds_per_step(self.activity)

        def tick(step: int) -> None:
            text = f"step {step}" + (f"   {step * seconds:.2f} s" if seconds else "")
            clock.set_path(outline([(text, body.left + body.width, 6.9, 1.0)], 10 / 72))

        self.updates.append(tick)

    def add_cursor(self, left: float, right: float, bottom: float, top: float) -> None:
        """One line through the raster and the traces."""
        from matplotlib.lines import Line2D

        wide, tall = self.size.width, self.size.height
        cursor = Line2D([], [], color="#cc0066", linewidth=1.3)
        self.add(self.figure.add_artist(cursor))

        def update(step: int) -> None:
            x = (left + (right - left) * (step - self.page.start + 0.5) / len(self.page)) / wide
            cursor.set_data([x, x], [bottom / tall, top / tall])

        self.updates.append(update)

    def add_circuit(self, box: Box) -> None:
        """The circuit: all synapses faintly, and anew in each frame the strongest currents and the nodes."""
        activity = self.activity
        axes = self.axes(box)
        layout = place(activity.wiring, box.width, box.height, input_labels(activity))
        set_up(axes, layout)
        draw_synapses(axes, activity.wiring, layout, faint=0.35)
        self.add_currents(axes, layout)
        squares, discs = draw_nodes(axes, activity, layout, None, None, animated=True)
        self.moving += [squares, discs]
        most = limits(activity)
        self.updates.append(
            lambda step: colour_nodes(squares, discs, activity.neurons[step], activity.inputs[step], most)
        )
        draw_labels(axes, layout, of_inputs_only=True)
        # Over the currents, which would hide them.
        for align, share in (("center", 0.5), ("left", 0.0)):
            names = self.add(axes.add_patch(lettering()))
            texts = [(one.text, one.x, one.y, share) for one in layout.labels if one.align == align]
            names.set_path(outline(texts, FONT * layout.scale / 72))
            names.set_path_effects(halo() if align == "left" else None)
        corner = (box.left / self.size.width, 0.28 / self.size.height)
        place_legend(self.figure, polarity_handles(activity.wiring, True), corner, fontsize=7.5)
        scale = Box(box.left + box.width - 1.9, 0.36, 1.8, 0.1)
        draw_scale(self.figure, self.axes(scale), activity)

    def add_currents(self, axes: Any, layout: Layout) -> None:
        """The synapses with the strongest currents of a step, wider where more flows."""
        from matplotlib.collections import LineCollection

        activity = self.activity
        lines, color = synapse_lines(activity.wiring, layout), polarity_colours(activity.wiring)
        drawn = self.add(axes.add_collection(LineCollection([], capstyle="round")))
        limit = current_limit(activity)

        def update(step: int) -> None:
            currents = np.abs(np.concatenate([activity.sensory_currents[step], activity.currents[step]]))
            strength = np.clip(np.nan_to_num(currents) / limit, 0, 1)
            strongest = np.argsort(strength, kind="stable")[-STRONGEST:]
            chosen, strength = color[strongest], strength[strongest]
            chosen[:, 3] = 0.9 * strength
            drawn.set_segments(list(lines[strongest]))
            drawn.set_color(chosen)
            drawn.set_linewidth(0.4 + 2.2 * strength)

        self.updates.append(update)


@functools.cache
def letter(character: str) -> tuple[Array, Array, float]:
    """A character of size 1: the vertices, (n, 2), and codes, (n,), of its outline, and how far on the next one is."""
    from matplotlib.textpath import TextPath

    # A space has no outline of its own, so what follows it tells its width.
    bar, both = (TextPath((0, 0), text, size=100) for text in ("|", f"{character}|"))
    own = len(both.vertices) - len(bar.vertices)
    on = float(both.vertices[:, 0].max() - bar.vertices[:, 0].max()) / 100
    return np.asarray(both.vertices)[:own] / 100, np.asarray(both.codes, np.uint8)[:own], on


def outline(texts: list[tuple[str, float, float, float]], size: float) -> Any:
    """Many short texts as one path, which draws much faster than as many texts.

    :param texts: (text, x, y, align): at which share of its width the text is at x; its middle is at y
    :param size: of the font
    """
    from matplotlib.path import Path as Outline

    vertices, codes = [np.empty((0, 2))], [np.empty(0, np.uint8)]
    for text, x, y, align in texts:
        letters = [letter(character) for character in text]
        at = x - align * size * sum(on for _, _, on in letters)
        for points, kinds, on in letters:
            # Digits and capitals are about .73 of the size high.
            vertices.append(points * size + (at, y - 0.365 * size))
            codes.append(kinds)
            at += on * size
    return Outline(np.concatenate(vertices), np.concatenate(codes))


def lettering() -> Any:
    """What shows an outline of text."""
    from matplotlib.patches import PathPatch

    return PathPatch(outline([], 1.0), facecolor=INK, linewidth=0, zorder=3)


def trace_rows(activity: Activity) -> list[tuple[str, Array]]:
    """Names and values, (T,), of what is drawn over time: a few lively neurons, and the liveliest action."""
    rows = [(activity.wiring.neuron_names[k], activity.neurons[:, k]) for k in liveliest(activity, TRACES)]
    actions = activity.get("actions")
    if actions is not None and actions.ndim == 2 and actions.shape[1]:
        names = activity.about.get("action_names") or ()
        k = int(np.nan_to_num(actions).std(0).argmax())
        rows.append((f"{names[k]}" if len(names) == actions.shape[1] else f"action {k}", actions[:, k]))
    return rows


def tick_distance(about: float) -> float:
    """1, 2 or 5 times a power of ten, not above."""
    power = 10.0 ** math.floor(math.log10(max(about, 1e-6)))
    return max(step * power for step in (1, 2, 5) if step * power <= about * (1 + 1e-9))


# The file


@contextmanager
def encoder(path: Path, size: tuple[int, int], fps: float) -> Iterator[Callable[[Array], None]]:
    """What takes the frames, (height, width, 4); at the end the file is there, and after an error it is not."""
    import imageio_ffmpeg

    try:
        program = imageio_ffmpeg.get_ffmpeg_exe()
    except RuntimeError as error:
        raise ValueError(
            "a video needs ffmpeg, and there is none: pip install --force-reinstall imageio-ffmpeg, or name one in "
            "the environment variable IMAGEIO_FFMPEG_EXE"
        ) from error
    gif = path.suffix.lower() == ".gif"
    movie = path.with_name(f".{path.name}.{os.getpid()}.tmp.mp4")
    palette, picture = movie.with_suffix(".png"), movie.with_suffix(".gif")
    # A gif's palette is made of all frames, which are kept without loss until then.
    quality = ["-crf", "0", "-preset", "ultrafast"] if gif else ["-crf", "19", "-preset", "veryfast"]
    # Players take a video of this size to be in BT.709; ffmpeg would write BT.601, whose greens and purples differ.
    matrix = ["-vf", "scale=out_color_matrix=bt709"]
    for name in ("-colorspace", "-color_primaries", "-color_trc"):
        matrix += [name, "bt709"]
    writer = imageio_ffmpeg.write_frames(
        str(movie), size, pix_fmt_in="rgba", pix_fmt_out="yuv444p" if gif else "yuv420p", fps=fps, quality=None,
        codec="libx264", macro_block_size=2, ffmpeg_log_level="error",
        output_params=[*quality, *matrix, "-movflags", "+faststart"],
    )  # fmt: skip
    try:
        writer.send(None)
        count = 0

        def send(frame: Array) -> None:
            nonlocal count
            writer.send(np.ascontiguousarray(frame))
            count += 1

        yield send
        writer.close()
        if whole_frames(movie) != count:
            raise OSError(f"ffmpeg did not write the whole of {path}: is there room on the disk?")
        if gif:
            run_ffmpeg(program, "-i", str(movie), "-vf", "palettegen=stats_mode=full", str(palette))
            run_ffmpeg(
                program, "-i", str(movie), "-i", str(palette), "-lavfi", "paletteuse=dither=bayer:bayer_scale=4",
                "-loop", "0", str(picture),
            )  # fmt: skip
        (picture if gif else movie).replace(path)
    finally:
        writer.close()
        for temporary in (movie, palette, picture):
            temporary.unlink(missing_ok=True)


def whole_frames(path: Path) -> int:
    """How many frames a video has, 0 if it is none."""
    import imageio_ffmpeg

    with suppress(RuntimeError, OSError):
        return int(imageio_ffmpeg.count_frames_and_secs(str(path))[0])
    return 0


def run_ffmpeg(program: str, *arguments: str) -> None:
    """Runs ffmpeg to its end."""
    done = subprocess.run(
        [program, "-y", "-v", "error", *arguments], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
    )
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().splitlines()
        raise OSError(f"ffmpeg failed: {words[-1] if words else 'it said nothing'}")
