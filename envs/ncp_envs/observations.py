"""A wrapper that shows only some entries of an observation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from ncp_envs.layout import entries_of
from ncp_envs.names import observation_names

Action = TypeVar("Action")
Vector = NDArray[Any]


class KeepObservations(gym.ObservationWrapper[Vector, Action, Vector], RecordConstructorArgs):
    """Keeps some entries of a vector observation, in the given order, with the dtype and bounds of the environment.

    :param env: an environment whose observations are vectors, that is a `Box` of shape (size,)
    :param indices: the entries to keep, each of them once; or "positions" or "velocities", for a MuJoCo environment of
        Gymnasium: those entries that are positions or velocities of its own model, with its own options
    :param size: the number of entries that the environment must have. An option of the environment that adds entries
        would move the others to new places; with `size` given, that raises an error

    >>> import gymnasium as gym
    >>> env = KeepObservations(gym.make("CartPole-v1"), indices=(0, 2))  # where the cart is and how the pole leans
    >>> env.observation_space.shape
    (2,)
    """

    def __init__(self, env: gym.Env[Vector, Action], indices: Sequence[int] | str, size: int | None = None) -> None:
        RecordConstructorArgs.__init__(self, indices=indices, size=size)
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1:
            raise TypeError(f"KeepObservations needs vector observations, a Box of shape (size,), and got {space}")
        (length,) = space.shape
        if size is not None and length != size:
            raise ValueError(
                f"the entries to keep were chosen for observations of {size} entries, but this environment has "
                f"{length}: an option of the environment has added or removed some"
            )
        if isinstance(indices, str):
            indices = entries_of(env, indices, length)
        if not indices:
            raise ValueError("KeepObservations needs at least one entry to keep, and got none")
        for index in indices:
            if not 0 <= index < length:
                raise ValueError(
                    f"entry {index} does not exist: the observation has {length} entries, 0 to {length - 1}"
                )
        if len(set(indices)) < len(indices):
            raise ValueError(f"each entry can be kept only once, and {list(indices)} names one more often")
        self._kept = np.array(indices, dtype=np.intp)
        self.observation_space = gym.spaces.Box(
            low=space.low[self._kept], high=space.high[self._kept], dtype=space.dtype.type
        )

    @property
    def observation_names(self) -> list[str]:
        """The names of the kept entries."""
        names = observation_names(self.env)
        return [names[index] for index in self._kept]

    def observation(self, observation: Vector) -> Vector:
        """Returns the kept entries as a new array."""
        return observation[self._kept]
