"""Writing one web page of recorded rollouts: body, wiring, raster, time constants and traces, all at the same step.

The page is one file that holds everything it shows and uses no network, so it can be mailed, archived, or opened from
a disk.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from ncp_control.activity.names import input_labels
from ncp_control.activity.page.data import activity_data, curve_data, heading_of, wiring_data
from ncp_control.activity.recording.activity import Activity
from ncp_control.base.files import write_atomically
from ncp_control.base.pages import all_shown, filled, page_end, page_head, script_json
from ncp_control.base.text import shown

# The order matters: each script uses only names from those before it, and the last one runs when the page loads.
SCRIPTS = ("numbers.js", "circuit.js", "data.js", "drawing.js", "wiring.js", "raster.js", "traces.js", "constants.js",
           "body.js", "chosen.js", "stage.js", "ahead.js", "curve.js",
           "page.js")  # fmt: skip


def write_page(
    activity: Activity | Sequence[Activity],
    path: str | Path,
    title: str | None = None,
    curve: Sequence[tuple[float, float, float]] = (),
) -> None:
    """Writes a page.

    :param activity: a recorded rollout; or several of one circuit, such as moments of its training, among which a
        slider chooses. They stand in the given order, and the slider names each by its `about["note"]["steps"]`
    :param path: the `.html` file; it is replaced as a whole if it exists
    :param title: the heading; by default who was recorded and where
    :param curve: the evaluations of the training: steps, mean and standard deviation of the returns; drawn if there are
        any
    """
    activities = [activity] if isinstance(activity, Activity) else list(activity)
    if not activities:
        raise ValueError("a page needs at least one recorded rollout")
    first = activities[0]
    for number, recorded in enumerate(activities):
        if recorded.steps == 0:
            raise ValueError(f"recorded rollout {number} has no steps: there is nothing to show")
        if recorded.wiring != first.wiring:
            raise ValueError(
                f"recorded rollouts 0 and {number} are of different circuits: write a page for each circuit"
            )
    title = shown(heading_of(first) if title is None else title)
    data = {
        "title": title,
        "wiring": wiring_data(first.wiring, input_labels(first)),
        "activities": [activity_data(each) for each in activities],
        "curve": curve_data(curve),
    }
    folder = resources.files("ncp_control.activity.page") / "static"
    parts = {
        "head": page_head(html.escape(title), (folder / "page.css").read_text(encoding="utf-8")),
        "title": html.escape(title),
        "data": script_json(all_shown(data)),
        "end": page_end("\n".join((folder / name).read_text(encoding="utf-8") for name in SCRIPTS)),
    }
    page = filled((folder / "page.html").read_text(encoding="utf-8"), parts)
    write_atomically(path, page.encode("utf-8"))
