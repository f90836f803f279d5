"""The normalisation of observations by the `VecNormalize` of Stable-Baselines3 that a model was trained under."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

UNCLIPPED = 1e9  # for those that are not clipped, as a policy file wants a number


def normalizer_of(model: Any) -> Callable[[Any], Any]:
    """Returns the function that turns an environment's observations, one or a batch, into those that the model's
    `predict` expects.

    Only a model of Stable-Baselines3 needs this: a policy of `load_policy` normalises by itself, and a function reads
    the observations as they are.
    """
    wrapper = _wrapper_of(model)
    if wrapper is None:
        return _same
    normalize: Callable[[Any], Any] = wrapper.normalize_obs
    return normalize


def normalization_of(model: Any) -> dict[str, Any] | None:
    """Returns the settings and statistics of a model's `VecNormalize`; None for a model without one."""
    wrapper = _wrapper_of(model)
    if wrapper is None:
        return None
    entries = wrapper.obs_rms if isinstance(wrapper.obs_rms, dict) else {"": wrapper.obs_rms}
    statistics = {key: (np.array(entry.mean), np.array(entry.var)) for key, entry in entries.items()}
    return normalization(statistics, wrapper.epsilon, wrapper.clip_obs)


def normalization(statistics: dict[str, tuple[Any, Any]], epsilon: float, clip: float | None) -> dict[str, Any]:
    """Returns how a policy file says that observations are normalised.

    :param statistics: the mean and the variance for every normalised entry of a dictionary; for vectors the one key ""
    :param epsilon: added to the variances
    :param clip: normalised numbers are clipped to [-clip, clip]; None if they are not clipped
    """
    tensors = {}
    for key, (mean, var) in statistics.items():
        suffix = f".{key}" if key else ""
        tensors[f"normalize.mean{suffix}"] = torch.from_numpy(mean)
        tensors[f"normalize.var{suffix}"] = torch.from_numpy(var)
    return {
        "epsilon": epsilon,
        "clip": UNCLIPPED if clip is None else clip,
        "keys": sorted(statistics),
        "tensors": tensors,
    }


def _wrapper_of(model: Any) -> Any:
    """Returns the `VecNormalize` of a model if it normalises observations; None otherwise."""
    wrapper = model.get_vec_normalize_env() if hasattr(model, "get_vec_normalize_env") else None
    return wrapper if wrapper is not None and wrapper.norm_obs else None


def _same(observation: Any) -> Any:
    """Returns an observation as it is."""
    return observation
