"""Policies of Stable-Baselines3 whose memory is a circuit, and a features extractor that is one."""

from ncp_control.rl.policies.recurrent import NCPPolicy

__all__ = ["NCPPolicy"]
