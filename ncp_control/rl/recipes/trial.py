"""A recipe's environments take a few steps before a run begins, so that values they cannot work with are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from sb3_contrib.common.maskable.utils import get_action_masks
from stable_baselines3.common.vec_env import VecEnv

from ncp_control.rl.masking import supports_masks
from ncp_control.rl.policies.masks import draw_allowed, read_masks
from ncp_control.rl.recipes.environments import reason_of
from ncp_control.rl.recipes.recipe import Recipe

STEPS = 2


def try_out(envs: VecEnv, recipe: Recipe) -> None:
    """Lets environments take random actions for a few steps; raises ValueError if they cannot.

    :param envs: environments that are seeded and reset again before they are used
    :param recipe: what they were made from
    """
    try:
        envs.seed(0)
        envs.action_space.seed(0)
        envs.reset()
        for _ in range(STEPS):
            envs.step(random_actions(envs))
    except Exception as error:
        raise ValueError(
            f"the environment {recipe.env} of this recipe cannot take a step: {reason_of(error)}"
        ) from error


def random_actions(envs: VecEnv) -> Any:
    """Returns a random action for each environment, one that it allows if it has masks."""
    space = envs.action_space
    if supports_masks(envs):
        return draw_allowed(read_masks(get_action_masks(envs), space, envs.num_envs), space)
    return np.array([space.sample() for _ in range(envs.num_envs)])
