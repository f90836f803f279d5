"""Rollouts: collected, stored, loaded, split, and cut into windows."""

from ncp_control.data.collect import collect, collect_dataset
from ncp_control.data.rollout import Rollout
from ncp_control.data.rollouts import Rollouts, Split
from ncp_control.data.scaler import Scaler
from ncp_control.data.windows import Batch, WindowLoader, Windows

__all__ = [
    "Batch",
    "Rollout",
    "Rollouts",
    "Scaler",
    "Split",
    "WindowLoader",
    "Windows",
    "collect",
    "collect_dataset",
]
