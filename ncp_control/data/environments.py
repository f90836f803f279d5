"""The environments that rollouts are collected in: from an id or a spec, checked before any work is done."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from ncp_control.data.finite import Finite


def spec_of(env: str | EnvSpec | gym.Env[Any, Any]) -> EnvSpec:
    """The spec that makes the environment again.

    :param env: an id, with the environments of `ncp_envs` known; a spec; or an environment
    """
    if isinstance(env, str):
        import ncp_envs  # noqa: F401 (registers its environments)

        try:
            return gym.spec(env)
        except (gym.error.Error, ModuleNotFoundError) as error:
            raise ValueError(f"there is no environment {env!r}: {error}") from error
    spec = env if isinstance(env, EnvSpec) else env.spec
    if spec is None:
        raise ValueError("this environment has no spec: make it with gymnasium.make, so that it can be made again")
    return spec


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


def names_of(env: gym.Env[Any, Any]) -> tuple[str, ...]:
    """The names of the observations' entries."""
    from ncp_envs import observation_names

    return tuple(observation_names(env))
