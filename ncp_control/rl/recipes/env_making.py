"""Makes environments with wrappers around them, as recipes and the notes in policy files describe them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym

from ncp_control.base.machine import TooMuchMemory
from ncp_control.base.values import Linear, read_number, shortened
from ncp_control.data.env_specs import import_for, with_end
from ncp_control.data.finite import CheckFinite

# They hand an id on to the old package gym, which imports what the id says.
IMPORTERS = ("GymV21Environment-v0", "GymV26Environment-v0")

LONGEST = 300  # characters of another package's message that a sentence repeats


def make_env(
    env_id: str, wrappers: Sequence[Any] = (), arguments: Mapping[str, Any] | None = None
) -> gym.Env[Any, Any]:
    """Makes an environment with wrappers around it; a step that returns NaN or infinity raises an error.

    An environment without a limit of steps gets one, unless `arguments` have `max_episode_steps` (-1 for none).

    :param env_id: the environment's id; `module:id` for one that this module registers, or `module:Class`
    :param wrappers: wrappers from `ncp_envs`, the innermost first: names, or dictionaries with one entry, from a name
        to the wrapper's arguments
    :param arguments: the environment's arguments
    """
    import ncp_envs

    name = import_for(env_id)
    if name in IMPORTERS:
        raise ValueError(f"the environment {env_id!r} runs what its arguments name: register its inner environment")
    try:
        with ncp_envs.without_mass_warning():
            inner = gym.make(name, disable_env_checker=True, **as_numbers(arguments or {}))
            env: Any = CheckFinite(inner if "max_episode_steps" in (arguments or {}) else with_end(inner))
    except (MemoryError, TooMuchMemory):
        raise
    except Exception as error:  # a constructor that is given odd arguments can raise anything
        with_arguments = f" with {shortened(dict(arguments))}" if arguments else ""
        raise ValueError(f"the environment {env_id!r} cannot be made{with_arguments}: {reason_of(error)}") from error
    for described in wrappers:
        env = wrap(env, described)
    made: gym.Env[Any, Any] = env
    return made


def wrap(env: Any, described: Any) -> Any:
    """Puts a wrapper of `ncp_envs` around an environment, or around every environment of a vector environment.

    :param env: the environment or the vector environment
    :param described: the name of the wrapper of one environment, or a dictionary with one entry, from the name to the
        wrapper's arguments
    """
    import ncp_envs

    name, settings = described, None
    if isinstance(described, dict) and len(described) == 1:
        name, settings = next(iter(described.items()))
    kind = getattr(ncp_envs, name, None) if isinstance(name, str) and name in ncp_envs.__all__ else None
    if isinstance(kind, type) and issubclass(kind, gym.vector.VectorWrapper):
        raise ValueError(
            f"{name} is for vector environments, and a recipe wraps each environment alone: name "
            f"{str(name).removeprefix('Vector')} instead"
        )
    if not (isinstance(kind, type) and issubclass(kind, gym.Wrapper)):
        raise ValueError(f"there is no wrapper {shortened(name)} in ncp_envs")
    if isinstance(env, gym.vector.VectorEnv):
        kind = getattr(ncp_envs, f"Vector{name}", None)
        if kind is None:
            raise ValueError(f"the wrapper {name} is for single environments, not for many side by side")
    if settings is not None and not isinstance(settings, dict):
        raise ValueError(f"the arguments of the wrapper {name} must be a dictionary, not {shortened(settings)}")
    try:
        return kind(env, **as_numbers(settings or {}))
    except (MemoryError, TooMuchMemory):
        raise
    except Exception as error:
        raise ValueError(f"the wrapper {name} cannot be made: {reason_of(error)}") from error


def as_numbers(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns arguments with numbers in place of texts such as 1e-1; texts of rates stay as they are."""
    numbers = {key: read_number(value) for key, value in arguments.items()}
    return {key: arguments[key] if isinstance(value, Linear) else value for key, value in numbers.items()}


def reason_of(error: BaseException) -> str:
    """Returns an error's message in one line, with the kind of error where the message alone says too little."""
    text = " ".join(str(error).split())
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    if text and isinstance(error, ValueError | TypeError | ChildProcessError | gym.error.Error):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
