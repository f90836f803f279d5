"""Writing all figures of a recording into a folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ncp_control.activity.figures.motion import body_figure, phase_figure
from ncp_control.activity.figures.neurons import saliency_figure, time_constants_figure, tuning_figure
from ncp_control.activity.figures.states import raster_figure, traces_figure
from ncp_control.activity.figures.trials import has_trials, trials_figure
from ncp_control.activity.figures.wiring import wiring_figure
from ncp_control.activity.recording.activity import Activity
from ncp_control.base.pages import save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
FIGURES: dict[str, Callable[[Activity], Figure]] = {
    "wiring": wiring_figure,
    "activity": lambda activity: wiring_figure(activity, activity.steps // 2),
    "raster": raster_figure,
    "traces": traces_figure,
    "time-constants": time_constants_figure,
    "body": body_figure,
    "phase": phase_figure,
    "tuning": tuning_figure,
    "saliency": saliency_figure,
}
OF_TRIALS = "trials"  # only of a recording with trials


def write_figures(activity: Activity, folder: str | Path, formats: Sequence[str] = ("png",)) -> list[Path]:
    """Draws all figures into a folder and returns their paths. No file is ever left half-written.

    :param activity: a recorded rollout
    :param folder: the folder; it is created if it does not exist
    :param formats: any of png, svg and pdf
    """
    for kind in formats:
        if kind not in FORMATS:
            raise ValueError(f"a figure is {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, not {kind!r}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    figures = FIGURES | ({OF_TRIALS: trials_figure} if has_trials(activity) else {})
    for name, draw in figures.items():
        figure = draw(activity)
        for kind in formats:
            paths.append(folder / f"{name}.{kind}")
            save_figure(figure, paths[-1], dpi=150)
    return paths
