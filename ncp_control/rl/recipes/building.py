"""Environments and models from recipes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import stable_baselines3
import torch
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize

from ncp_control.data.environments import import_for
from ncp_control.data.finite import Finite
from ncp_control.rl.off_policy import RecurrentSAC, RecurrentTD3
from ncp_control.rl.on_policy import RecurrentA2C, RecurrentPPO
from ncp_control.rl.policies.elapsed import KEY, plain_keys
from ncp_control.rl.recipes.recipe import Recipe, number, policy_arguments

OURS = {kind.__name__: kind for kind in (RecurrentPPO, RecurrentA2C, RecurrentSAC, RecurrentTD3)}


def make_env(
    env_id: str, wrappers: Sequence[Any] = (), arguments: Mapping[str, Any] | None = None
) -> gym.Env[Any, Any]:
    """An environment inside of wrappers, refused at the first number of its own that is none.

    :param env_id: its id, or `module:id`, whose module registers it when it is imported
    :param wrappers: of `ncp_envs`, the innermost first: names, or one-entry dictionaries from a name to its arguments
    :param arguments: of the environment
    """
    import ncp_envs

    module, colon, _ = env_id.rpartition(":")
    if colon:
        import_for(module, env_id)
    try:
        with ncp_envs.without_mass_warning():
            env: Any = Finite(gym.make(env_id, disable_env_checker=True, **(arguments or {})))
    except (gym.error.Error, ModuleNotFoundError, TypeError) as error:
        raise ValueError(f"the environment {env_id!r} cannot be made: {error}") from error
    for described in wrappers:
        name: Any = described
        settings: dict[str, Any] = {}
        if isinstance(described, dict) and len(described) == 1:
            name, settings = next(iter(described.items()))
        kind = getattr(ncp_envs, str(name), None) if name in ncp_envs.__all__ else None
        if not (isinstance(kind, type) and issubclass(kind, gym.Wrapper)):
            raise ValueError(f"there is no wrapper {name!r} in ncp_envs")
        try:
            env = kind(env, **(settings or {}))
        except TypeError as error:
            raise ValueError(f"the wrapper {name} cannot be made: {error}") from error
    made: gym.Env[Any, Any] = env
    return made


def make_envs(recipe: Recipe, count: int, training: bool) -> VecEnv:
    """Environments side by side in this process, as a recipe normalises them, elapsed time only if it says so."""

    def make() -> gym.Env[Any, Any]:
        env = make_env(recipe.env, recipe.env_wrapper, recipe.env_kwargs)
        check_learnable(env, recipe)
        return Monitor(env)

    envs: VecEnv = DummyVecEnv([make] * count)
    if recipe.normalize is False:
        return envs
    given = dict(recipe.normalize) if isinstance(recipe.normalize, dict) else {}
    if "gamma" in recipe.settings:
        given.setdefault("gamma", recipe.settings["gamma"])
    space = envs.observation_space
    if isinstance(space, spaces.Dict) and KEY in space.spaces:
        given.setdefault("norm_obs_keys", plain_keys(space))
    if not training:
        given["norm_reward"] = False
    try:
        return VecNormalize(envs, training=training, **given)
    except TypeError as error:
        raise ValueError(f"the recipe's normalize does not fit VecNormalize: {error}") from error


def check_learnable(env: gym.Env[Any, Any], recipe: Recipe) -> None:
    """Refuses spaces that no network reads, or that the algorithm cannot act in."""
    seen, acted = env.observation_space, env.action_space
    parts = list(seen.spaces.values()) if isinstance(seen, spaces.Dict) else [seen]
    if not parts or not all(is_plain(part) for part in parts):
        raise ValueError(
            f"the observations of {recipe.env} are {seen}, which no circuit reads: it reads vectors, choices and "
            "dictionaries of them, so flatten them first"
        )
    wanted: Any = spaces.Discrete if recipe.algo == "DQN" else spaces.Box if recipe.is_off_policy else spaces.Space
    if not is_plain(acted) or not isinstance(acted, wanted):
        raise ValueError(
            f"{recipe.algo} does not give actions of {acted}, as {recipe.env} takes them: choose another algo, or wrap "
            "the environment"
        )
    if isinstance(acted, spaces.Box) and not acted.is_bounded():
        raise ValueError(f"the actions of {recipe.env} have no bounds ({acted}): give them some, as RescaleAction does")


def is_plain(space: spaces.Space[Any]) -> bool:
    """Whether it holds a fixed number of numbers or choices, at least one, side by side."""
    if isinstance(space, spaces.Box):
        return len(space.shape) > 0 and bool(np.prod(space.shape))
    return isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary)


def make_model(recipe: Recipe, envs: VecEnv, seed: int, device: str | torch.device) -> BaseAlgorithm:
    """A model that has not been trained."""
    kind: Any = OURS.get(recipe.algo) or getattr(stable_baselines3, recipe.algo)
    settings = {key: number(value) for key, value in recipe.settings.items()}
    arguments = policy_arguments(recipe.policy_kwargs)
    try:
        model: BaseAlgorithm = kind(recipe.policy, envs, seed=seed, device=device, policy_kwargs=arguments, **settings)
    except (TypeError, AssertionError, NotImplementedError) as error:
        raise ValueError(f"the recipe does not fit {recipe.algo}: {error}") from error
    return model
