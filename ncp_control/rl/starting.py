"""Beginning a training with the actor of a trained policy instead of new weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_control.rl.policies.recurrent import NCPPolicy

ALGORITHMS = ("RecurrentPPO", "RecurrentA2C")
CIRCUIT = ("wiring", "cell", "cell_kwargs", "head")
CERTAIN = 1e9  # steps that known statistics of observations count as, so that further training hardly moves them


def circuit_arguments(start: LoadedPolicy, algo: str) -> dict[str, Any]:
    """Returns the arguments of `NCPPolicy` that make an actor with the shape of a trained one.

    :param start: the trained policy
    :param algo: the algorithm that is to train it further
    """
    policy = start.policy
    if algo not in ALGORITHMS or not isinstance(policy, NCPPolicy):
        raise ValueError(
            f"{start.name} holds the policy {type(policy).__name__} and the recipe's algo is {algo}: --start takes a "
            f"circuit of {' or '.join(ALGORITHMS)}, or one that was distilled, and goes on with one of these algorithms"
        )
    return {
        **{key: policy.circuit_kwargs[key] for key in CIRCUIT},
        "net_arch": policy.net_arch, "activation_fn": policy.activation_fn,
    }  # fmt: skip


def begin_with(model: Any, start: LoadedPolicy) -> None:
    """Gives a new model the actor of a trained policy and its normalisation of observations.

    The critic is copied too if it has the same shape.

    :param model: a model with the actor that `circuit_arguments` describes
    :param start: the trained policy
    """
    for what in ("observation_space", "action_space"):
        there, here = getattr(start, what), getattr(model, what)
        if there != here:
            raise ValueError(
                f"{start.name} has the {what.replace('_', ' ')} {there}, and this environment {here}: choose the "
                f"environment that it was trained in, or one like it"
            )
    weights, trained = model.policy.state_dict(), start.policy.state_dict()
    critic = [name for name in weights if model.policy.is_critics(name)]
    same_critic = all(name in trained and trained[name].shape == weights[name].shape for name in critic)
    for name, value in weights.items():
        if name in critic and not same_critic:
            continue
        if name not in trained or trained[name].shape != value.shape:
            raise ValueError(f"the recipe makes another actor than {start.name} has: they differ in {name}")
        with torch.no_grad():
            value.copy_(trained[name])
    set_normalization(model, start)


def set_normalization(model: Any, start: LoadedPolicy) -> None:
    """Gives a model the statistics by which a trained policy normalises its observations."""
    wrapper, normalizer = model.get_vec_normalize_env(), start.normalizer
    normalizes = wrapper is not None and wrapper.norm_obs
    if normalizes != (normalizer is not None):
        raise ValueError(
            f"{start.name} {'normalises no' if normalizes else 'normalises its'} observations: set the recipe's "
            f"normalize to {'false' if normalizes else 'true'}"
        )
    if normalizer is None:
        return
    entries = wrapper.obs_rms if isinstance(wrapper.obs_rms, dict) else {"": wrapper.obs_rms}
    limits = {"epsilon": normalizer.epsilon, "clip_obs": normalizer.clip}
    if set(entries) != set(normalizer.statistics) or limits != {name: getattr(wrapper, name) for name in limits}:
        raise ValueError(
            f"{start.name} normalises {sorted(normalizer.statistics)} with {limits}, and the recipe "
            f"{sorted(entries)} with others: set the recipe's normalize to the same"
        )
    for key, statistics in entries.items():
        mean, var = normalizer.statistics[key]
        statistics.mean, statistics.var, statistics.count = np.array(mean), np.array(var), CERTAIN
