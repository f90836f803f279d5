"""A trained Stable-Baselines3 policy in one safetensors file: no pickle, and the normalisation of its observations too.

The metadata holds the policy's class and arguments and its spaces as JSON; loading builds the policy from these and
fills in its weights.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.distributions import DiagGaussianDistribution
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.torch_layers import FlattenExtractor
from torch import nn

from ncp_control.safe_file import CheckpointError, read_tensors, write_tensors

FORMAT = "ncp_control.policy"
VERSION = 1
DESCRIBED = ("policy", "spaces", "normalize", "note")

POLICIES: dict[str, Any] = {"ActorCriticPolicy": ActorCriticPolicy}
ACTIVATIONS: dict[str, type[nn.Module]] = {"Tanh": nn.Tanh, "ReLU": nn.ReLU, "ELU": nn.ELU, "SiLU": nn.SiLU}
# The arguments of a policy that are JSON values as they are.
PLAIN = ("net_arch", "use_sde", "log_std_init", "full_std", "use_expln", "squash_output", "ortho_init")

Array = NDArray[Any]


def save_policy(model: BaseAlgorithm, path: str | Path, note: dict[str, Any] | None = None) -> None:
    """Writes the policy of a trained model, and its `VecNormalize`'s statistics if it has one.

    :param model: a PPO or A2C with an `MlpPolicy`
    :param path: the file, such as "teacher.safetensors"; replaced whole if it exists
    :param note: anything worth keeping with it (command, seed, score), as JSON values
    """
    policy = model.policy
    kind = type(policy).__name__
    if POLICIES.get(kind) is not type(policy):
        raise TypeError(f"save_policy writes {' or '.join(POLICIES)}, and this model has a {kind}")
    arguments = policy._get_constructor_parameters()
    activation = arguments["activation_fn"].__name__
    if activation not in ACTIVATIONS:
        raise TypeError(f"save_policy knows the activations {', '.join(ACTIVATIONS)}, not {activation}")
    settings = {"class": kind, "activation": activation, **{key: arguments[key] for key in PLAIN if key in arguments}}
    tensors = {f"policy.{name}": value for name, value in policy.state_dict().items()}
    normalize = None
    wrapper = model.get_vec_normalize_env()
    if wrapper is not None and wrapper.norm_obs:
        if not isinstance(wrapper.obs_rms, RunningMeanStd):
            raise TypeError("save_policy keeps the normalisation of vector observations, not of dictionaries")
        normalize = {"epsilon": wrapper.epsilon, "clip": wrapper.clip_obs}
        tensors["normalize.mean"] = torch.from_numpy(np.array(wrapper.obs_rms.mean))
        tensors["normalize.var"] = torch.from_numpy(np.array(wrapper.obs_rms.var))
    described = {
        "policy": json.dumps(settings),
        "spaces": json.dumps([space_to_json(policy.observation_space), space_to_json(policy.action_space)]),
        "normalize": json.dumps(normalize),
        "note": json.dumps(note or {}),
    }
    write_tensors(path, FORMAT, VERSION, described, tensors)


def load_policy(path: str | Path, device: str | torch.device = "cpu") -> LoadedPolicy:
    """Reads a policy that `save_policy` wrote; a file that is truncated, altered or foreign is refused."""
    metadata, tensors = read_tensors(path, FORMAT, VERSION, DESCRIBED, "ncp_control.rl.save_policy")
    weights = {name.removeprefix("policy."): value for name, value in tensors.items() if name.startswith("policy.")}
    try:
        settings = json.loads(metadata["policy"])
        observation_space, action_space = (space_from_json(space) for space in json.loads(metadata["spaces"]))
        arguments = {key: settings[key] for key in PLAIN if key in settings}
        with torch.random.fork_rng(devices=[]):
            policy = POLICIES[settings["class"]](
                observation_space,
                action_space,
                lambda _: 0.0,
                activation_fn=ACTIVATIONS[settings["activation"]],
                **arguments,
            )
        policy.load_state_dict(weights)
        normalize = json.loads(metadata["normalize"])
        mean_and_var = None
        if normalize is not None:
            mean_and_var = tensors["normalize.mean"].numpy(), tensors["normalize.var"].numpy()
    except (KeyError, ValueError, TypeError, RuntimeError) as error:
        raise CheckpointError(f"{path} describes a policy that cannot be built: {error}") from error
    policy.set_training_mode(False)
    name = Path(path).name.removesuffix(".safetensors")
    return LoadedPolicy(
        policy.to(device), mean_and_var, normalize or {}, name, metadata["sha256"], json.loads(metadata["note"])
    )


class LoadedPolicy:
    """A policy ready to act on raw observations, with the `predict` of Stable-Baselines3's models.

    :ivar policy: the Stable-Baselines3 policy, which sees normalised observations
    :ivar name: the file's name without its ending
    :ivar sha256: the file's checksum
    :ivar note: what the writer left in it
    """

    def __init__(
        self,
        policy: ActorCriticPolicy,
        mean_and_var: tuple[Array, Array] | None,
        normalize: dict[str, float],
        name: str,
        sha256: str,
        note: dict[str, Any],
    ) -> None:
        self.policy, self.name, self.sha256, self.note = policy, name, sha256, note
        self._normalize = normalize
        self._layers = layers_of(policy)
        self._mean, self._scale = None, None
        if mean_and_var is not None:
            self._mean, self._scale = mean_and_var[0], np.sqrt(mean_and_var[1] + normalize["epsilon"])

    @property
    def normalizes(self) -> bool:
        """Whether it normalises its observations."""
        return self._mean is not None

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """Of the environment that it was trained in."""
        return self.policy.observation_space

    @property
    def action_space(self) -> spaces.Space[Any]:
        """Of the environment that it was trained in."""
        return self.policy.action_space

    def normalize(self, observation: Array) -> Array:
        """The observations as the policy sees them: `clip((x - mean) / sqrt(var + epsilon))`."""
        if self._mean is None or self._scale is None:
            return observation
        clip = self._normalize["clip"]
        return np.clip((observation - self._mean) / self._scale, -clip, clip).astype(np.float32)

    def predict(
        self,
        observation: Array,
        state: tuple[Array, ...] | None = None,
        episode_start: Array | None = None,
        deterministic: bool = True,
    ) -> tuple[Array, tuple[Array, ...] | None]:
        """Actions for one observation or a batch of them."""
        seen = self.normalize(observation)
        if deterministic and self._layers is not None and np.shape(seen)[1:] == self.policy.observation_space.shape:
            return self._mode(seen), state
        return self.policy.predict(seen, state, episode_start, deterministic)

    def _mode(self, seen: Array) -> Array:
        """What `policy.predict` gives for a batch, in NumPy: a quarter of the time, the same but for rounding."""
        space = self.policy.action_space
        assert isinstance(space, spaces.Box)
        assert self._layers is not None
        features = np.asarray(seen, dtype=np.float32)
        for layer in self._layers:
            features = layer(features)
        return np.minimum(np.maximum(features, space.low), space.high)


def layers_of(policy: ActorCriticPolicy) -> list[Callable[[Array], Array]] | None:
    """The mean action of a Gaussian policy on vectors as NumPy functions, whose weights are the policy's own memory;
    None for another policy, whose `predict` has to do.
    """
    seen, acted = policy.observation_space, policy.action_space
    plain = (
        type(policy.action_dist) is DiagGaussianDistribution
        and type(policy) is ActorCriticPolicy
        and type(policy.features_extractor) is FlattenExtractor
        and isinstance(seen, spaces.Box)
        and isinstance(acted, spaces.Box)
        and len(seen.shape) == len(acted.shape) == 1
        and policy.device.type == "cpu"
    )
    if not plain:
        return None
    modules = [*policy.mlp_extractor.policy_net, policy.action_net]
    layers = [layer_of(module) for module in modules]
    return None if None in layers else cast("list[Callable[[Array], Array]]", layers)


def layer_of(module: nn.Module) -> Callable[[Array], Array] | None:
    """One layer as a NumPy function, or None."""
    if isinstance(module, nn.Linear):
        weight, bias = module.weight.detach().numpy().T, module.bias.detach().numpy()
        return lambda features: features @ weight + bias
    if isinstance(module, nn.Tanh):
        return np.tanh
    if isinstance(module, nn.ReLU):
        return lambda features: np.maximum(features, 0)
    return None


def space_to_json(space: spaces.Space[Any]) -> dict[str, Any]:
    """A Box or a Discrete space as JSON values; infinite bounds as null."""
    if isinstance(space, spaces.Box):
        low, high = ([float(x) if np.isfinite(x) else None for x in bound.ravel()] for bound in (space.low, space.high))
        return {"type": "Box", "low": low, "high": high, "shape": list(space.shape), "dtype": str(space.dtype)}
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    raise TypeError(f"save_policy knows Box and Discrete spaces, not {space}")


def space_from_json(described: dict[str, Any]) -> spaces.Space[Any]:
    """What `space_to_json` wrote."""
    if described["type"] == "Discrete":
        return spaces.Discrete(described["n"], start=described["start"])
    low, high = (
        np.array([infinite if x is None else x for x in described[side]], dtype=described["dtype"])
        for side, infinite in (("low", -np.inf), ("high", np.inf))
    )
    shape = tuple(described["shape"])
    return spaces.Box(low.reshape(shape), high.reshape(shape), dtype=np.dtype(described["dtype"]).type)
