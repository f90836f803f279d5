"""Neural circuits in Stable-Baselines3."""

from ncp_control.rl.extractor import NCPExtractor
from ncp_control.rl.policies import NCPPolicy
from ncp_control.rl.policy_file import LoadedPolicy, load_policy, save_policy
from ncp_control.rl.recurrent import RecurrentA2C, RecurrentPPO

__all__ = ["LoadedPolicy", "NCPExtractor", "NCPPolicy", "RecurrentA2C", "RecurrentPPO", "load_policy", "save_policy"]
