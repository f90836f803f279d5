"""Rollouts: collecting, storing, loading, splitting, cutting into windows."""

from ncp_control.data.collect import collect
from ncp_control.data.rollouts import Rollout, Rollouts, Split
from ncp_control.data.scaler import Scaler
from ncp_control.data.windows import Batch, WindowLoader, Windows

__all__ = ["Batch", "Rollout", "Rollouts", "Scaler", "Split", "WindowLoader", "Windows", "collect"]
