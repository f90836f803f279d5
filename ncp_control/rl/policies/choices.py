"""Choices that are not counted from zero, as in `Discrete(3, start=5)`.

Networks and distributions count choices from zero. Observed choices are therefore shifted before a network reads them,
and chosen ones after a distribution returns them, so that everybody else sees the environment's own numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.distributions import CategoricalDistribution, Distribution, MultiCategoricalDistribution
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import Tensor

from ncp_control.rl.policies.checks import check_alone


def first_choice(space: spaces.Space[Any]) -> Any:
    """Returns the number from which a space counts its choices, or one for each choice; None where that is zero."""
    if not isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return None
    return space.start if np.any(space.start) else None


def from_zero(observations: Any, space: spaces.Space[Any]) -> Any:
    """Returns observations whose choices are counted from zero.

    :param observations: a tensor (B, ...), or a dictionary of them
    :param space: their space
    """
    if isinstance(space, spaces.Dict):
        return {key: from_zero(values, space[key]) for key, values in observations.items()}
    first = first_choice(space)
    return observations if first is None else observations - torch.as_tensor(first, device=observations.device)


class ChoicesFromZero(BasePolicy):
    """A policy whose networks read choices counted from zero; stands behind an actor-critic policy among its bases."""

    def obs_to_tensor(self, observation: Any) -> tuple[PyTorchObs, bool]:
        """Converts an observation as Stable-Baselines3 does; refuses what a Gymnasium environment's reset returns."""
        check_alone(observation)
        return super().obs_to_tensor(observation)

    def extract_features(self, obs: PyTorchObs, features_extractor: BaseFeaturesExtractor) -> Tensor:
        """Extracts features as Stable-Baselines3 does."""
        return super().extract_features(from_zero(obs, self.observation_space), features_extractor)


class _Shifted:
    """A distribution over the environment's own numbers, made of one over choices that are counted from zero."""

    first: Any = 0

    def sample(self: Any) -> Tensor:
        return self._shift(super().sample(), 1)  # type: ignore[misc, no-any-return]

    def mode(self: Any) -> Tensor:
        return self._shift(super().mode(), 1)  # type: ignore[misc, no-any-return]

    def log_prob(self: Any, actions: Tensor) -> Tensor:
        return super().log_prob(self._shift(actions, -1))  # type: ignore[misc, no-any-return]

    def _shift(self, actions: Tensor, sign: int) -> Tensor:
        # made anew each time, because a distribution does not move to a device with its policy
        return actions + sign * torch.as_tensor(self.first, device=actions.device)


class _ShiftedCategorical(_Shifted, CategoricalDistribution):
    pass


class _ShiftedMultiCategorical(_Shifted, MultiCategoricalDistribution):
    pass


def from_first_choice(distribution: Distribution, space: spaces.Space[Any]) -> Distribution:
    """Returns the distribution over a space's own numbers.

    :param distribution: a policy's distribution, which counts choices from zero
    :param space: the action space
    """
    first = first_choice(space)
    if first is None:
        return distribution
    if isinstance(space, spaces.Discrete):
        shifted: Any = _ShiftedCategorical(int(space.n))
    else:
        shifted = _ShiftedMultiCategorical(list(space.nvec))  # type: ignore[attr-defined]
    shifted.first = first
    made: Distribution = shifted
    return made
