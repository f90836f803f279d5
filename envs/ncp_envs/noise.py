"""Wrappers that add noise to observations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from ncp_envs.arguments import check_box, with_more
from ncp_envs.changed_observations import ChangedObservations, Info, ObservationRule, VectorChangedObservations
from ncp_envs.names import observation_names
from ncp_envs.streams import RandomStream, Stream, count_layers, offset_seed

Deviation = float | Sequence[float] | NDArray[Any]


class _Noise(ObservationRule):
    def __init__(self, space: gym.Space[Any], std: Deviation, clean: bool, layer: int, seed: int | None) -> None:
        box = check_box("ObservationNoise", space, vector=clean, floating=True)
        try:
            given = np.array(std, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"ObservationNoise needs numbers for std, and got {std!r}") from None
        try:
            self._std = np.broadcast_to(given, box.shape)
        except ValueError:
            raise ValueError(
                f"ObservationNoise needs one std, or one for each entry of an observation of shape {box.shape}, "
                f"and got shape {given.shape}"
            ) from None
        if not (np.isfinite(given).all() and (given >= 0).all()):
            raise ValueError(f"ObservationNoise needs a std that is finite and not negative, and got {std}")
        noisy = self._std > 0
        self._clean = clean
        self.space = gym.spaces.Box(
            low=np.where(noisy, -np.inf, box.low).astype(box.dtype),
            high=np.where(noisy, np.inf, box.high).astype(box.dtype),
            dtype=box.dtype.type,
        )
        if clean:
            self.space = with_more(self.space, box.low, box.high)
        self._random = RandomStream(Stream.OBSERVATION_NOISE, layer, seed)

    def start(self, seed: int | None) -> None:
        if seed is not None:
            self._random.restart(seed)

    def observe(self, observation: Any) -> tuple[Any, Info]:
        noise = self._std * self._random.generator.standard_normal(self._std.shape)
        noisy = (observation + noise).astype(self.space.dtype)
        shown = np.concatenate([noisy, observation]) if self._clean else noisy
        return shown, {"clean_observation": np.array(observation)}


class ObservationNoise(ChangedObservations, RecordConstructorArgs):
    """Adds Gaussian noise to every observation, including the first of an episode: `observation + std * N(0, 1)`.

    Nothing is clipped, so entries with noise have no bounds. `info["clean_observation"]` is the observation without
    noise. The noise is drawn from a random stream of this wrapper's own. `reset(seed=s)` restarts the stream from s;
    without a seed the stream continues.

    :param env: an environment whose observations are a `Box` of floating-point numbers
    :param std: the standard deviation, one number for all entries or one for each
    :param clean: also show the observation without noise, after the noisy one: what a critic may see
    :param seed: the seed of the stream before the first `reset(seed=...)`

    >>> import gymnasium as gym
    >>> env = ObservationNoise(gym.make("CartPole-v1"), std=(0.1, 0.0, 0.1, 0.0))
    >>> observation, info = env.reset(seed=0)
    >>> (observation == info["clean_observation"]).tolist()
    [False, True, False, True]
    """

    def __init__(self, env: gym.Env[Any, Any], std: Deviation, clean: bool = False, seed: int | None = None) -> None:
        RecordConstructorArgs.__init__(self, std=np.asarray(std).tolist(), clean=clean, seed=seed)
        super().__init__(env, _Noise(env.observation_space, std, clean, count_layers(env, ObservationNoise), seed))
        self._clean, self.is_still = clean, not np.any(std)

    @property
    def observation_names(self) -> list[str]:
        """The names of the environment's entries, followed by those of the clean ones if they are shown."""
        names = list(observation_names(self.env))
        return [*names, *[f"true {name}" for name in names if self._clean]]


class VectorObservationNoise(VectorChangedObservations):
    """`ObservationNoise` for a vector environment: each environment behaves as if it were wrapped alone.

    :param env: the vector environment
    :param std: the standard deviation, one number for all entries of one environment's observation or one for each
    :param seed: the seed of the streams; environment i gets `seed + i`, as in a vector `reset`
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any], std: Deviation, seed: int | None = None) -> None:
        layer = count_layers(env, VectorObservationNoise)
        space = env.single_observation_space
        super().__init__(
            env, [_Noise(space, std, False, layer, offset_seed(seed, index)) for index in range(env.num_envs)]
        )
