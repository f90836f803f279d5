"""Overwrite some of an agent's actions with random ones."""

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


class _Overwrite(ActionRule):
    def __init__(self, space: gym.Space[Any], probability: float, layer: int, seed: int | None) -> None:
        self._probability = check_probability("RandomActionOverwrite", probability)
        if not isinstance(space, _SAMPLED):
            raise TypeError(f"RandomActionOverwrite needs actions from a Box or a discrete space, and got {space}")
        if isinstance(space, gym.spaces.Box) and not space.is_bounded():
            raise ValueError(
                f"nothing is drawn uniformly from a space without bounds, and these actions have none: {space}"
            )
        self._random = RandomStream(Stream.ACTION_OVERWRITE, layer, seed)
        self._space = copy.deepcopy(space)  # whoever samples from the environment's own space has a stream of their own
        self._seed_space()

    def start(self, seed: int | None) -> None:
        if seed is not None:
            self._random.restart(seed)
            self._seed_space()

    def act(self, action: Any) -> tuple[Any, Info]:
        is_random = bool(self._random.generator.random() < self._probability)
        executed = self._space.sample() if is_random else action
        return executed, {"executed_action": np.array(executed)[()], "is_random": is_random}

    def _seed_space(self) -> None:
        # Actions come from a stream of their own, so that which steps are overwritten is the same for any action space.
        self._space.seed(int(self._random.generator.integers(2**63)))


class RandomActionOverwrite(ChangedActions, RecordConstructorArgs):
    """At each step, with some probability, execute an action drawn uniformly from the action space instead.

    `info["executed_action"]` is what the environment was given and `info["is_random"]` whether it was drawn.
    `reset(seed=s)` makes the overwrites a function of s: the stream is
    `default_rng(SeedSequence(s, spawn_key=(constant, layer)))`, independent of the environment's and of
    `action_space.seed`; without a seed it goes on. Which steps are overwritten never depends on the agent's actions.

    :param env: an environment whose actions are a bounded `Box`, `Discrete`, `MultiDiscrete` or `MultiBinary`
    :param probability: of an overwrite, at each step
    :param seed: where the stream begins before any `reset(seed=...)`; environments given the same are overwritten alike

    >>> import gymnasium as gym
    >>> env = RandomActionOverwrite(gym.make("Pendulum-v1"), probability=1.0)
    >>> _ = env.reset(seed=0)
    >>> env.step([0.0])[-1]["is_random"]
    True
    """

    def __init__(self, env: gym.Env[Any, Any], probability: float = 0.05, seed: int | None = None) -> None:
        RecordConstructorArgs.__init__(self, probability=probability, seed=seed)
        layer = count_layers(env, RandomActionOverwrite)
        super().__init__(env, _Overwrite(env.action_space, probability, layer, seed))


class VectorRandomActionOverwrite(VectorChangedActions):
    """`RandomActionOverwrite` for a vector environment: each of its environments as if it were wrapped by itself.

    On a step that is a reset, no action is executed: the info has none there, as its mask `_executed_action` says.

    :param env: the vector environment
    :param probability: of an overwrite, at each step of each environment
    :param seed: where the streams begin: the environment at place i gets `seed + i`, as in a vector `reset`
    """

    def __init__(
        self, env: gym.vector.VectorEnv[Any, Any, Any], probability: float = 0.05, seed: int | None = None
    ) -> None:
        layer = count_layers(env, VectorRandomActionOverwrite)
        space = env.single_action_space
        super().__init__(
            env, [_Overwrite(space, probability, layer, offset_seed(seed, index)) for index in range(env.num_envs)]
        )
