"""Makes environments and models from recipes."""

from __future__ import annotations

import copy
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
from ncp_control.data.finite import CheckFinite
from ncp_control.rl.files.policy_json import ACTIVATIONS
from ncp_control.rl.off_policy import RecurrentSAC, RecurrentTD3
from ncp_control.rl.on_policy import RecurrentA2C, RecurrentPPO
from ncp_control.rl.policies.elapsed import KEY, plain_keys
from ncp_control.rl.policies.extractor import NCPExtractor
from ncp_control.rl.recipes.recipe import Recipe, read_number
from ncp_control.wiring.plan_text import parse_plan

OURS = {kind.__name__: kind for kind in (RecurrentPPO, RecurrentA2C, RecurrentSAC, RecurrentTD3)}


def make_env(
    env_id: str, wrappers: Sequence[Any] = (), arguments: Mapping[str, Any] | None = None
) -> gym.Env[Any, Any]:
    """Makes an environment with wrappers around it; a step that returns NaN or infinity raises an error.

    :param env_id: the environment's id, or `module:id` for an environment that this module registers
    :param wrappers: wrappers from `ncp_envs`, the innermost first: names, or dictionaries with one entry, from a name
        to the wrapper's arguments
    :param arguments: the environment's arguments
    """
    import ncp_envs

    module, colon, _ = env_id.rpartition(":")
    if colon:
        import_for(module, env_id)
    try:
        with ncp_envs.without_mass_warning():
            env: Any = CheckFinite(gym.make(env_id, disable_env_checker=True, **(arguments or {})))
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
    """Makes a recipe's environments, side by side in this process and normalised as the recipe says.

    An elapsed time is left as it is unless the recipe names it in `norm_obs_keys`.

    :param recipe: what is trained
    :param count: the number of environments
    :param training: update the statistics and normalise rewards; False for evaluations
    """

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
    """Refuses observations that no circuit can read, and actions that the algorithm cannot give."""
    seen, acted = env.observation_space, env.action_space
    parts = list(seen.spaces.values()) if isinstance(seen, spaces.Dict) else [seen]
    if not parts or not all(is_plain(part) for part in parts):
        raise ValueError(
            f"the observations of {recipe.env} are {seen}, which no circuit reads: flatten them into vectors, choices "
            "or dictionaries of these"
        )
    wanted: Any = spaces.Discrete if recipe.algo == "DQN" else spaces.Box if recipe.is_off_policy else spaces.Space
    if not is_plain(acted) or not isinstance(acted, wanted):
        raise ValueError(
            f"{recipe.algo} does not give actions of {acted}, which {recipe.env} needs: choose another algo, or wrap "
            "the environment"
        )
    if isinstance(acted, spaces.Box) and not acted.is_bounded():
        raise ValueError(
            f"the actions of {recipe.env} have no bounds ({acted}): set bounds, for example with RescaleAction"
        )


def is_plain(space: spaces.Space[Any]) -> bool:
    """Whether the elements of a space are vectors: a fixed number of numbers or choices, at least one."""
    if isinstance(space, spaces.Box):
        return len(space.shape) > 0 and bool(np.prod(space.shape))
    return isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary)


def make_model(recipe: Recipe, envs: VecEnv, seed: int, device: str | torch.device) -> BaseAlgorithm:
    """Makes a new, untrained model.

    :param recipe: what is trained
    :param envs: the environments, as `make_envs` makes them
    :param seed: the model's seed
    :param device: the device for the networks
    """
    kind: Any = OURS.get(recipe.algo) or getattr(stable_baselines3, recipe.algo)
    settings = {key: read_number(value) for key, value in recipe.settings.items()}
    arguments = policy_arguments(recipe.policy_kwargs)
    try:
        model: BaseAlgorithm = kind(recipe.policy, envs, seed=seed, device=device, policy_kwargs=arguments, **settings)
    except (TypeError, AssertionError, NotImplementedError) as error:
        raise ValueError(f"the recipe does not fit {recipe.algo}: {error}") from error
    return model


def policy_arguments(described: dict[str, Any]) -> dict[str, Any]:
    """Returns a policy's arguments from those in a recipe, with plans and classes in place of their names."""
    found: dict[str, Any] = read_number(copy.deepcopy(described))
    classes: dict[str, dict[str, Any]] = {
        "activation_fn": ACTIVATIONS,
        "features_extractor_class": {"NCPExtractor": NCPExtractor},
    }
    for key, known in classes.items():
        if key in found:
            if not isinstance(found[key], str) or found[key] not in known:
                raise ValueError(f"unknown {key} {found[key]!r} in a recipe: choose one of {', '.join(known)}")
            found[key] = known[found[key]]
    given = found.get("features_extractor_kwargs", {})
    if not isinstance(given, dict):
        raise ValueError(f"features_extractor_kwargs in a recipe must be a dictionary, not {given!r}")
    for where in (found, given):
        if isinstance(where.get("wiring"), str):
            where["wiring"] = parse_plan(where["wiring"])
    return found
