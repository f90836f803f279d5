"""A recording as pictures."""

from ncp_control.activity.figures.draw import write_figures

__all__ = ["write_figures"]
