"""One interface for whatever chooses actions: each call returns the actions of several episodes side by side."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from ncp_control.data.collection import spawned_seed
from ncp_control.data.masks import takes_masks
from ncp_control.data.normalizing import normalizer_of
from ncp_control.data.policy_hashes import hash_of_function, hash_of_weights

Array = NDArray[Any]


class BatchPolicy(Protocol):
    """Chooses the actions of several episodes, step by step.

    :ivar name: a short name, used in the name of a dataset
    """

    name: str

    @property
    def sha256(self) -> str | None:
        """A hash of whatever determines the actions; None if there is no such hash."""

    def begin(self, seeds: Sequence[int]) -> None:
        """Begins new episodes, one for each seed; all random choices of the policy follow from these seeds."""

    def act(self, observations: Any) -> Array:
        """Returns actions (B, ...) for observations (B, ...) of the episodes in the order of their seeds."""


class RandomPolicy:
    """Draws actions uniformly, from a random stream of its own for each episode."""

    name = "random"
    sha256: str | None = None

    def __init__(self, action_space: gym.Space[Any]) -> None:
        self._space = action_space
        self._spaces: list[gym.Space[Any]] = []

    def begin(self, seeds: Sequence[int]) -> None:
        """Starts a random stream for each episode."""
        self._spaces = [copy.deepcopy(self._space) for _ in seeds]
        for space, seed in zip(self._spaces, seeds, strict=True):
            space.seed(spawned_seed(seed, 1))  # not the same numbers as the environment, which has the seed itself

    def act(self, observations: Any) -> Array:
        """Returns an action for each episode."""
        return np.stack([space.sample() for space in self._spaces])


class PredictPolicy:
    """A model with Stable-Baselines3's `predict(observation, state, episode_start, deterministic)`.

    Observations are normalised first if the model was trained under a `VecNormalize`.
    """

    def __init__(self, model: Any, name: str | None = None, deterministic: bool = True) -> None:
        self.name = name or getattr(model, "name", None) or type(model).__name__.lower()
        self._model, self._deterministic, self._normalize = model, deterministic, normalizer_of(model)
        self.takes_masks = takes_masks(model)
        self._state: Any = None
        self._starts: Array = np.ones(0, dtype=bool)

    @cached_property
    def sha256(self) -> str | None:
        """The model's own hash if it has one, or the hash of its weights."""
        return getattr(self._model, "sha256", None) or hash_of_weights(self._model)

    def begin(self, seeds: Sequence[int]) -> None:
        """Clears the recurrent state, and seeds torch's random numbers with the first seed."""
        self._state, self._starts = None, np.ones(len(seeds), dtype=bool)
        torch.manual_seed(seeds[0])

    def act(self, observations: Any, action_masks: Array | None = None) -> Array:
        """Calls `predict` once for the whole batch."""
        masks = {} if action_masks is None else {"action_masks": action_masks}
        actions, self._state = self._model.predict(
            self._normalize(observations),
            state=self._state,
            episode_start=self._starts,
            deterministic=self._deterministic,
            **masks,
        )
        # An episode that has ended stays in the batch until all have, so none begins in between.
        self._starts = np.zeros(len(self._starts), dtype=bool)
        return as_actions(actions)


class FunctionPolicy:
    """A function from observations (B, ...) to actions (B, ...), without memory."""

    def __init__(self, function: Callable[[Array], Any], name: str | None = None) -> None:
        self.sha256 = hash_of_function(function)
        self.name = name or getattr(function, "__name__", type(function).__name__).strip("<>")  # of <lambda>
        self._function = function

    def begin(self, seeds: Sequence[int]) -> None:
        """Seeds torch's random numbers, which the function may use, with the first seed."""
        torch.manual_seed(seeds[0])

    def act(self, observations: Any) -> Array:
        """Calls the function once for the whole batch."""
        return as_actions(self._function(observations))


class CheckedPolicy:
    """Another policy whose actions are checked at each step before they reach an environment.

    :param policy: the policy to check
    :param action_space: the action space of one environment
    """

    def __init__(self, policy: BatchPolicy, action_space: gym.Space[Any]) -> None:
        self.name, self.sha256 = policy.name, policy.sha256
        self._policy, self._space, self._step, self._count = policy, action_space, 0, 0
        self.takes_masks = getattr(policy, "takes_masks", False)

    def begin(self, seeds: Sequence[int]) -> None:
        """Begins new episodes of the policy."""
        self._step, self._count = 0, len(seeds)
        self._policy.begin(seeds)

    def act(self, observations: Any, action_masks: Array | None = None) -> Array:
        """Returns the policy's actions, unless one of them is not in the action space."""
        actions = act(self._policy, observations, action_masks)
        check_actions(actions, self._space, self._count, self._step)
        self._step += 1
        return actions


def act(policy: BatchPolicy, observations: Any, action_masks: Array | None) -> Array:
    """Returns a policy's actions for observations (B, ...), with masks (B, D) if there are any and it takes them."""
    if action_masks is None:
        return policy.act(observations)
    masked: Any = policy
    actions: Array = masked.act(observations, action_masks)
    return actions


def as_actions(actions: Any) -> Array:
    """Returns actions as an array; refuses those of different lengths."""
    try:
        return np.asarray(actions)
    except ValueError:
        raise ValueError("the policy gave actions of different lengths: they should be one array (B, ...)") from None


def check_actions(actions: Array, space: gym.Space[Any], count: int, step: int) -> None:
    """Refuses actions of a wrong shape or kind, and numbers that are not finite. Actions of a `Box` may exceed its
    bounds.

    :param actions: should have shape (B, ...)
    :param space: the action space of one environment
    :param count: the number of episodes, B
    :param step: the number of the step, for messages
    """
    if actions.shape != (count, *(space.shape or ())):
        raise ValueError(
            f"the policy gave actions of shape {actions.shape} for {count} observations at step {step}: "
            f"they should be {(count, *(space.shape or ()))}"
        )
    if isinstance(space, gym.spaces.Discrete):
        fine = np.issubdtype(actions.dtype, np.integer) and (actions >= space.start) & (actions < space.start + space.n)
    else:
        is_real = np.issubdtype(actions.dtype, np.number) and not np.iscomplexobj(actions)
        fine = is_real and np.isfinite(actions)
    if not np.all(fine):
        # actions of a wrong kind are wrong as a whole, and `fine` is then one flag
        wrong = actions if np.ndim(fine) == 0 else actions[~np.asarray(fine)]
        raise ValueError(f"the policy gave {wrong.flat[0]} at step {step}, which is not an action of {space}")


def as_batch_policy(
    policy: Any, action_space: gym.Space[Any], name: str | None = None, deterministic: bool = True
) -> BatchPolicy:
    """Makes a `BatchPolicy` of "random", of a model with `predict`, or of a function; a `BatchPolicy` stays as it is.

    :param policy: whatever chooses the actions
    :param action_space: the action space of one environment
    :param name: a name for the policy, in place of the one that it has
    :param deterministic: let a model with `predict` take its deterministic action rather than a sample
    """
    if isinstance(policy, str):
        if policy != "random":
            raise ValueError(f"unknown policy {policy!r}: give 'random', a model with predict, or a function")
        return RandomPolicy(action_space)
    if hasattr(policy, "begin") and hasattr(policy, "act"):
        ready: BatchPolicy = policy
        return ready
    if hasattr(policy, "predict"):
        return PredictPolicy(policy, name, deterministic)
    if callable(policy):
        return FunctionPolicy(policy, name)
    raise TypeError(f"a policy is 'random', a model with predict, or a function, not {type(policy).__name__}")
