"""`ncp-control view`: a recording as a page, a video or figures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro


@dataclass
class Arguments:
    """Show a recording as a page for a browser, as a video, or as figures for a paper. Several recordings of one
    circuit make one page with a slider.

    Example: ncp-control view episode.npz --html episode.html --video episode.mp4 --figures pictures
    """

    episodes: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="EPISODE ...")]
    """One recording or several, written by `ncp-control record`."""

    html: Path | None = None
    """The page, a single file. Without --html, --video and --figures it is written beside the recording."""

    video: Path | None = None
    """The video, a .mp4 or .gif file."""

    figures: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """The folder for the figures: wiring, activity, raster and others, one file each."""

    formats: tuple[str, ...] = ("png",)
    """File formats of the figures: png, svg, pdf."""

    start: int = 0
    """The first step of the video."""

    steps: int | None = None
    """How many steps the video shows. The default is all."""

    look: int | None = None
    """For the video of a dynamics model: the first step that the model does not see. From there on the body that it
    predicts is drawn over the real one."""

    renderer: str = "auto"
    """What draws the body in the video: mujoco, capsules, or auto, which is MuJoCo if it can draw here."""

    json: bool = False
    """Print one JSON object last, with the files that were written."""


def run(arguments: Arguments) -> int:
    """Writes the page, the figures and the video, and prints where they are."""
    from ncp_control.activity.recording.activity import Activity

    written: dict[str, Any] = {}

    def say(words: str) -> None:
        if not arguments.json:
            print(words)

    recordings = [Activity.load(path) for path in arguments.episodes]
    nothing = arguments.html is None and arguments.video is None and arguments.figures is None
    html = arguments.episodes[0].with_suffix(".html") if nothing else arguments.html
    if len(recordings) > 1 and (arguments.video or arguments.figures):
        raise ValueError("a video and figures show one recording: name one, or ask for --html alone")
    if html is not None:
        from ncp_control.activity.page import write_page

        write_page(recordings if len(recordings) > 1 else recordings[0], html)
        written["page"] = str(html)
        say(f"page: {html} ({html.stat().st_size / 1e6:.2f} MB); open it in a browser")
    if arguments.figures is not None:
        from ncp_control.activity.figures import write_figures

        paths = write_figures(recordings[0], arguments.figures, arguments.formats)
        written["figures"] = [str(path) for path in paths]
        say("\n".join(f"figure: {path}" for path in paths))
    if arguments.video is not None:
        from ncp_control.activity.video import write_video

        how = write_video(
            recordings[0], arguments.video, start=arguments.start, steps=arguments.steps, renderer=arguments.renderer,
            look=arguments.look,
        )  # fmt: skip
        written["video"] = str(arguments.video)
        say(f"video: {arguments.video} ({arguments.video.stat().st_size / 1e6:.2f} MB); {how}")
    if arguments.json:
        print(json.dumps(written))
    return 0
