"""Acting in several environments side by side, each of which may begin a new episode at any step."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from ncp_control.data.batch_policies import FunctionPolicy, as_actions, check_actions
from ncp_control.data.normalizing import normalizer_of

Array = NDArray[Any]


class Actor:
    """Chooses deterministic actions, and carries the state of a policy with a memory from step to step.

    :param policy: a model with Stable-Baselines3's `predict`, whose observations are normalised first if it was trained
        under a `VecNormalize`; or a function from observations (B, ...) to actions (B, ...)
    :param action_space: the action space of one environment; actions of a `Box` are clipped to it
    :param name: the name of the policy in error messages
    """

    def __init__(self, policy: Any, action_space: gym.Space[Any], name: str = "the policy") -> None:
        self.name = name
        self._predict = getattr(policy, "predict", None)
        self._policy = policy if self._predict is not None else FunctionPolicy(policy)
        self._normalize = normalizer_of(policy)
        self._space, self._state, self._steps = action_space, None, 0

    @property
    def has_memory(self) -> bool:
        """Whether the policy has returned a state that it needs for the next step."""
        return self._state is not None

    def begin(self) -> None:
        """Forgets everything of earlier episodes."""
        self._state, self._steps = None, 0

    def act(self, observations: Any, starts: Array) -> Array:
        """Returns actions (B, ...).

        :param observations: an observation for each environment, (B, ...)
        :param starts: (B,) bool, true where an episode begins
        """
        if self._predict is None:
            actions = self._policy.act(observations)
        else:
            actions, self._state = self._predict(
                self._normalize(observations), state=self._state, episode_start=starts, deterministic=True
            )
        try:
            actions = as_actions(actions)
            check_actions(actions, self._space, len(starts), self._steps)
        except ValueError as error:
            raise ValueError(str(error).replace("the policy", self.name, 1)) from None
        self._steps += 1
        if isinstance(self._space, gym.spaces.Box):
            # A function of NumPy's gives float64 easily, which is no action of a space of float32.
            actions = np.clip(actions, self._space.low, self._space.high).astype(self._space.dtype)
        return actions
