"""`ncp-control view`: a recording as a page, a video, figures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro


@dataclass
class Arguments:
    """Show a recording: as a page for a browser, a video, figures for a paper. Several recordings of one circuit make
    one page with a slider for them.

    Example: ncp-control view episode.npz --html episode.html --video episode.mp4 --figures pictures
    """

    episodes: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="EPISODE ...")]
    """A recording, or several: what `ncp-control record` wrote."""

    html: Path | None = None
    """The page, one file that needs nothing else; by default beside the recording, if nothing else is asked for."""

    video: Path | None = None
    """A .mp4 or .gif file."""

    figures: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """A folder for figures."""

    formats: tuple[str, ...] = ("png",)
    """Of the figures: png, svg, pdf."""

    start: int = 0
    """Of the video: its first step."""

    steps: int | None = None
    """Of the video: how many steps; by default all."""

    renderer: str = "auto"
    """Of the video's body: mujoco, capsules, or auto: MuJoCo where it can draw here."""

    json: bool = False
    """Print one JSON object last: the files that were written."""


def run(arguments: Arguments) -> int:
    """Write what was asked for, and say where it is."""
    from ncp_control.activity.recording.activity import Activity

    written: dict[str, Any] = {}

    def say(words: str) -> None:
        if not arguments.json:
            print(words)

    found = [Activity.load(path) for path in arguments.episodes]
    nothing = arguments.html is None and arguments.video is None and arguments.figures is None
    html = arguments.episodes[0].with_suffix(".html") if nothing else arguments.html
    if len(found) > 1 and (arguments.video or arguments.figures):
        raise ValueError("a video and figures are of one recording: name one, or ask for --html alone")
    if html is not None:
        from ncp_control.activity.page.write import write_page

        write_page(found if len(found) > 1 else found[0], html)
        written["page"] = str(html)
        say(f"page: {html} ({html.stat().st_size / 1e6:.2f} MB); open it in a browser")
    if arguments.figures is not None:
        from ncp_control.activity.figures.draw import write_figures

        paths = write_figures(found[0], arguments.figures, arguments.formats)
        written["figures"] = [str(path) for path in paths]
        say("\n".join(f"figure: {path}" for path in paths))
    if arguments.video is not None:
        from ncp_control.activity.video.write import write_video

        said = write_video(
            found[0], arguments.video, start=arguments.start, steps=arguments.steps, renderer=arguments.renderer
        )
        written["video"] = str(arguments.video)
        say(f"video: {arguments.video} ({arguments.video.stat().st_size / 1e6:.2f} MB); {said}")
    if arguments.json:
        print(json.dumps(written))
    return 0
