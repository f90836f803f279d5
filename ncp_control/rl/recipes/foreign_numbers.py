"""Finds out whether environments draw random numbers from generators that they share with the rest of their process.

What such environments draw depends on what else runs in the process, so that they would give other numbers in another
one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.vec_env import DummyVecEnv

States = dict[str, Any]


class ForeignNumbers(ValueError):
    """An environment draws random numbers from a generator that is not its own."""


@contextmanager
def own_numbers_only(look: Callable[[], States]) -> Iterator[None]:
    """Raises `ForeignNumbers` if one of some generators has moved when the block ends.

    :param look: returns the state of each generator, by its name
    """
    before = look()
    yield
    now = look()
    moved = [name for name, state in before.items() if now[name] != state]
    if moved:
        raise ForeignNumbers(
            f"the environment draws random numbers from {moved[0]}, which worker processes do not share, so that its "
            "numbers would not be the same: let it draw from its own np_random, or leave out --vec processes"
        )


def states_of_python() -> States:
    """Returns the state of the generator in Python's module `random`."""
    return {"Python's module random": random.getstate()}


def states_of_process() -> States:
    """Returns the states of the generators that everything in this process shares."""
    kind, keys, *rest = np.random.get_state()
    return {
        **states_of_python(),
        "numpy.random": (kind, np.asarray(keys).tobytes(), *rest),
        "torch": torch.get_rng_state().numpy().tobytes(),
    }


def states_of_spaces(envs: DummyVecEnv) -> States:
    """Returns the states of the generators in the environments' spaces, the first of which the training uses too."""
    return {
        "its action_space": [states_in(env.action_space) for env in envs.envs],
        "its observation_space": [states_in(env.observation_space) for env in envs.envs],
    }


def states_in(space: gym.spaces.Space[Any]) -> list[str]:
    """Returns the states of the generators of a space and of the spaces in it."""
    inner = list(space.spaces.values()) if isinstance(space, gym.spaces.Dict) else []
    own = space._np_random
    return ["" if own is None else repr(own.bit_generator.state), *(one for part in inner for one in states_in(part))]
