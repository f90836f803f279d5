"""Policies of Stable-Baselines3 whose memory is a circuit, and the features extractor for all others."""

from ncp_control.rl.policies.recurrent import NCPPolicy

__all__ = ["NCPPolicy"]
