"""Whoever chooses the actions of a rollout, behind one interface: several episodes at once, one call a step."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from ncp_control.data.collection import spawned_seed
from ncp_control.data.normalizing import normalization_of, normalizer_of
from ncp_control.storage.safe_tensors import hash_of_tensors

Array = NDArray[Any]


class Controller(Protocol):
    """Chooses actions for several episodes, step by step.

    :ivar name: short, for the name of a dataset
    :ivar sha256: of what determines its actions, or None where that cannot be told
    """

    name: str
    sha256: str | None

    def begin(self, seeds: Sequence[int]) -> None:
        """New episodes start, one a seed; what is random in the controller follows from these seeds."""

    def act(self, observations: Array) -> Array:
        """Actions (B, ...) for observations (B, ...), of the episodes that `begin` was told of, in their order."""


class RandomController:
    """Actions drawn uniformly, each episode's from its own stream."""

    name = "random"
    sha256: str | None = None

    def __init__(self, action_space: gym.Space[Any]) -> None:
        self._space = action_space
        self._spaces: list[gym.Space[Any]] = []

    def begin(self, seeds: Sequence[int]) -> None:
        """A stream for each episode."""
        self._spaces = [copy.deepcopy(self._space) for _ in seeds]
        for space, seed in zip(self._spaces, seeds, strict=True):
            space.seed(spawned_seed(seed, 1))

    def act(self, observations: Array) -> Array:
        """A draw for each episode."""
        return np.stack([space.sample() for space in self._spaces])


class PredictController:
    """A model with Stable-Baselines3's `predict(observation, state, episode_start, deterministic)`; what its
    `VecNormalize` does to observations is done here too.
    """

    def __init__(self, model: Any, name: str | None, deterministic: bool) -> None:
        self.name = name or getattr(model, "name", None) or type(model).__name__.lower()
        self.sha256 = getattr(model, "sha256", None) or hash_of_weights(model)
        self._model, self._deterministic, self._normalize = model, deterministic, normalizer_of(model)
        self._state: Any = None
        self._starts: Array = np.ones(0, dtype=bool)

    def begin(self, seeds: Sequence[int]) -> None:
        """Forget the recurrent state; what the model draws follows from the first seed."""
        self._state, self._starts = None, np.ones(len(seeds), dtype=bool)
        torch.manual_seed(seeds[0])

    def act(self, observations: Array) -> Array:
        """One batched call of `predict`."""
        actions, self._state = self._model.predict(
            self._normalize(observations),
            state=self._state,
            episode_start=self._starts,
            deterministic=self._deterministic,
        )
        self._starts = np.zeros(len(observations), dtype=bool)
        return np.asarray(actions)


class FunctionController:
    """A function from observations (B, ...) to actions (B, ...), without memory."""

    def __init__(self, function: Callable[[Array], Any], name: str | None) -> None:
        self.sha256 = hash_of_function(function)
        self.name = name or getattr(function, "__name__", type(function).__name__).strip("<>")
        self._function = function

    def begin(self, seeds: Sequence[int]) -> None:
        """Whatever the function draws with torch follows from the first seed."""
        torch.manual_seed(seeds[0])

    def act(self, observations: Array) -> Array:
        """One call."""
        return np.asarray(self._function(observations))


def as_controller(
    policy: Any, action_space: gym.Space[Any], name: str | None = None, deterministic: bool = True
) -> Controller:
    """Makes a `Controller` of "random", of anything with `predict`, of a function, or of a controller.

    :param policy: what chooses the actions
    :param action_space: of one environment
    :param name: what to call it; by default it says itself
    :param deterministic: of a model with `predict`, its mode rather than a sample
    """
    if isinstance(policy, str):
        if policy != "random":
            raise ValueError(f"unknown policy {policy!r}: give 'random', a model with predict, or a function")
        return RandomController(action_space)
    if hasattr(policy, "begin") and hasattr(policy, "act"):
        found: Controller = policy
        return found
    if hasattr(policy, "predict"):
        return PredictController(policy, name, deterministic)
    if callable(policy):
        return FunctionController(policy, name)
    raise TypeError(f"a policy is 'random', a model with predict, or a function, not {type(policy).__name__}")


def check_actions(actions: Array, space: gym.Space[Any], count: int, step: int) -> None:
    """Refuses what a policy must not give: the first step in full, later ones for what may change on the way.

    :param actions: should be (B, ...)
    :param space: of one action
    :param count: how many observations the policy was given, B
    :param step: of the episodes, for messages
    """
    if actions.shape != (count, *(space.shape or ())):
        raise ValueError(
            f"the policy gave actions of shape {actions.shape} for {count} observations at step {step}: "
            f"they should be {(count, *(space.shape or ()))}"
        )
    if isinstance(space, gym.spaces.Discrete):
        fine = np.issubdtype(actions.dtype, np.integer) and (actions >= space.start) & (actions < space.start + space.n)
    else:
        fine = np.issubdtype(actions.dtype, np.number) and np.isfinite(actions)
    if not np.all(fine):
        wrong = actions if np.ndim(fine) == 0 else actions[~np.asarray(fine)]
        raise ValueError(f"the policy gave {wrong.flat[0]} at step {step}, which is no action of {space}")


def hash_of_weights(model: Any) -> str | None:
    """SHA-256 over the names, shapes and bytes of a model's weights, and of what normalises its observations; None for
    one without any.
    """
    module = getattr(model, "policy", model)
    if not isinstance(module, torch.nn.Module):
        return None
    tensors, normalize = dict(module.state_dict()), normalization_of(model)
    if normalize is not None:
        limits = torch.tensor([normalize["epsilon"], normalize["clip"]], dtype=torch.float64)
        tensors |= normalize["tensors"] | {"normalize.limits": limits}
    return hash_of_tensors(tensors)


def hash_of_function(function: Any) -> str | None:
    """SHA-256 over what a plain function does: its code, constants, defaults and what it closes over; None where that
    cannot be told. Globals that it reads are not looked at.
    """
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    digest = hashlib.sha256()
    try:
        enclosed = [cell.cell_contents for cell in function.__closure__ or ()]
        for part in (code, function.__defaults__, function.__kwdefaults__, enclosed):
            _add(digest, part)
    except (TypeError, ValueError):  # something without an obvious value, or a variable that has none yet
        return None
    return digest.hexdigest()


def _add(digest: Any, part: Any) -> None:
    """A constant, or a collection of them; TypeError for what is neither."""
    if isinstance(part, CodeType):
        _add(digest, (part.co_code, part.co_names, part.co_varnames, part.co_freevars, part.co_consts))
    elif isinstance(part, list | tuple):
        digest.update(f"{len(part)}(".encode())
        for one in part:
            _add(digest, one)
    elif isinstance(part, dict):
        _add(digest, (*part, *part.values()))
    elif isinstance(part, np.ndarray) and part.dtype != object:
        digest.update(f"{part.dtype} {part.shape} ".encode() + part.tobytes())
    elif part is None or part is ... or isinstance(part, int | float | complex | str | bytes):
        digest.update(f"{type(part).__name__} {part!r} ".encode())
    else:
        raise TypeError(type(part).__name__)
