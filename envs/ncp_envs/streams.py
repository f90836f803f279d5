"""Random streams for the wrappers: one for each, independent of the environment's stream."""

from __future__ import annotations

from enum import IntEnum, unique
from typing import Any

import gymnasium as gym
import numpy as np


@unique
class Stream(IntEnum):
    """A constant for each wrapper that draws, far above the spawn keys that an environment itself may use."""

    ACTION_OVERWRITE = 0x6E637001
    OBSERVATION_NOISE = 0x6E637002
    OBSERVATION_DROPOUT = 0x6E637003
    IRREGULAR_TIME = 0x6E637004
    ACTION_BURSTS = 0x6E637005
    CHANGED_BODY = 0x6E637006
    PUSHES = 0x6E637007
    ACTION_DELAY = 0x6E637008


class RandomStream:
    """A generator that depends on a seed, on the wrapper that draws from it, and on the wrapper's layer.

    It is `default_rng(SeedSequence(seed, spawn_key=(stream, layer)))`. So the environment, its action space and every
    wrapper draw independent numbers from one seed.

    :param stream: the constant of the wrapper, a member of `Stream` or a whole number of your own
    :param layer: the number of inner wrappers of the same class, so that two of them draw different numbers
    :param seed: the seed of the stream; None takes a random one
    """

    generator: np.random.Generator

    def __init__(self, stream: int, layer: int, seed: int | None) -> None:
        self._key = (int(stream), layer)
        self.restart(seed)

    def restart(self, seed: int | None) -> None:
        """Restarts the stream from `seed`."""
        try:
            sequence = np.random.SeedSequence(seed, spawn_key=self._key)
        except (TypeError, ValueError):
            raise ValueError(f"the seed of a wrapper is a whole number of at least 0, and not {seed!r}") from None
        self.generator = np.random.default_rng(sequence)


def wrappers_of(env: gym.Env[Any, Any]) -> list[Any]:
    """Returns the wrappers around an environment, the outermost first."""
    found: list[Any] = []
    inner: Any = env
    while isinstance(inner, gym.Wrapper):
        found.append(inner)
        inner = inner.env
    return found


def count_layers(env: Any, kind: type) -> int:
    """Counts the wrappers of class `kind` in a chain of wrappers, from `env` inwards."""
    count = 0
    while isinstance(env, gym.Wrapper | gym.vector.VectorWrapper):
        count += isinstance(env, kind)
        env = env.env
    return count


def offset_seed(seed: int | None, index: int) -> int | None:
    """Returns the seed of environment `index` of several by Gymnasium's rule: the first environment's plus `index`."""
    return None if seed is None else seed + index
