"""Recorded rollouts as one web page."""

from ncp_control.activity.page.write import write_page

__all__ = ["write_page"]
