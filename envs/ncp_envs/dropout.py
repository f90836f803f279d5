"""Wrappers for sensors that fail at random."""

from __future__ import annotations

from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from ncp_envs.arguments import check_box, check_probability, is_finite
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
    if not is_finite(fill):
        raise ValueError(f'ObservationDropout needs a finite number for fill, or "last", and got {fill!r}')
    blank = np.full(space.shape, fill, dtype=space.dtype)
    if not np.issubdtype(space.dtype, np.floating) and not (blank == fill).all():
        raise ValueError(f"ObservationDropout cannot fill observations of {space.dtype} with {fill}")
    return blank


class ObservationDropout(ChangedObservations, RecordConstructorArgs):
    """Drops entries of every observation at random, and reports them as `info["dropped"]`.

    The bounds of the observations are extended to include the fill value. The dropped entries are drawn from a random
    stream of this wrapper's own. `reset(seed=s)` restarts the stream from s; without a seed the stream continues.

    :param env: an environment whose observations are a `Box`
    :param probability: the probability, at each step, that an entry is dropped, or the whole observation
    :param fill: the value of a dropped entry: a number, or "last" for the value shown at the previous step, which is
        zero if the episode has shown none yet
    :param whole: drop either all entries of an observation or none
    :param seed: the seed of the stream before the first `reset(seed=...)`

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
    """`ObservationDropout` for a vector environment: each environment behaves as if it were wrapped alone.

    :param env: the vector environment
    :param probability: the probability, at each step, that an entry is dropped, or one environment's whole observation
    :param fill: the value of a dropped entry: a number, or "last"
    :param whole: drop either all entries of one environment's observation or none
    :param seed: the seed of the streams; environment i gets `seed + i`, as in a vector `reset`
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
