"""Policies of Stable-Baselines3 whose memory is a circuit, and a features extractor that is one.

Importing them registers the environments of `ncp_envs`, so that an algorithm makes one of its id alone.
"""

import ncp_envs  # noqa: F401 (registers its environments)
from ncp_control.rl.policies.recurrent import NCPPolicy

__all__ = ["NCPPolicy"]
