"""What is handed to `predict`, checked before a network would read it as something else."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from ncp_control.rl.policies.circuit import following


def check_state(state: tuple[int, ...], size: int, observations: int, starts: int | None) -> None:
    """Refuses a state of other environments, or of another policy.

    :param state: the shape of what should be (1, n, N)
    :param size: N
    :param observations: n
    :param starts: how many flags say whether an episode starts, if there are any
    """
    if len(state) != 3:
        raise ValueError(f"a state is what the last call of predict returned, ((1, n, N), ...), and not {tuple(state)}")
    if state[1] != observations:
        raise ValueError(
            f"the state is of {_many(state[1], 'environment')}, and there {_are(observations, 'observation')}: hand "
            "over what the last call with the same environments returned, or None where all episodes begin"
        )
    if state[2] != size:
        raise ValueError(f"the state has {_many(state[2], 'number')} an environment, and this policy's has {size}")
    if starts is not None and starts != observations:
        raise ValueError(
            f"episode_start says of {_many(starts, 'environment')} whether an episode begins, and there "
            f"{_are(observations, 'observation')}: give one flag for each"
        )


def check_numbers(state: Tensor) -> None:
    """Refuses a state with NaN in it."""
    if not following() and torch.isnan(state).any():
        raise ValueError("the circuit's state is NaN: an observation was not a number, or the weights are not")


def rows_of(observation: Any) -> int:
    """How many environments' observations these are: a tensor, or a dictionary of them."""
    rows: int = (next(iter(observation.values())) if isinstance(observation, dict) else observation).shape[0]
    return rows


def check_observation(observation: Any, space: spaces.Space[Any]) -> None:
    """Refuses observations of another shape than a policy's, one or a batch of them, and those that are no numbers.

    :param observation: as the environment shows it
    :param space: of the policy
    """
    if isinstance(space, spaces.Dict):
        if not isinstance(observation, dict) or set(observation) != set(space.spaces):
            found = f"those of {', '.join(map(str, observation))}" if isinstance(observation, dict) else "no dictionary"
            raise ValueError(f"the policy reads a dictionary with {', '.join(space.spaces)}, and was given {found}")
        for key, own in space.spaces.items():
            _check_values(observation[key], own, f"the observation's {key!r}")
    else:
        _check_values(observation, space, "the observation")


def _check_values(given: Any, space: spaces.Space[Any], what: str) -> None:
    values, shape = np.asarray(given), space.shape or ()
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
