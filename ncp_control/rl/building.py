"""Environments and models from recipes."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import stable_baselines3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize

from ncp_control.rl.off_policy import RecurrentSAC, RecurrentTD3
from ncp_control.rl.recipe import Recipe, number, policy_arguments
from ncp_control.rl.recurrent import RecurrentA2C, RecurrentPPO

OURS = {kind.__name__: kind for kind in (RecurrentPPO, RecurrentA2C, RecurrentSAC, RecurrentTD3)}


def make_env(recipe: Recipe) -> gym.Env[Any, Any]:
    """One environment of a recipe, inside of its wrappers."""
    import ncp_envs

    try:
        with ncp_envs.without_mass_warning():
            env: Any = gym.make(recipe.env, disable_env_checker=True, **recipe.env_kwargs)
    except (gym.error.Error, ModuleNotFoundError) as error:
        raise ValueError(f"the environment {recipe.env!r} cannot be made: {error}") from error
    for described in recipe.env_wrapper:
        name: Any = described
        arguments: dict[str, Any] = {}
        if isinstance(described, dict) and len(described) == 1:
            name, arguments = next(iter(described.items()))
        kind = getattr(ncp_envs, str(name), None) if name in ncp_envs.__all__ else None
        if not (isinstance(kind, type) and issubclass(kind, gym.Wrapper)):
            raise ValueError(f"there is no wrapper {name!r} in ncp_envs")
        env = kind(env, **(arguments or {}))
    made: gym.Env[Any, Any] = env
    return made


def make_envs(recipe: Recipe, count: int, training: bool) -> VecEnv:
    """Environments side by side in this process, as a recipe normalises them."""
    envs: VecEnv = DummyVecEnv([lambda: Monitor(make_env(recipe))] * count)
    if recipe.normalize is False:
        return envs
    given = dict(recipe.normalize) if isinstance(recipe.normalize, dict) else {}
    if "gamma" in recipe.settings:
        given.setdefault("gamma", recipe.settings["gamma"])
    if not training:
        given["norm_reward"] = False
    return VecNormalize(envs, training=training, **given)


def make_model(recipe: Recipe, envs: VecEnv, seed: int, device: str) -> BaseAlgorithm:
    """A model that has not been trained."""
    kind: Any = OURS.get(recipe.algo) or getattr(stable_baselines3, recipe.algo)
    settings = {key: number(value) for key, value in recipe.settings.items()}
    arguments = policy_arguments(recipe.policy_kwargs)
    try:
        model: BaseAlgorithm = kind(recipe.policy, envs, seed=seed, device=device, policy_kwargs=arguments, **settings)
    except TypeError as error:
        raise ValueError(f"the recipe does not fit {recipe.algo}: {error}") from error
    return model
