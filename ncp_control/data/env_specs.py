"""Environments from an id or a spec, and checks of environments and policies before any work is done."""

from __future__ import annotations

import copy
import multiprocessing
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.wrappers import TimeLimit
from numpy.typing import NDArray

from ncp_control.base.imports import import_module_of
from ncp_control.base.progress import say
from ncp_control.data.finite import CheckFinite

# The kinds of spaces that `check_policy` compares by the shapes of their arrays.
ARRAYS = (gym.spaces.Box, gym.spaces.Discrete, gym.spaces.MultiBinary, gym.spaces.MultiDiscrete)
# Steps after which an episode is cut in environments that have no limit: of trials, and of anything else.
TRIAL_STEPS, MOST_STEPS = 1_000, 10_000
_said: set[str] = set()  # ids of environments whose limit was announced


def spec_of(env: str | EnvSpec | gym.Env[Any, Any]) -> EnvSpec:
    """Returns the spec that can make an environment again.

    :param env: an id, also one of `ncp_envs`; `module:id`, where importing the module registers the environment;
        `module:Class`; a spec; or an environment
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
        spec.to_json()  # only to see whether it can
    except (TypeError, ValueError) as error:
        what = "entry_point" if callable(spec.entry_point) else "arguments"
        raise ValueError(
            f"{spec.id} cannot be made again, because its {what} cannot be written as JSON: register it with a string, "
            'entry_point="module:Class", and with plain values for its arguments'
        ) from error
    return spec


def with_limit(spec: EnvSpec, steps: int) -> EnvSpec:
    """Returns a spec whose episodes end after at most so many steps."""
    if steps < 1:
        raise ValueError(f"an episode has at least one step, got a limit of {steps}")
    limited = copy.deepcopy(spec)  # Gymnasium's registry holds the original
    limited.max_episode_steps = steps
    return limited


def with_end(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """Returns an environment whose episodes end: one without a limit of steps gets one.

    An environment of trials, which has a method `new_trial`, begins the next trial where one ends, and its episodes
    never end. That they are cut is said once.
    """
    if env.spec is None or env.spec.max_episode_steps is not None:
        return env
    has_trials = callable(getattr(env.unwrapped, "new_trial", None))
    steps = TRIAL_STEPS if has_trials else MOST_STEPS
    if has_trials and env.spec.id not in _said and multiprocessing.parent_process() is None:
        _said.add(env.spec.id)
        say(
            f"{env.spec.id} has trials but no end: an episode is {steps:,} steps. For another length, train with "
            "--set env_kwargs.max_episode_steps=N"
        )
    return TimeLimit(env, steps)


def without_checks(spec: EnvSpec) -> EnvSpec:
    """Returns a spec without the `CheckFinite` that this package puts around environments: others can make it, too."""
    name = f"{CheckFinite.__module__}:{CheckFinite.__qualname__}"
    kept = tuple(wrapper for wrapper in spec.additional_wrappers if wrapper.entry_point != name)
    plain = copy.deepcopy(spec)
    plain.additional_wrappers = kept
    return plain


def _registered(env: str) -> EnvSpec:
    """Returns the registered spec of an id, a `module:id` or a `module:Class`."""
    import ncp_envs  # noqa: F401 (registers its environments)

    name = import_for(env)
    try:
        return gym.spec(name)
    except gym.error.Error as error:
        raise ValueError(f"there is no environment {env!r}: {error}") from error


def import_for(env: str) -> str:
    """Imports the module in `module:id` or `module:Class`, and registers the class as `module/Class`.

    The working folder is searched too, after all other places.

    :param env: any environment's id, also one without a module
    :return: the id by which Gymnasium knows the environment
    """
    module, colon, name = env.rpartition(":")
    if colon:
        imported = import_module_of(module, f"registers {env!r}", f"environment {env!r}")
        if name not in gym.registry and not any(known.startswith(f"{name}-v") for known in gym.registry):
            kind, own = getattr(imported, name, None), f"{module.replace('.', '-')}/{name}"
            if not (isinstance(kind, type) and issubclass(kind, gym.Env)):
                raise ValueError(
                    f"there is no environment {env!r}: importing {module} registers no {name}, and it has no class "
                    f"{name} that is a gymnasium.Env"
                )
            if own not in gym.registry:
                gym.register(own, entry_point=env)
            return own
    return name


def check_env(env: Any) -> None:
    """Refuses anything but one environment: an id, a function that makes an environment, or a vector environment."""
    if isinstance(env, gym.Env):
        return
    if isinstance(env, str):
        raise TypeError(f'give the environment itself, gymnasium.make("{env}"), not its id')
    if hasattr(env, "num_envs"):
        raise TypeError(
            f"give one environment, as gymnasium.make makes it, not a {type(env).__name__} of {env.num_envs}: a model "
            "brings along the normalisation that it was trained under"
        )
    if callable(env):
        raise TypeError("give the environment itself, not a function that makes it: call the function first")
    raise TypeError(f"give an environment of Gymnasium, as gymnasium.make makes it, not {env!r}")


def make(spec: EnvSpec) -> gym.Env[Any, Any]:
    """Makes the environment of a spec, which raises an error as soon as it gives NaN or infinity. It is made without
    Gymnasium's checker and without MuJoCo's warning about the half-cheetah's model file.
    """
    from ncp_envs import without_mass_warning

    try:
        with without_mass_warning():
            return CheckFinite(with_end(gym.make(spec, disable_env_checker=True)))
    except gym.error.DependencyNotInstalled as error:
        raise ValueError(f"{spec.id} cannot be made here: {error}") from error


def check_spaces(env: gym.Env[Any, Any]) -> None:
    """Refuses observations that are not vectors, and actions that are not from a Box or a Discrete space."""
    space = env.observation_space
    if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1:
        raise ValueError(f"rollouts need observations that are vectors, and these are {space}: flatten them first")
    if not isinstance(env.action_space, gym.spaces.Box | gym.spaces.Discrete):
        raise ValueError(f"rollouts need actions from a Box or a Discrete space, and these are {env.action_space}")


def check_policy(policy: Any, env: gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]) -> None:
    """Refuses a policy whose observation or action space does not fit that of one environment."""
    for what in ("observation", "action"):
        of_policy = getattr(policy, f"{what}_space", None)
        of_env = getattr(env, f"single_{what}_space" if isinstance(env, gym.vector.VectorEnv) else f"{what}_space")
        if not isinstance(of_policy, gym.Space):  # a function does not say what it reads
            continue
        if not _same_form(of_policy, of_env):
            raise ValueError(f"the policy was made for {what}s in {of_policy}, and this environment has {of_env}")


def _same_form(first: gym.Space[Any], second: gym.Space[Any]) -> bool:
    """Whether two spaces hold arrays of the same shapes, or the same number of choices; their bounds may differ.

    A space of a user's own class counts as the class that it derives from.
    """
    if isinstance(first, gym.spaces.Dict) and isinstance(second, gym.spaces.Dict):
        return first.spaces.keys() == second.spaces.keys() and all(
            _same_form(first[key], second[key]) for key in first.spaces
        )
    kind = next((kind for kind in ARRAYS if isinstance(first, kind)), type(first))
    return (
        isinstance(second, kind) and first.shape == second.shape and getattr(first, "n", 0) == getattr(second, "n", 0)
    )


def range_of(space: gym.Space[Any]) -> NDArray[Any] | None:
    """Returns the lower and upper bounds (2, m) of a bounded `Box` of vectors; None for any other space."""
    if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1 or not space.is_bounded():
        return None
    return np.stack([space.low, space.high]).astype(np.float64)


def choices_of(space: gym.Space[Any]) -> range | None:
    """Returns the choices of a `Discrete` space; None for any other space."""
    if not isinstance(space, gym.spaces.Discrete):
        return None
    return range(int(space.start), int(space.start) + int(space.n))


def names_of(env: gym.Env[Any, Any]) -> tuple[str, ...]:
    """Returns the names of an observation's entries."""
    from ncp_envs import observation_names

    return tuple(observation_names(env))
