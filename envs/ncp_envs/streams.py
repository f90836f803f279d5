"""The random numbers of the wrappers: a stream for each, and none of them the environment's."""

from __future__ import annotations

from enum import IntEnum, unique
from typing import Any

import gymnasium as gym
import numpy as np


@unique
class Stream(IntEnum):
    """One constant for each wrapper that draws; far above any number of children that an environment might spawn."""

    ACTION_OVERWRITE = 0x6E637001
    OBSERVATION_NOISE = 0x6E637002
    OBSERVATION_DROPOUT = 0x6E637003
    IRREGULAR_TIME = 0x6E637004


class RandomStream:
    """A generator that is a function of a seed, of the wrapper that draws from it, and of the wrapper's layer.

    It is `default_rng(SeedSequence(seed, spawn_key=(stream, layer)))`: given one seed, the environment, its action
    space, and every wrapper draw independent numbers.

    :param stream: which wrapper draws
    :param layer: how many wrappers of the same class are below it, so that two of them are not one twice
    :param seed: where the stream begins; None begins anywhere
    """

    generator: np.random.Generator

    def __init__(self, stream: Stream, layer: int, seed: int | None) -> None:
        self._key = (int(stream), layer)
        self.restart(seed)

    def restart(self, seed: int | None) -> None:
        """Begin anew from `seed`."""
        self.generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=self._key))


def count_layers(env: Any, kind: type) -> int:
    """Count the wrappers of class `kind` in a chain, vector environments' or others', from `env` down."""
    count = 0
    while isinstance(env, gym.Wrapper | gym.vector.VectorWrapper):
        count += isinstance(env, kind)
        env = env.env
    return count


def offset_seed(seed: int | None, index: int) -> int | None:
    """Return the seed of the environment at place `index` of several, by Gymnasium's rule: the first's plus `index`."""
    return None if seed is None else seed + index
