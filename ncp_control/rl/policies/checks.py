"""Checks of the arguments of policies and of their `predict`, with a sentence that says what to pass instead."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.torch_layers import CombinedExtractor
from torch import Tensor

from ncp_control.base.values import advice_for
from ncp_control.rl.policies.circuit import is_traced

# Arguments by which sb3-contrib's recurrent policies describe their LSTMs; NCPPolicy has its own arguments for these.
LSTMS = ("lstm_hidden_size", "n_lstm_layers", "shared_lstm", "enable_critic_lstm", "lstm_kwargs")


def check_names(names: Iterable[str], *constructors: Callable[..., Any]) -> None:
    """Refuses names that are an argument of no constructor.

    :param names: the names in `policy_kwargs`
    :param constructors: the constructors of NCPPolicy and of the policy that it extends
    """
    known = {name for constructor in constructors for name in inspect.signature(constructor).parameters}
    # what these constructors get from a policy or an algorithm, and not from a user
    known -= {*LSTMS, "self", "args", "kwargs", "observation_space", "action_space", "lr_schedule"}
    for name in names:
        if name in LSTMS:
            raise TypeError(
                f"NCPPolicy takes no {name}, as its memory is a circuit: set the actor's size with wiring=, its "
                'critic with critic="circuit", "lstm", "mlp", "linear" or "shared", and an LSTM critic\'s size with '
                "critic_units="
            )
        if name not in known:
            raise TypeError(f"NCPPolicy has no argument {name!r}: {advice_for(name, known)}")


def check_choice(what: str, chosen: str, choices: tuple[str, ...]) -> None:
    """Refuses a value that is not among the choices, and lists them."""
    if chosen not in choices:
        raise ValueError(f"unknown {what} {chosen!r}: choose one of {', '.join(choices)}")


def choose_extractor(arguments: dict[str, Any], observation_space: spaces.Space[Any]) -> None:
    """Adds the features extractor for dictionaries to a policy's arguments.

    Images without an extractor and observations without a number are refused.
    """
    if isinstance(observation_space, spaces.Box) and 0 in observation_space.shape:
        raise ValueError(f"an agent needs at least one number to observe, and there is none in {observation_space}")
    if isinstance(observation_space, spaces.Dict):
        # Stable-Baselines3 has a policy of its own for dictionaries, and NCPPolicy is for vectors, too.
        arguments.setdefault("features_extractor_class", CombinedExtractor)
    elif is_image_space(observation_space) and "features_extractor_class" not in arguments:
        raise ValueError(
            "a circuit reads features, not images: pass policy_kwargs=dict(features_extractor_class=NatureCNN), or "
            f"another extractor, for {observation_space}"
        )


def check_state(state: tuple[int, ...], size: int, observations: int, starts: int | None) -> None:
    """Refuses a state that belongs to another number of environments or to another policy.

    :param state: the state's shape, which should be (1, n, N)
    :param size: the numbers in one environment's state, N
    :param observations: the number of observations, n
    :param starts: the number of flags in `episode_start`; None without flags
    """
    if len(state) != 3:
        raise ValueError(f"a state is what the last call of predict returned, ((1, n, N), ...), and not {tuple(state)}")
    if state[1] != observations:
        raise ValueError(
            f"the state is of {_many(state[1], 'environment')}, and there {_are(observations, 'observation')}: pass "
            "the state that the last call for the same environments returned, or None where all episodes begin"
        )
    if state[2] != size:
        raise ValueError(f"the state has {_many(state[2], 'number')} per environment, and this policy's has {size}")
    if starts is not None and starts != observations:
        raise ValueError(
            f"episode_start has {_many(starts, 'flag')}, and there {_are(observations, 'observation')}: pass one flag "
            "for each"
        )


def check_numbers(state: Tensor) -> None:
    """Refuses a state that contains NaN."""
    # One sum is quicker than a look at every number.
    if not is_traced() and math.isnan(state.sum().item()) and torch.isnan(state).any():
        raise ValueError(
            "the circuit's state is NaN: an observation was not a number, or so large that a sum overflowed, or the "
            "weights are not numbers"
        )


def check_alone(observation: Any) -> None:
    """Refuses the pair of an observation and an info, which a Gymnasium environment's `reset` returns."""
    if isinstance(observation, tuple) and len(observation) == 2 and isinstance(observation[1], dict):
        raise ValueError(
            "predict was given the pair (observation, info) that a Gymnasium environment's reset returns, perhaps by "
            "mixing Gym API, observation, info = env.reset(), with VecEnv API, observation = vec_env.reset(): pass the "
            "observation alone"
        )


def rows_of(observation: Any) -> int:
    """Returns the number of observations in a batch: in a tensor, or in a dictionary of tensors."""
    rows: int = (next(iter(observation.values())) if isinstance(observation, dict) else observation).shape[0]
    return rows


def check_observation(observation: Any, space: spaces.Space[Any]) -> None:
    """Refuses observations that contain NaN or do not have the shape that a policy reads.

    :param observation: one observation or a batch of them, as the environment returns it
    :param space: the policy's observation space
    """
    check_alone(observation)
    if isinstance(space, spaces.Dict):
        if not isinstance(observation, dict) or set(observation) != set(space.spaces):
            shown = f"the entries {', '.join(map(str, observation))}" if isinstance(observation, dict) else "an array"
            raise ValueError(
                f"the policy reads a dictionary with the entries {', '.join(space.spaces)}, and was given {shown}"
            )
        for key, own in space.spaces.items():
            _check_values(observation[key], own, f"the observation's {key!r}")
    else:
        _check_values(observation, space, "the observation")


def _check_values(observation: Any, space: spaces.Space[Any], what: str) -> None:
    values, shape = np.asarray(observation), space.shape or ()
    if values.shape != shape and values.shape[1:] != shape:
        raise ValueError(
            f"{what} has shape {values.shape}, and the policy reads {shape}, or a batch of them, "
            f"such as {(values.shape[0] if values.ndim > len(shape) else 5, *shape)}"
        )
    if values.dtype.kind == "f" and np.isnan(values).any():
        where = np.argwhere(np.isnan(values))[0].tolist()
        raise ValueError(f"{what} is NaN at {where}: clean it before the policy sees it")


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _are(count: int, noun: str) -> str:
    return f"{'is' if count == 1 else 'are'} {_many(count, noun)}"
