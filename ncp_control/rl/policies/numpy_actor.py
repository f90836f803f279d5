"""The deterministic actions of a plain MLP policy in NumPy, in a quarter of the time that torch takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.distributions import DiagGaussianDistribution
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import FlattenExtractor
from torch import nn

Array = NDArray[Any]
Layer = Callable[[Array], Array]


def numpy_actor(policy: Any) -> Layer | None:
    """Returns a function from a batch of observations (B, n) to what `policy.predict` returns, but for rounding.

    The function reads the policy's weights in place, so it follows their changes.

    :param policy: a policy of Stable-Baselines3
    :return: None unless the policy is a Gaussian MLP policy on the CPU with vector observations and actions
    """
    seen, acted = policy.observation_space, policy.action_space
    plain = (
        type(policy) is ActorCriticPolicy
        and type(policy.action_dist) is DiagGaussianDistribution
        and type(policy.features_extractor) is FlattenExtractor
        and isinstance(seen, spaces.Box)
        and isinstance(acted, spaces.Box)
        and len(seen.shape) == len(acted.shape) == 1
        and policy.device.type == "cpu"
    )
    if not plain:
        return None
    found = [_in_numpy(module) for module in (*policy.mlp_extractor.policy_net, policy.action_net)]
    if None in found:
        return None
    layers = cast("list[Layer]", found)

    def act(observations: Array) -> Array:
        features = np.asarray(observations, dtype=np.float32)
        for layer in layers:
            features = layer(features)
        clipped: Array = np.minimum(np.maximum(features, acted.low), acted.high)
        return clipped

    return act


def _in_numpy(module: nn.Module) -> Layer | None:
    """Returns a layer as a function of NumPy arrays, or None for a layer of another kind."""
    if isinstance(module, nn.Linear):
        weight, bias = module.weight.detach().numpy().T, module.bias.detach().numpy()
        return lambda features: features @ weight + bias
    if isinstance(module, nn.Tanh):
        return np.tanh
    if isinstance(module, nn.ReLU):
        return lambda features: np.maximum(features, 0)
    return None
