"""A recorded rollout as a video."""

from ncp_control.activity.video.write import write_video

__all__ = ["write_video"]
