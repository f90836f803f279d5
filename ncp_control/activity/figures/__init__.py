"""Figures of a recorded rollout. Each function returns a matplotlib Figure to restyle or save; no window opens.

Example::

    activity = Activity.load("cheetah.npz")
    figure = raster_figure(activity)
    figure.axes[0].set_title("My title")
    figure.savefig("raster.pdf")
"""

from ncp_control.activity.figures.motion import Gait, body_figure, find_gait, phase_figure
from ncp_control.activity.figures.neurons import saliency_figure, time_constants_figure, tuning_figure
from ncp_control.activity.figures.states import raster_figure, traces_figure
from ncp_control.activity.figures.trials import trials_figure
from ncp_control.activity.figures.wiring import wiring_figure
from ncp_control.activity.figures.write import write_figures

__all__ = [
    "Gait",
    "body_figure",
    "find_gait",
    "phase_figure",
    "raster_figure",
    "saliency_figure",
    "time_constants_figure",
    "traces_figure",
    "trials_figure",
    "tuning_figure",
    "wiring_figure",
    "write_figures",
]
