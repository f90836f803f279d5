"""The deterministic actions of plain MLP policies in NumPy, in a quarter of the time that torch takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.torch_layers import BatchRenorm1d
from sb3_contrib.crossq.policies import CrossQPolicy
from sb3_contrib.tqc.policies import TQCPolicy
from stable_baselines3.common.distributions import DiagGaussianDistribution
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.sac.policies import SACPolicy
from stable_baselines3.td3.policies import TD3Policy
from torch import nn

Array = NDArray[Any]
Layer = Callable[[Array], Array]


def numpy_actor(policy: Any) -> Layer | None:
    """Returns a function from a batch of observations (B, n) to what `policy.predict` returns, but for rounding.

    The function reads the policy's weights in place, so it follows their changes.

    :param policy: a policy of Stable-Baselines3 or sb3-contrib
    :return: None unless the policy is an MLP policy of PPO, A2C, SAC, TQC, CrossQ or TD3 on the CPU with vector
        observations and actions
    """
    seen, acted = policy.observation_space, policy.action_space
    modules = layers_of(policy)
    plain = (
        modules is not None
        and isinstance(seen, spaces.Box)
        and isinstance(acted, spaces.Box)
        and len(seen.shape) == len(acted.shape) == 1
        and policy.device.type == "cpu"
    )
    if not plain:
        return None
    functions = [_in_numpy(module) for module in flattened(cast("Iterable[nn.Module]", modules))]
    if None in functions:
        return None
    layers = cast("list[Layer]", functions)
    squashes = policy.squash_output

    def act(observations: Array) -> Array:
        features = np.asarray(observations, dtype=np.float32)
        for layer in layers:
            features = layer(features)
        features = np.ascontiguousarray(features)  # the layers leave it transposed in memory
        if squashes:
            actions: Array = acted.low + (0.5 * (features + 1.0) * (acted.high - acted.low))
            return actions
        clipped: Array = np.minimum(np.maximum(features, acted.low), acted.high)
        return clipped

    return act


def layers_of(policy: Any) -> Iterable[nn.Module] | None:
    """Returns the layers from vector observations to an MLP policy's deterministic actions; None for other policies."""
    # Only these classes themselves, because a class that extends one may compute something else.
    if type(policy) is ActorCriticPolicy:
        plain = type(policy.action_dist) is DiagGaussianDistribution and not policy.squash_output
        known = plain and type(policy.features_extractor) is FlattenExtractor
        return (*policy.mlp_extractor.policy_net, policy.action_net) if known else None
    if type(policy) in (SACPolicy, TQCPolicy, CrossQPolicy, TD3Policy):
        actor = policy.actor
        if type(actor.features_extractor) is not FlattenExtractor:
            return None
        return (actor.mu,) if type(policy) is TD3Policy else (actor.latent_pi, actor.mu, nn.Tanh())
    return None


def flattened(modules: Iterable[nn.Module]) -> list[nn.Module]:
    """Returns modules, with the parts of each `Sequential` in its place."""
    parts: list[nn.Module] = []
    for module in modules:
        parts += flattened(module) if isinstance(module, nn.Sequential) else [module]
    return parts


def _in_numpy(module: nn.Module) -> Layer | None:
    """Returns a layer as a function of NumPy arrays, or None for a layer of another kind."""
    if isinstance(module, nn.Linear) and module.bias is not None:
        weight, bias = module.weight.detach().numpy(), module.bias.detach().numpy()
        # For 16 rows this takes half the time of `features @ weight.T`, which reads the weights across their rows.
        return lambda features: (weight @ features.T).T + bias
    if isinstance(module, nn.Tanh):
        return np.tanh
    if isinstance(module, nn.ReLU):
        return lambda features: np.maximum(features, 0)
    if isinstance(module, nn.Hardtanh):  # around the mean actions of gSDE
        return lambda features: np.minimum(np.maximum(features, module.min_val), module.max_val)
    if isinstance(module, BatchRenorm1d):
        return _normalizing(module)
    return None


def _normalizing(layer: Any) -> Layer:
    """Returns the normalisation by a layer's running statistics, as in evaluation mode."""
    tensors = layer.ra_mean, layer.ra_var, layer.scale, layer.bias
    mean, var, scale, bias = (value.detach().numpy() for value in tensors)

    def normalize(features: Array) -> Array:
        normalized: Array = (features - mean) / np.sqrt(var + np.float32(layer.eps))
        return scale * normalized + bias if layer.affine else normalized

    return normalize
