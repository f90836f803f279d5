"""What Stable-Baselines3's `VecNormalize` does to the observations that a model was trained on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch


def normalizer_of(model: Any) -> Callable[[Any], Any]:
    """From observations as the environment has them, one or a batch, to those that the model's `predict` reads.

    Only a model of Stable-Baselines3 leaves that to others; a loaded policy normalises by itself, and functions know
    nothing of it.
    """
    wrapper = _wrapper_of(model)
    if wrapper is None:
        return _same
    normalize: Callable[[Any], Any] = wrapper.normalize_obs
    return normalize


def normalization_of(model: Any) -> dict[str, Any] | None:
    """What a model's `VecNormalize` does to observations: clip, epsilon, keys and tensors; None without one."""
    wrapper = _wrapper_of(model)
    if wrapper is None:
        return None
    found = wrapper.obs_rms if isinstance(wrapper.obs_rms, dict) else {"": wrapper.obs_rms}
    tensors = {}
    for key, statistics in found.items():
        suffix = f".{key}" if key else ""
        tensors[f"normalize.mean{suffix}"] = torch.from_numpy(np.array(statistics.mean))
        tensors[f"normalize.var{suffix}"] = torch.from_numpy(np.array(statistics.var))
    return {"epsilon": wrapper.epsilon, "clip": wrapper.clip_obs, "keys": sorted(found), "tensors": tensors}


def _wrapper_of(model: Any) -> Any:
    """The `VecNormalize` of a model, if it normalises observations; None otherwise."""
    wrapper = model.get_vec_normalize_env() if hasattr(model, "get_vec_normalize_env") else None
    return wrapper if wrapper is not None and wrapper.norm_obs else None


def _same(observation: Any) -> Any:
    """An observation as it is."""
    return observation
