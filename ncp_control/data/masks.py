"""The masks of actions that environments have, by the convention of sb3-contrib: a method `action_masks()`."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

METHOD = "action_masks"
CHOICES = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def takes_masks(model: Any) -> bool:
    """Whether a model and its policy, or a policy itself, can be told which actions are allowed."""
    methods = [getattr(part, "predict", None) for part in (model, getattr(model, "policy", model))]
    return all(predict is not None and METHOD in inspect.signature(predict).parameters for predict in methods)


def has_masks(env: gym.Env[Any, Any]) -> bool:
    """Whether an environment says which of its choices are allowed."""
    return isinstance(env.action_space, CHOICES) and env.has_wrapper_attr(METHOD)


def mask_of(env: gym.Env[Any, Any]) -> NDArray[np.bool_]:
    """Returns which choices an environment allows now, (D,)."""
    return np.asarray(env.get_wrapper_attr(METHOD)(), dtype=bool).ravel()


def masks_of(envs: Sequence[gym.Env[Any, Any]], running: Collection[int]) -> NDArray[np.bool_]:
    """Returns which choices each environment allows, (B, D); all of them where an episode has ended.

    :param envs: the environments
    :param running: the places of those whose episode goes on, at least one
    """
    masks = {place: mask_of(envs[place]) for place in running}
    free = np.ones_like(next(iter(masks.values())))
    return np.stack([masks.get(place, free) for place in range(len(envs))])
