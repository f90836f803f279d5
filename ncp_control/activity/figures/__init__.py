"""Figures of a recorded rollout. Each function returns a matplotlib Figure to restyle or save; no window opens.

activity = Activity.load("cheetah.npz")
figure = raster_figure(activity)
figure.axes[0].set_title("My title")
figure.savefig("raster.pdf")
"""

from ncp_control.activity.figures.body import body_figure
from ncp_control.activity.figures.gait import Gait, find_gait
from ncp_control.activity.figures.heat_maps import saliency_figure, tuning_figure
from ncp_control.activity.figures.phase import phase_figure
from ncp_control.activity.figures.raster import raster_figure
from ncp_control.activity.figures.time_constants import time_constants_figure
from ncp_control.activity.figures.traces import traces_figure
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
    "tuning_figure",
    "wiring_figure",
    "write_figures",
]
