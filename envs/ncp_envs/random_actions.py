"""Wrappers that overwrite some of an agent's actions with random ones."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from ncp_envs.arguments import check_probability
from ncp_envs.changed_actions import ActionRule, ChangedActions, Info, VectorChangedActions
from ncp_envs.streams import RandomStream, Stream, count_layers, offset_seed

_SAMPLED = (gym.spaces.Box, gym.spaces.Discrete, gym.spaces.MultiDiscrete, gym.spaces.MultiBinary)


class Overwrite(ActionRule):
    """Executes a random action instead of the agent's, with some probability.

    :param name: the wrapper's, for messages
    :param stream: of its random numbers
    """

    def __init__(
        self, name: str, stream: Stream, space: gym.Space[Any], probability: float, layer: int, seed: int | None
    ) -> None:
        self._probability = check_probability(name, probability)
        if not isinstance(space, _SAMPLED):
            raise TypeError(f"{name} needs actions from a Box or a discrete space, and got {space}")
        if isinstance(space, gym.spaces.Box) and not space.is_bounded():
            raise ValueError(f"{name} cannot draw uniformly from a space without bounds, and got {space}")
        self._random = RandomStream(stream, layer, seed)
        self._space = copy.deepcopy(space)  # so that sampling from the environment's own space changes nothing here
        self._seed_space()

    def start(self, seed: int | None) -> None:
        """Begins an episode."""
        if seed is not None:
            self._random.restart(seed)
            self._seed_space()

    def act(self, action: Any) -> tuple[Any, Info]:
        """Returns the action to execute, and notes both entries of the info."""
        executed, is_random = self.draw(action)
        return executed, {"executed_action": np.array(executed)[()], "is_random": is_random}

    def draw(self, action: Any) -> tuple[Any, bool]:
        """Returns the action to execute, and whether it is a random one."""
        is_random = bool(self._random.generator.random() < self._probability)
        return self._space.sample() if is_random else action, is_random

    def _seed_space(self) -> None:
        # Actions have a stream of their own, so that the overwritten steps are the same for every action space.
        self._space.seed(int(self._random.generator.integers(2**63)))


def _overwrite(space: gym.Space[Any], probability: float, layer: int, seed: int | None) -> Overwrite:
    return Overwrite("RandomActionOverwrite", Stream.ACTION_OVERWRITE, space, probability, layer, seed)


class RandomActionOverwrite(ChangedActions, RecordConstructorArgs):
    """At each step, with some probability, executes an action drawn uniformly from the action space instead.

    `info["executed_action"]` is the action that was executed, and `info["is_random"]` says whether it was drawn.
    `reset(seed=s)` restarts the random stream as `default_rng(SeedSequence(s, spawn_key=(constant, layer)))`, which is
    independent of the environment's stream and of `action_space.seed`; without a seed the stream continues. Which steps
    are overwritten never depends on the agent's actions.

    :param env: an environment whose actions are a bounded `Box`, `Discrete`, `MultiDiscrete` or `MultiBinary`
    :param probability: the probability of an overwrite at each step
    :param seed: the seed of the stream before the first `reset(seed=...)`

    >>> import gymnasium as gym
    >>> env = RandomActionOverwrite(gym.make("Pendulum-v1"), probability=1.0)
    >>> _ = env.reset(seed=0)
    >>> env.step([0.0])[-1]["is_random"]
    True
    """

    def __init__(self, env: gym.Env[Any, Any], probability: float = 0.05, seed: int | None = None) -> None:
        RecordConstructorArgs.__init__(self, probability=probability, seed=seed)
        layer = count_layers(env, RandomActionOverwrite)
        super().__init__(env, _overwrite(env.action_space, probability, layer, seed))


class VectorRandomActionOverwrite(VectorChangedActions):
    """`RandomActionOverwrite` for a vector environment: each environment behaves as if it were wrapped alone.

    An environment that is reset in a step executes no action, and the mask `info["_executed_action"]` is false for it.

    :param env: the vector environment
    :param probability: the probability of an overwrite at each step of each environment
    :param seed: the seed of the streams; environment i gets `seed + i`, as in a vector `reset`
    """

    def __init__(
        self, env: gym.vector.VectorEnv[Any, Any, Any], probability: float = 0.05, seed: int | None = None
    ) -> None:
        layer = count_layers(env, VectorRandomActionOverwrite)
        space = env.single_action_space
        super().__init__(
            env, [_overwrite(space, probability, layer, offset_seed(seed, index)) for index in range(env.num_envs)]
        )
