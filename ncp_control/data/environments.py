"""The environments that rollouts are collected in: from an id or a spec, checked before any work is done."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray

from ncp_control.data.finite import Finite


def spec_of(env: str | EnvSpec | gym.Env[Any, Any]) -> EnvSpec:
    """The spec that makes the environment again.

    :param env: an id, with the environments of `ncp_envs` known, or `module:id`, whose module registers it when it is
        imported; a spec; or an environment
    """
    spec: EnvSpec | None
    if isinstance(env, str):
        spec = _registered(env)
    elif isinstance(env, EnvSpec):
        spec = env
    else:
        check_env(env)
        spec = env.spec
        if spec is None:
            raise ValueError(
                f"this {type(env.unwrapped).__name__} has no spec: register it and make it with gymnasium.make, so "
                "that it can be made again"
            )
    try:
        spec.to_json()
    except (TypeError, ValueError) as error:
        what = "entry_point" if callable(spec.entry_point) else "arguments"
        raise ValueError(
            f"{spec.id} cannot be made again, for its {what} cannot be written down: register it with a string, "
            'entry_point="module:Class", and with plain values for its arguments'
        ) from error
    return spec


def _registered(env: str) -> EnvSpec:
    """The spec of an id, or of `module:id`."""
    import ncp_envs  # noqa: F401 (registers its environments)

    module, colon, name = env.rpartition(":")
    if colon:
        import_for(module, env)
    try:
        return gym.spec(name)
    except gym.error.Error as error:
        raise ValueError(f"there is no environment {env!r}: {error}") from error


def import_for(module: str, env: str) -> None:
    """Imports what registers an environment; a command installed elsewhere looks in the working folder last."""
    here = str(Path.cwd())
    if not {"", here} & set(sys.path):
        sys.path.append(here)
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise ValueError(f"{module}, which has the environment {env!r}, cannot be imported: {error}") from error
        raise ValueError(
            f"there is no environment {env!r}, for there is no module {error.name!r}: run this where {error.name}.py "
            "is, or set PYTHONPATH to the folder that it is in"
        ) from error


def check_env(env: Any) -> None:
    """Refuses what is no single environment: an id, a function that makes one, a vector of them."""
    if isinstance(env, gym.Env):
        return
    if isinstance(env, str):
        raise TypeError(f'give the environment itself, gymnasium.make("{env}"), not its id')
    if hasattr(env, "num_envs"):
        raise TypeError(
            f"give one environment, as gymnasium.make makes it, not a {type(env).__name__} of {env.num_envs}: the "
            "normalisation that a model was trained under is in the model"
        )
    if callable(env):
        raise TypeError("give the environment itself, not what makes it: call it first")
    raise TypeError(f"an environment is one of Gymnasium's, as gymnasium.make makes it, not {env!r}")


def make(spec: EnvSpec) -> gym.Env[Any, Any]:
    """An environment of the spec, refused at the first number that is none; without Gymnasium's checker and without
    MuJoCo's word on the half-cheetah's file.
    """
    from ncp_envs import without_mass_warning

    try:
        with without_mass_warning():
            return Finite(gym.make(spec, disable_env_checker=True))
    except gym.error.DependencyNotInstalled as error:
        raise ValueError(f"{spec.id} cannot be made here: {error}") from error


def check_spaces(env: gym.Env[Any, Any]) -> None:
    """Refuses observations that are not vectors, and actions that are neither arrays of numbers nor choices."""
    space = env.observation_space
    if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1:
        raise ValueError(f"rollouts keep observations that are vectors, and these are {space}: flatten them first")
    if not isinstance(env.action_space, gym.spaces.Box | gym.spaces.Discrete):
        raise ValueError(f"rollouts keep actions of a Box or a Discrete space, and these are {env.action_space}")


def check_policy(policy: Any, env: gym.Env[Any, Any]) -> None:
    """Refuses a policy that says it was made for other spaces than those of the environment."""
    for what in ("observation", "action"):
        its, own = getattr(policy, f"{what}_space", None), getattr(env, f"{what}_space")
        if not isinstance(its, gym.Space):
            continue
        if not _same_form(its, own):
            raise ValueError(f"the policy was made for {what}s in {its}, and this environment has {own}")


def _same_form(one: gym.Space[Any], other: gym.Space[Any]) -> bool:
    """Whether two spaces hold arrays of the same shapes, or the same choices; bounds may differ."""
    if isinstance(one, gym.spaces.Dict) and isinstance(other, gym.spaces.Dict):
        return one.spaces.keys() == other.spaces.keys() and all(_same_form(one[key], other[key]) for key in one.spaces)
    return type(one) is type(other) and one.shape == other.shape and getattr(one, "n", 0) == getattr(other, "n", 0)


def range_of(space: gym.Space[Any]) -> NDArray[Any] | None:
    """The least and the greatest actions of a bounded `Box` of vectors, (2, m); None of another space."""
    if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1 or not space.is_bounded():
        return None
    return np.stack([space.low, space.high]).astype(np.float64)


def names_of(env: gym.Env[Any, Any]) -> tuple[str, ...]:
    """The names of the observations' entries."""
    from ncp_envs import observation_names

    return tuple(observation_names(env))
