"""Neural circuits as the memory of agents that Stable-Baselines3 trains."""

from ncp_control.rl.controller import Controller
from ncp_control.rl.evaluation import evaluate
from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_control.rl.files.policy_file import load_policy, save_policy
from ncp_control.rl.masking import with_masks
from ncp_control.rl.off_policy import RecurrentSAC, RecurrentTD3
from ncp_control.rl.on_policy import RecurrentA2C, RecurrentPPO
from ncp_control.rl.policies.extractor import NCPExtractor
from ncp_control.rl.policies.recurrent import NCPPolicy
from ncp_control.rl.recipes.recipe import Recipe, load_recipe
from ncp_control.rl.training import train
from ncp_control.rl.updates.sac import SAC

__all__ = [
    "SAC",
    "Controller",
    "LoadedPolicy",
    "NCPExtractor",
    "NCPPolicy",
    "Recipe",
    "RecurrentA2C",
    "RecurrentPPO",
    "RecurrentSAC",
    "RecurrentTD3",
    "evaluate",
    "load_policy",
    "load_recipe",
    "save_policy",
    "train",
    "with_masks",
]
