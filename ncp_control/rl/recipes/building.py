"""Makes environments and models from recipes, and tries the environments out before a run begins."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import sb3_contrib
import stable_baselines3
import torch
from gymnasium import spaces
from sb3_contrib.common.maskable.utils import get_action_masks
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from ncp_control.base.machine import TooMuchMemory, bounded_memory
from ncp_control.base.values import check_known
from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_control.rl.files.policy_json import ACTIVATIONS
from ncp_control.rl.masking import supports_masks
from ncp_control.rl.off_policy import RecurrentSAC, RecurrentTD3
from ncp_control.rl.on_policy import RecurrentA2C, RecurrentPPO
from ncp_control.rl.policies.elapsed import KEY, plain_keys
from ncp_control.rl.policies.extractor import NCPExtractor
from ncp_control.rl.policies.masks import draw_allowed, read_masks
from ncp_control.rl.recipes.env_making import make_env as make_env
from ncp_control.rl.recipes.env_making import reason_of
from ncp_control.rl.recipes.imagined_envs import Imagined, imagined_envs
from ncp_control.rl.recipes.limits import (
    arguments_of,
    check_quantiles,
    read_algorithm,
    read_limited,
    read_normalize,
    read_policy,
)
from ncp_control.rl.recipes.mujoco_envs import monitored
from ncp_control.rl.recipes.normalized_envs import NormalizedVecEnv
from ncp_control.rl.recipes.process_envs import ProcessVecEnv
from ncp_control.rl.recipes.recipe import Recipe
from ncp_control.rl.starting import begin_with, circuit_arguments
from ncp_control.rl.updates.sac import SAC
from ncp_control.wiring import WiringError
from ncp_control.wiring.plan_text import parse_plan

TRIAL_STEPS = 2  # that environments take before a run begins
OURS = {kind.__name__: kind for kind in (RecurrentPPO, RecurrentA2C, RecurrentSAC, RecurrentTD3, SAC)}


class Built(NamedTuple):
    """What a training needs, made from a recipe.

    :param model: the untrained model
    :param evaluation_envs: the environments of the evaluations by name; "" for those that choose the best policy
    """

    model: BaseAlgorithm
    evaluation_envs: dict[str, VecEnv]


@contextmanager
def built(
    recipe: Recipe,
    seed: int = 0,
    device: str | torch.device = "cpu",
    start: LoadedPolicy | None = None,
    in_processes: bool = False,
    inside: Imagined | None = None,
    evaluation_envs: int = 1,
) -> Iterator[Built]:
    """Makes the model of a recipe and all its environments, which are closed at the end of the block.

    What a recipe gets wrong is refused here: the environments of the evaluations also take a few steps.

    :param recipe: what is trained
    :param evaluation_envs: how many environments an evaluation has; the others are those of `make_envs`, `make_model`
    """
    with ExitStack() as held:
        envs = make_envs(recipe, recipe.n_envs, training=True, in_processes=in_processes, inside=inside)
        held.callback(envs.close)
        model = make_model(recipe, envs, seed, device, start)
        named = {}
        for name, wrappers in {"": recipe.env_wrapper, **recipe.also_evaluate}.items():
            own = replace(recipe, env_wrapper=wrappers)
            named[name] = make_envs(own, evaluation_envs, training=False)
            held.callback(named[name].close)
            try_out(named[name], own)
        yield Built(model, named)


def make_envs(
    recipe: Recipe, count: int, training: bool, in_processes: bool = False, inside: Imagined | None = None
) -> VecEnv:
    """Makes a recipe's environments, side by side and normalised as the recipe says.

    An elapsed time is left as it is unless the recipe names it in `norm_obs_keys`.

    :param recipe: what is trained
    :param count: the number of environments
    :param training: update the statistics and normalise rewards; False for evaluations
    :param in_processes: step each environment in a process of its own
    :param inside: imagines episodes in place of the environments, in this process
    """
    envs: VecEnv
    if inside is not None:
        envs = imagined_envs(inside, recipe, count)
    elif in_processes:
        make_fitting_env(recipe).close()  # a recipe that does not fit is refused before processes are started
        envs = ProcessVecEnv(partial(make_fitting_env, recipe), count)
    else:
        envs = make_side_by_side(recipe, count)
    if recipe.normalize is False:
        return envs
    try:
        return normalized_as(recipe, envs, training)
    except BaseException:
        envs.close()
        raise


def make_side_by_side(recipe: Recipe, count: int) -> DummyVecEnv:
    """Makes a recipe's environments in this process, as they are.

    :param recipe: what is trained
    :param count: the number of environments
    """
    with bounded_memory(f"{count} environments of {recipe.env}"):
        return monitored([make_fitting_env(recipe) for _ in range(count)])


def make_fitting_env(recipe: Recipe) -> gym.Env[Any, Any]:
    """Makes one environment of a recipe; refuses one that its algorithm cannot learn."""
    env = make_env(recipe.env, recipe.env_wrapper, recipe.env_kwargs)
    check_learnable(env, recipe)
    return env


def normalized_as(recipe: Recipe, envs: VecEnv, training: bool) -> VecEnv:
    """Puts the `VecNormalize` that a recipe describes around its environments.

    :param recipe: what is trained
    :param envs: its environments
    :param training: update the statistics and normalise rewards
    """
    arguments = read_normalize(recipe.normalize if isinstance(recipe.normalize, dict) else {}, NormalizedVecEnv)
    if "gamma" in recipe.settings:  # the returns that scale the rewards are discounted as the algorithm's are
        arguments.setdefault("gamma", read_limited("gamma", recipe.settings["gamma"], "the recipe's"))
    space = envs.observation_space
    if isinstance(space, spaces.Dict) and KEY in space.spaces:
        arguments.setdefault("norm_obs_keys", plain_keys(space))
    if not training:
        arguments["norm_reward"] = False
    try:
        return NormalizedVecEnv(envs, **{"training": training, **arguments})
    except Exception as error:
        raise ValueError(f"the recipe's normalize does not fit {recipe.env}: {reason_of(error)}") from error


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


def make_model(
    recipe: Recipe, envs: VecEnv, seed: int, device: str | torch.device, start: LoadedPolicy | None = None
) -> BaseAlgorithm:
    """Makes a new, untrained model.

    :param recipe: what is trained
    :param envs: the environments, as `make_envs` makes them
    :param seed: the model's seed
    :param device: the device for the networks
    :param start: a policy whose actor takes the place of the recipe's
    """
    kind = class_of(recipe.algo)
    settings = read_algorithm(recipe.algorithm_settings, kind, recipe.algo, recipe.n_envs)
    policy = kind.policy_aliases.get(recipe.policy)
    known = {} if policy is None else arguments_of(policy)
    if known and "wiring" not in known:  # policies with a circuit check these names themselves
        check_known(recipe.policy_kwargs, known, f"the recipe's policy_kwargs do not fit {recipe.policy}: there is")
    arguments = policy_arguments(recipe.policy_kwargs)
    if start is not None:
        arguments |= circuit_arguments(start, recipe.algo)
    if recipe.is_off_policy and settings.get("n_steps", 1) > 1 and isinstance(envs.observation_space, spaces.Dict):
        raise ValueError("the recipe's n_steps must be 1 where observations are dictionaries")
    try:
        with bounded_memory("the networks and buffers of this recipe"):
            model: BaseAlgorithm = kind(
                recipe.policy, envs, seed=seed, device=device, policy_kwargs=arguments, **settings
            )
    except (TooMuchMemory, WiringError):  # which say themselves what to change
        raise
    except Exception as error:
        raise ValueError(f"the recipe does not fit {recipe.algo}: {reason_of(error)}") from error
    check_quantiles(model)
    if start is not None:
        begin_with(model, start)
    return model


def class_of(algo: str) -> Any:
    """Returns the class of an algorithm of recipes: ours, Stable-Baselines3's or sb3-contrib's."""
    # ours first, because Stable-Baselines3 has a SAC, too
    return OURS.get(algo) or getattr(stable_baselines3, algo, None) or getattr(sb3_contrib, algo)


def policy_arguments(described: dict[str, Any]) -> dict[str, Any]:
    """Returns a policy's arguments from those in a recipe, with plans and classes in place of their names."""
    arguments = read_policy(copy.deepcopy(described))
    classes: dict[str, dict[str, Any]] = {
        "activation_fn": ACTIVATIONS,
        "features_extractor_class": {"NCPExtractor": NCPExtractor},
    }
    for key, known in classes.items():
        if key in arguments:
            if not isinstance(arguments[key], str) or arguments[key] not in known:
                raise ValueError(f"unknown {key} {arguments[key]!r} in a recipe: choose one of {', '.join(known)}")
            arguments[key] = known[arguments[key]]
    for where in (arguments, arguments.get("features_extractor_kwargs")):
        if isinstance(where, dict) and isinstance(where.get("wiring"), str):
            where["wiring"] = parse_plan(where["wiring"])
    return arguments


def try_out(envs: VecEnv, recipe: Recipe) -> None:
    """Lets environments take random actions for a few steps; raises ValueError if they cannot.

    :param envs: environments that are seeded and reset again before they are used
    :param recipe: what they were made from
    """
    try:
        envs.seed(0)
        envs.action_space.seed(0)
        envs.reset()
        for _ in range(TRIAL_STEPS):
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
