"""Sensors that fail for a step now and then."""

from __future__ import annotations

from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from ncp_envs.arguments import check_box, check_probability
from ncp_envs.changed_observations import ChangedObservations, Info, ObservationRule, VectorChangedObservations
from ncp_envs.streams import RandomStream, Stream, count_layers, offset_seed

Fill = float | Literal["last"]


class _Dropout(ObservationRule):
    def __init__(
        self, space: gym.Space[Any], probability: float, fill: Fill, whole: bool, layer: int, seed: int | None
    ) -> None:
        box = check_box("ObservationDropout", space)
        self._probability = check_probability("ObservationDropout", probability)
        self._holds = fill == "last"
        self._whole = whole
        self._blank = _blank_observation(box, 0.0 if self._holds else fill)
        self._last = self._blank
        self.space = gym.spaces.Box(
            low=np.minimum(box.low, self._blank), high=np.maximum(box.high, self._blank), dtype=box.dtype.type
        )
        self._random = RandomStream(Stream.OBSERVATION_DROPOUT, layer, seed)

    def start(self, seed: int | None) -> None:
        self._last = self._blank
        if seed is not None:
            self._random.restart(seed)

    def observe(self, observation: Any) -> tuple[Any, Info]:
        shape = self._blank.shape
        draws = self._random.generator.random(() if self._whole else shape)
        dropped = np.broadcast_to(draws < self._probability, shape).copy()
        shown = np.where(dropped, self._last, observation).astype(self.space.dtype)
        if self._holds:
            self._last = shown.copy()
        return shown, {"dropped": dropped}


def _blank_observation(space: gym.spaces.Box, fill: Any) -> Any:
    if isinstance(fill, str) or not np.isfinite(fill):
        raise ValueError(f'ObservationDropout needs a finite number for fill, or "last", and got {fill!r}')
    blank = np.full(space.shape, fill, dtype=space.dtype)
    if not np.issubdtype(space.dtype, np.floating) and not (blank == fill).all():
        raise ValueError(f"ObservationDropout cannot fill observations of {space.dtype} with {fill}")
    return blank


class ObservationDropout(ChangedObservations, RecordConstructorArgs):
    """Drop entries of every observation at random; `info["dropped"]` says which.

    The bounds grow to hold what fills the gaps. `reset(seed=s)` makes the gaps a function of s, drawn from a stream of
    this wrapper's own; without a seed the stream goes on.

    :param env: an environment whose observations are a `Box`
    :param probability: of being dropped, for each entry at each step, or for the whole observation
    :param fill: what a dropped entry reads: a number, or "last" for what was shown there the step before, and zero
        where an episode has shown nothing yet
    :param whole: drop all entries of an observation together or none
    :param seed: where the stream begins before any `reset(seed=...)`

    >>> import gymnasium as gym
    >>> env = ObservationDropout(gym.make("CartPole-v1"), probability=1.0, fill=-1.0)
    >>> env.reset(seed=0)[0].tolist()
    [-1.0, -1.0, -1.0, -1.0]
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        probability: float,
        fill: Fill = 0.0,
        whole: bool = False,
        seed: int | None = None,
    ) -> None:
        RecordConstructorArgs.__init__(self, probability=probability, fill=fill, whole=whole, seed=seed)
        layer = count_layers(env, ObservationDropout)
        super().__init__(env, _Dropout(env.observation_space, probability, fill, whole, layer, seed))


class VectorObservationDropout(VectorChangedObservations):
    """`ObservationDropout` for a vector environment: each of its environments as if it were wrapped by itself.

    :param env: the vector environment
    :param probability: of being dropped, for each entry at each step, or for the whole of one environment's observation
    :param fill: what a dropped entry reads: a number, or "last"
    :param whole: drop all entries of one environment's observation together or none
    :param seed: where the streams begin: the environment at place i gets `seed + i`, as in a vector `reset`
    """

    def __init__(
        self,
        env: gym.vector.VectorEnv[Any, Any, Any],
        probability: float,
        fill: Fill = 0.0,
        whole: bool = False,
        seed: int | None = None,
    ) -> None:
        layer = count_layers(env, VectorObservationDropout)
        space = env.single_observation_space
        super().__init__(
            env,
            [
                _Dropout(space, probability, fill, whole, layer, offset_seed(seed, index))
                for index in range(env.num_envs)
            ],
        )
