"""Beginning a training with the actor of a trained policy instead of new weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from stable_baselines3.sac.policies import SACPolicy

from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_control.rl.policies.recurrent import NCPPolicy

ALGORITHMS = ("RecurrentPPO", "RecurrentA2C")
FIRST = "latent_pi.0.weight"  # of SAC's actor, which reads the observation
Weights = Mapping[str, torch.Tensor]
CIRCUIT = ("wiring", "cell", "cell_kwargs", "head")
CERTAIN = 1e9  # steps that known statistics of observations count as, so that further training hardly moves them


def circuit_arguments(start: LoadedPolicy, algo: str) -> dict[str, Any]:
    """Returns the arguments of `NCPPolicy` that make an actor with the shape of a trained one.

    :param start: the trained policy
    :param algo: the algorithm that is to train it further
    """
    policy = start.policy
    if algo == "SAC" and isinstance(policy, SACPolicy):
        return {}
    if algo not in ALGORITHMS or not isinstance(policy, NCPPolicy):
        raise ValueError(
            f"{start.name} holds the policy {type(policy).__name__} and the recipe's algo is {algo}: --start takes a "
            f"circuit of {' or '.join(ALGORITHMS)}, or one that was distilled, and goes on with one of them; "
            "SAC goes on with an actor of SAC"
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
    if isinstance(start.policy, SACPolicy):
        begin_actor(model, start)
        return
    for what in ("observation_space", "action_space"):
        there, here = getattr(start, what), getattr(model, what)
        if there != here:
            raise ValueError(
                f"{start.name} has the {what.replace('_', ' ')} {there}, and this environment {here}: choose the "
                f"environment that it was trained in, or one like it"
            )
    weights, trained = model.policy.state_dict(), start.policy.state_dict()
    critic = [name for name in weights if model.policy.is_critics(name)]
    skipped = [] if fit(trained, weights, critic) else critic
    copy_weights(trained, {name: value for name, value in weights.items() if name not in skipped}, start)
    set_normalization(model, start)


def begin_actor(model: Any, start: LoadedPolicy) -> None:
    """Gives a model of SAC the actor of a trained policy, and its critics if they have the same shapes.

    The actor may see more than the policy did, after what that saw. It begins without a look at the rest.
    """
    given, own = start.policy.actor.state_dict(), model.actor.state_dict()
    if FIRST in given and FIRST in own:
        more = own[FIRST].shape[1] - given[FIRST].shape[1]
        given[FIRST] = torch.nn.functional.pad(given[FIRST], (0, max(more, 0)))
    copy_weights(given, own, start)
    critics, own = start.policy.critic.state_dict(), model.critic.state_dict()  # a file may have none
    if fit(critics, own, own):
        for critic in (model.critic, model.critic_target):
            critic.load_state_dict(critics)
    set_normalization(model, start)


def fit(given: Weights, own: Weights, names: Iterable[str]) -> bool:
    """Whether the given weights have all of these names, in the shapes of a model's own."""
    return all(name in given and given[name].shape == own[name].shape for name in names)


def copy_weights(given: Weights, own: Weights, start: LoadedPolicy) -> None:
    """Copies the weights of a trained policy into a model's own, and refuses a policy that has others."""
    for name, value in own.items():
        if not fit(given, own, [name]):
            raise ValueError(f"the recipe makes another actor than {start.name} has: they differ in {name}")
        with torch.no_grad():
            value.copy_(given[name])


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
