"""The frames of a video: the body, the raster with a few traces below it, and the circuit.

What stays the same from frame to frame is drawn once and kept as the background. A frame adds what moves. Short texts
that change with every frame are drawn as outlines, which is much faster than matplotlib's own text.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.body import FlatBody, capsule_outlines
from ncp_control.activity.continued import BodyAhead
from ncp_control.activity.figures.states import draw_raster, draw_starts, liveliest
from ncp_control.activity.figures.style import INK, draw_scale, figure_title, halo, limits, name_layers
from ncp_control.activity.figures.wiring import (
    colour_nodes,
    current_limit,
    current_strengths,
    draw_labels,
    draw_nodes,
    draw_synapses,
    effect_colours,
    legend_handles,
    place_legend,
    set_up,
    synapse_lines,
)
from ncp_control.activity.layout import FONT, Layout, place
from ncp_control.activity.names import input_labels, shortened
from ncp_control.activity.recording.activity import Activity
from ncp_control.activity.video.frame import INCHES, Box, View, body_box, body_view, tick_distance
from ncp_control.base.pages import GREY, ORANGE, plain

Array = NDArray[Any]
PAGE = 120  # the raster and the traces show this many steps, and then the next ones
TRACES = 3
STRONGEST = 60  # so many of a step's strongest currents are drawn in its frame
SKY, GROUND, CURSOR = "#eef3f8", "#d9d4c7", "#cc0066"
HALF_HEIGHT = 0.365  # of digits and capitals, for a font of size 1


class Scene:
    """Draws the frames of a video, step by step.

    :param activity: a recorded rollout
    :param start: the first step of the video
    :param stop: the step after its last one
    :param width: in pixels
    :param height: in pixels
    :param rendered: returns the next picture of the body if another program renders it
    :param body: the body whose capsules are drawn, or None to draw none
    :param run: what a model predicted: the body that is drawn over the other one, or None to draw none
    """

    def __init__(
        self,
        activity: Activity,
        start: int,
        stop: int,
        width: int,
        height: int,
        rendered: Callable[[], Array] | None,
        body: FlatBody | None,
        run: BodyAhead | None = None,
    ) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.activity, self.start, self.stop, self.rendered = activity, start, stop, rendered
        self.size = Box(0, 0, INCHES * width / height, INCHES)
        # The size is a little more than the pixels, because Agg drops a pixel that rounding leaves incomplete.
        dpi = height / INCHES
        self.figure: Any = Figure(figsize=((width + 0.01) / dpi, (height + 0.01) / dpi), dpi=dpi, facecolor="white")
        self.canvas: Any = FigureCanvasAgg(self.figure)
        self.moving: list[Any] = []
        self.updates: list[Callable[[int], None]] = []
        self.page = range(0)
        self.page_turns: list[Callable[[range], None]] = []
        self.background: Any = None
        box = body_box(width, height)
        self.body_box = box
        if body is not None:
            self.add_body(box, body, run)
        self.add_time(box, rendered is not None or body is not None)
        self.add_circuit(Box(box.left + box.width + 0.35, 0.62, self.size.width - box.left - box.width - 0.55, 6.4))

    def frame(self, step: int) -> Array:
        """Returns the picture of a step, (height, width, 4), which is valid until the next one is drawn."""
        if step not in self.page:
            self.turn_page(step)
        self.canvas.restore_region(self.background)
        for update in self.updates:
            update(step)
        renderer = self.canvas.get_renderer()
        for artist in self.moving:
            artist.draw(renderer)
        picture = np.asarray(self.canvas.buffer_rgba())
        if self.rendered is not None:
            picture = picture.copy()  # the canvas keeps its own
            body = self.rendered()
            dpi = len(picture) / INCHES
            left, top = round(self.body_box.left * dpi), round((INCHES - self.body_box.bottom) * dpi) - len(body)
            picture[top : top + len(body), left : left + body.shape[1], :3] = body
        return picture

    def turn_page(self, step: int) -> None:
        """Draws the raster and the traces of the page with this step; the last page is as long as the others."""
        length = min(PAGE, self.stop - self.start)
        first = min(self.start + (step - self.start) // length * length, self.stop - length)
        self.page = range(first, first + length)
        for turn in self.page_turns:
            turn(self.page)
        self.canvas.draw()
        self.background = self.canvas.copy_from_bbox(self.figure.bbox)

    def axes(self, box: Box) -> Any:
        """Returns new axes in a box."""
        wide, tall = self.size.width, self.size.height
        return self.figure.add_axes((box.left / wide, box.bottom / tall, box.width / wide, box.height / tall))

    def add_moving(self, artist: Any) -> Any:
        """Registers an artist that every frame draws anew, after those that were added before it, and returns it."""
        artist.set_animated(True)
        self.moving.append(artist)
        return artist

    def add_body(self, box: Box, body: FlatBody, run: BodyAhead | None) -> None:
        """Adds the capsules, on a ground with ticks at round numbers of metres, or over a grid if seen from above."""
        from matplotlib.collections import LineCollection, PolyCollection

        axes = self.axes(box)
        view = body_view(self.activity, body, box.width / box.height)
        top = view.low + view.height
        axes.set(xlim=(-view.width / 2, view.width / 2), ylim=(view.low, top), facecolor=SKY)
        axes.set(xticks=[], yticks=[])
        for spine in axes.spines.values():
            spine.set_visible(False)
        base = view.low + 0.13 * view.height
        if body.ground is not None and not body.above:
            base = body.ground
            axes.axhspan(view.low, base, color=GROUND, linewidth=0)
        if not body.above:
            axes.axhline(base, color=INK, linewidth=1)
        distance = tick_distance(view.width / 3)
        grid = self.add_moving(axes.add_collection(LineCollection([], colors="white", linewidths=1)))
        capsules = PolyCollection([], edgecolors="white", linewidths=0.8)
        drawn = self.add_moving(axes.add_collection(capsules))
        ticks = self.add_moving(axes.add_collection(LineCollection([], colors=INK, linewidths=1)))
        numbers = self.add_moving(axes.add_patch(lettering()))
        count, metres_per_point = int(view.width / distance) + 2, view.height / box.height / 72
        # From the ground down, or along the edge of a view from above.
        start, end, text = (0.0, 0.23, 0.55) if body.above else (1.0, 0.6, 0.28)
        start, end, text = (view.low + share * (base - view.low) for share in (start, end, text))

        def update(step: int) -> None:
            x, y = view.middle[step]
            first = math.ceil((x - view.width / 2) / distance)
            marks = (first + np.arange(count)) * distance - x
            ticks.set_segments([[(mark, start), (mark, end)] for mark in marks])
            texts = [(f"{(first + k) * distance:g} m", mark, text, 0.5) for k, mark in enumerate(marks)]
            numbers.set_path(outline(texts, 8 * metres_per_point))
            if body.above:
                lowest = math.ceil((y + view.low) / distance)
                across = np.arange(lowest, lowest + int(view.height / distance) + 2) * distance - y
                half = view.width / 2
                grid.set_segments([
                    *([(mark, view.low), (mark, top)] for mark in marks),
                    *([(-half, mark), (half, mark)] for mark in across),
                ])  # fmt: skip
            outlines, colours = body.drawn(step, view.middle[step])
            drawn.set_verts(list(outlines))
            drawn.set_facecolor(colours)

        self.updates.append(update)
        if run is not None:
            self.add_predicted_body(axes, view, body, run, metres_per_point)

    def add_predicted_body(
        self, axes: Any, view: View, body: FlatBody, run: BodyAhead, metres_per_point: float
    ) -> None:
        """Adds the outline of the body that a model predicts, while it does not look, and says since when."""
        from matplotlib.collections import PolyCollection

        outlined = self.add_moving(
            axes.add_collection(PolyCollection([], facecolors="none", edgecolors=ORANGE, linewidths=1.6))
        )
        words = self.add_moving(axes.add_patch(lettering()))
        words.set_facecolor(ORANGE)

        def update(step: int) -> None:
            ahead = step - run.start
            shown = 0 <= ahead < len(run.ends) and bool(np.isfinite(run.ends[ahead]).all())
            outlined.set_verts(list(capsule_outlines(run.ends[ahead] - view.middle[step], body.radii)) if shown else [])
            text = f"open-loop prediction since step {run.start}" if shown else ""
            if shown and run.parted is not None and step >= run.parted:
                text += f", parted at step {run.parted}"
            place = -view.width / 2 + 6 * metres_per_point, view.low + view.height - 10 * metres_per_point
            words.set_path(outline([(text, *place, 0.0)], 9 * metres_per_point))

        self.updates.append(update)

    def add_time(self, body: Box, has_body: bool) -> None:
        """Adds the title, the time, the raster, a few traces below it, and a cursor at the present step."""
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
            room = 0.08 * max(high - low, 1e-6)  # also for a trace that is constant
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

        def turn(page: range) -> None:
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

        self.page_turns.append(turn)
        self.add_cursor(left, right, bottom, top)
        wide, tall = self.size.width, self.size.height
        self.figure.text(
            body.left / wide, 6.9 / tall, shortened(figure_title(self.activity), 48), color=INK, parse_math=False,
            fontsize=11, va="center", weight="bold",
        )  # fmt: skip
        clock = self.add_moving(self.figure.add_artist(lettering()))
        clock.set_transform(self.figure.dpi_scale_trans)
        seconds = self.activity.seconds_per_step

        def tick(step: int) -> None:
            text = f"step {step}" + (f"   {step * seconds:.2f} s" if seconds else "")
            clock.set_path(outline([(text, body.left + body.width, 6.9, 1.0)], 10 / 72))

        self.updates.append(tick)

    def add_cursor(self, left: float, right: float, bottom: float, top: float) -> None:
        """Adds one line through the raster and the traces."""
        from matplotlib.lines import Line2D

        wide, tall = self.size.width, self.size.height
        cursor = Line2D([], [], color=CURSOR, linewidth=1.3)
        self.add_moving(self.figure.add_artist(cursor))

        def update(step: int) -> None:
            x = (left + (right - left) * (step - self.page.start + 0.5) / len(self.page)) / wide
            cursor.set_data([x, x], [bottom / tall, top / tall])

        self.updates.append(update)

    def add_circuit(self, box: Box) -> None:
        """Adds the circuit: all synapses faintly, and in each frame the strongest currents and the nodes."""
        from matplotlib.colors import to_rgba

        activity = self.activity
        axes = self.axes(box)
        layout = place(activity.wiring, box.width, box.height, input_labels(activity))
        set_up(axes, layout)
        count = activity.wiring.existing_synapses
        draw_synapses(axes, activity.wiring, layout, np.tile(to_rgba(GREY), (count, 1)), faint=0.35)
        if activity.currents_are_known:
            self.add_currents(axes, layout)
        squares, discs = draw_nodes(axes, activity, layout, None, None, animated=True)
        self.moving += [squares, discs]
        most = limits(activity)
        self.updates.append(
            lambda step: colour_nodes(squares, discs, activity.neurons[step], activity.inputs[step], most)
        )
        draw_labels(axes, layout, of_inputs_only=True)
        # The neurons' names are drawn in every frame, because the currents would hide them.
        for align, share in (("center", 0.5), ("left", 0.0)):
            names = self.add_moving(axes.add_patch(lettering()))
            texts = [(label.text, label.x, label.y, share) for label in layout.labels if label.align == align]
            names.set_path(outline(texts, FONT * layout.scale / 72))
            names.set_path_effects(halo() if align == "left" else None)
        corner = (box.left / self.size.width, 0.28 / self.size.height)
        place_legend(self.figure, legend_handles(activity, at_a_step=True), corner, fontsize=7.5)
        scale = Box(box.left + box.width - 1.9, 0.36, 1.8, 0.1)
        draw_scale(self.figure, self.axes(scale), activity)

    def add_currents(self, axes: Any, layout: Layout) -> None:
        """Adds the synapses with the strongest currents of a step, wider for a stronger current."""
        from matplotlib.collections import LineCollection

        activity = self.activity
        lines = synapse_lines(activity.wiring, layout)
        drawn = self.add_moving(axes.add_collection(LineCollection([], capstyle="round")))
        limit = current_limit(activity)

        def update(step: int) -> None:
            strength = current_strengths(activity, step, limit)
            strongest = np.argsort(strength, kind="stable")[-STRONGEST:]
            chosen, strength = effect_colours(activity, step)[strongest], strength[strongest]
            chosen[:, 3] = 0.9 * strength
            drawn.set_segments(list(lines[strongest]))
            drawn.set_color(chosen)
            drawn.set_linewidth(0.4 + 2.2 * strength)

        self.updates.append(update)


def trace_rows(activity: Activity) -> list[tuple[str, Array]]:
    """Returns names and values (T,) of the traces: a few neurons and the action that vary most."""
    rows = [(activity.wiring.neuron_names[k], activity.neurons[:, k]) for k in liveliest(activity, TRACES)]
    actions = activity.get("actions")
    if actions is not None and actions.ndim == 2 and actions.shape[1]:
        names = activity.about.get("action_names") or ()
        k = int(np.nan_to_num(actions).std(0).argmax())
        rows.append((f"{names[k]}" if len(names) == actions.shape[1] else f"action {k}", actions[:, k]))
    return rows


@functools.cache
def letter(character: str) -> tuple[Array, Array, float]:
    """Returns a character of size 1: its outline's vertices (n, 2) and codes (n,), and its width."""
    from matplotlib.textpath import TextPath

    # A space has no outline, so the width is measured with a bar behind the character.
    bar, both = (TextPath((0, 0), text, size=100) for text in ("|", f"{character}|"))
    own = len(both.vertices) - len(bar.vertices)
    width = float(both.vertices[:, 0].max() - bar.vertices[:, 0].max()) / 100
    return np.asarray(both.vertices)[:own] / 100, np.asarray(both.codes, np.uint8)[:own], width


def outline(texts: list[tuple[str, float, float, float]], size: float) -> Any:
    """Returns many short texts as one path.

    :param texts: (text, x, y, align) each: the point at the share `align` of the text's width is at x, its middle at y
    :param size: size of the font
    """
    from matplotlib.path import Path as Outline

    vertices, codes = [np.empty((0, 2))], [np.empty(0, np.uint8)]
    for text, x, y, align in texts:
        letters = [letter(character) for character in text]
        at = x - align * size * sum(width for _, _, width in letters)
        for points, kinds, width in letters:
            vertices.append(points * size + (at, y - HALF_HEIGHT * size))
            codes.append(kinds)
            at += width * size
    return Outline(np.concatenate(vertices), np.concatenate(codes))


def lettering() -> Any:
    """Returns an artist that shows an `outline`, empty at first."""
    from matplotlib.patches import PathPatch

    return PathPatch(outline([], 1.0), facecolor=INK, linewidth=0, zorder=3)
