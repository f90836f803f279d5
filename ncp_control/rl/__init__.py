"""Neural circuits as the memory of agents that Stable-Baselines3 trains.

Names are imported when they are first used, so that a help page needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncp_control.base.imports import names_of

if TYPE_CHECKING:
    from ncp_control.rl.arguments import NCPPolicyKwargs
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
    from ncp_control.rl.time_profile import TimeProfile
    from ncp_control.rl.training import train
    from ncp_control.rl.updates.sac import SAC
    from ncp_control.rl.vector_envs import GymnasiumVecEnv

_HOME = {
    "ncp_control.rl.arguments": ("NCPPolicyKwargs",),
    "ncp_control.rl.controller": ("Controller",),
    "ncp_control.rl.evaluation": ("evaluate",),
    "ncp_control.rl.files.loaded_policy": ("LoadedPolicy",),
    "ncp_control.rl.files.policy_file": ("load_policy", "save_policy"),
    "ncp_control.rl.masking": ("with_masks",),
    "ncp_control.rl.off_policy": ("RecurrentSAC", "RecurrentTD3"),
    "ncp_control.rl.on_policy": ("RecurrentA2C", "RecurrentPPO"),
    "ncp_control.rl.policies.extractor": ("NCPExtractor",),
    "ncp_control.rl.policies.recurrent": ("NCPPolicy",),
    "ncp_control.rl.recipes.recipe": ("Recipe", "load_recipe"),
    "ncp_control.rl.time_profile": ("TimeProfile",),
    "ncp_control.rl.training": ("train",),
    "ncp_control.rl.updates.sac": ("SAC",),
    "ncp_control.rl.vector_envs": ("GymnasiumVecEnv",),
}

__all__ = [
    "SAC",
    "Controller",
    "GymnasiumVecEnv",
    "LoadedPolicy",
    "NCPExtractor",
    "NCPPolicy",
    "NCPPolicyKwargs",
    "Recipe",
    "RecurrentA2C",
    "RecurrentPPO",
    "RecurrentSAC",
    "RecurrentTD3",
    "TimeProfile",
    "evaluate",
    "load_policy",
    "load_recipe",
    "save_policy",
    "train",
    "with_masks",
]

__getattr__, __dir__ = names_of(__name__, _HOME)
