"""Environments and models from recipes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def make_env(
    env_id: str, wrappers: Sequence[Any] = (), arguments: Mapping[str, Any] | None = None
) -> gym.Env[Any, Any]:
    """An environment inside of wrappers.

    :param env_id: its id
    :param wrappers: of `ncp_envs`, the innermost first: names, or one-entry dictionaries from a name to its arguments
    :param arguments: of the environment
    """
    import ncp_envs

    try:
        with ncp_envs.without_mass_warning():
            env: Any = gym.make(env_id, disable_env_checker=True, **(arguments or {}))
    except (gym.error.Error, ModuleNotFoundError) as error:
        raise ValueError(f"the environment {env_id!r} cannot be made: {error}") from error
    for described in wrappers:
        name: Any = described
        settings: dict[str, Any] = {}
        if isinstance(described, dict) and len(described) == 1:
            name, settings = next(iter(described.items()))
        kind = getattr(ncp_envs, str(name), None) if name in ncp_envs.__all__ else None
        if not (isinstance(kind, type) and issubclass(kind, gym.Wrapper)):
            raise ValueError(f"there is no wrapper {name!r} in ncp_envs")
        env = kind(env, **(settings or {}))
    made: gym.Env[Any, Any] = env
    return made


def make_envs(recipe: Recipe, count: int, training: bool) -> VecEnv:
    """Environments side by side in this process, as a recipe normalises them."""
    envs: VecEnv = DummyVecEnv([lambda: Monitor(make_env(recipe.env, recipe.env_wrapper, recipe.env_kwargs))] * count)
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
