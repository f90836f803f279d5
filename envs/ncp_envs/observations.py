"""Wrappers that show only some entries of an observation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from ncp_envs.arguments import check_box
from ncp_envs.changed_observations import Info, ObservationRule, VectorChangedObservations
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
        space = check_box("KeepObservations", env.observation_space, vector=True)
        check_size(space, size)
        if isinstance(indices, str):
            indices = entries_of(env, indices, space.shape[0])
        self._kept, self.observation_space = kept_of(space, indices)

    @property
    def observation_names(self) -> list[str]:
        """The names of the kept entries."""
        names = observation_names(self.env)
        return [names[index] for index in self._kept]

    def observation(self, observation: Vector) -> Vector:
        """Returns the kept entries as a new array."""
        return observation[self._kept]


class _Keep(ObservationRule):
    def __init__(self, space: gym.Space[Any], indices: Sequence[int], size: int | None) -> None:
        box = check_box("VectorKeepObservations", space, vector=True)
        check_size(box, size)
        self._kept, self.space = kept_of(box, indices)

    def start(self, seed: int | None) -> None:
        """Nothing here is random."""

    def observe(self, observation: Any) -> tuple[Any, Info]:
        return observation[self._kept], {}


class VectorKeepObservations(VectorChangedObservations):
    """`KeepObservations` for a vector environment, whose entries are named by their places.

    :param env: the vector environment
    :param indices: the entries to keep, each of them once
    :param size: the number of entries that an observation must have
    """

    def __init__(
        self, env: gym.vector.VectorEnv[Any, Any, Any], indices: Sequence[int], size: int | None = None
    ) -> None:
        if isinstance(indices, str):
            raise TypeError(f"VectorKeepObservations needs the places of the entries to keep, and got {indices!r}")
        super().__init__(env, [_Keep(env.single_observation_space, indices, size)] * env.num_envs)


def check_size(space: gym.spaces.Box, size: int | None) -> None:
    """Refuses observations of another size than the entries to keep were chosen for."""
    (length,) = space.shape
    if size is not None and length != size:
        raise ValueError(
            f"the entries to keep were chosen for observations of {size} entries, but this environment has "
            f"{length}: an option of the environment has added or removed some"
        )


def kept_of(space: gym.spaces.Box, indices: Sequence[int]) -> tuple[NDArray[np.intp], gym.spaces.Box]:
    """Returns the entries to keep, and the space of what is left of an observation of `space`."""
    (length,) = space.shape
    if not len(indices):
        raise ValueError("KeepObservations needs at least one entry to keep, and got none")
    for index in indices:
        if not 0 <= index < length:
            raise ValueError(f"entry {index} does not exist: the observation has {length} entries, 0 to {length - 1}")
    if len(set(indices)) < len(indices):
        raise ValueError(f"each entry can be kept only once, and {list(indices)} names one more often")
    kept = np.array(indices, dtype=np.intp)
    return kept, gym.spaces.Box(low=space.low[kept], high=space.high[kept], dtype=space.dtype.type)
