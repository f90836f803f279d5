"""Rollouts: collected, stored, loaded, split, and cut into windows; and levels of data from one training."""

from ncp_control.data.collect import collect
from ncp_control.data.dataset import collect_dataset
from ncp_control.data.level_datasets import Level, LevelPlan
from ncp_control.data.levels import Checkpoint, best_of, checkpoints_of, medium_of
from ncp_control.data.references import References, measure_references
from ncp_control.data.rollout import Rollout
from ncp_control.data.rollouts import Rollouts, Split
from ncp_control.data.scaler import Scaler
from ncp_control.data.windows import Batch, WindowLoader, Windows

__all__ = [
    "Batch",
    "Checkpoint",
    "Level",
    "LevelPlan",
    "References",
    "Rollout",
    "Rollouts",
    "Scaler",
    "Split",
    "WindowLoader",
    "Windows",
    "best_of",
    "checkpoints_of",
    "collect",
    "collect_dataset",
    "measure_references",
    "medium_of",
]
