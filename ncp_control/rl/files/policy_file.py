"""A trained Stable-Baselines3 policy in one safetensors file: no pickle, and the normalisation of its observations too.

The metadata holds the policy's class and arguments and its spaces as JSON; loading builds the policy from these and
fills in its weights.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3 import dqn, sac, td3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.distributions import DiagGaussianDistribution
from stable_baselines3.common.policies import ActorCriticPolicy, MultiInputActorCriticPolicy
from stable_baselines3.common.torch_layers import CombinedExtractor, FlattenExtractor
from torch import nn

from ncp_control.cells import CELLS, Cell, named_cell
from ncp_control.cells.named import IN_FILES
from ncp_control.data.normalizing import normalization_of
from ncp_control.rl.circuit_log import actor_circuit
from ncp_control.rl.files.space_json import space_from_json, space_to_json
from ncp_control.rl.policies.extractor import NCPExtractor
from ncp_control.rl.policies.predict_checks import check_observation
from ncp_control.rl.policies.recurrent import NCPPolicy
from ncp_control.rl.policies.sequence import SACSequencePolicy, TD3SequencePolicy
from ncp_control.storage.descriptions import building, most_numbers, read_object
from ncp_control.storage.safe_tensors import read_tensors, write_tensors
from ncp_control.wiring import Wiring

FORMAT = "ncp_control.policy"
VERSION = 1
DESCRIBED = ("policy", "spaces", "normalize", "note")

POLICIES: dict[str, Any] = {
    "ActorCriticPolicy": ActorCriticPolicy,
    "MultiInputActorCriticPolicy": MultiInputActorCriticPolicy,
    "NCPPolicy": NCPPolicy,
    "DQNPolicy": dqn.MlpPolicy,
    "DQNMultiInputPolicy": dqn.MultiInputPolicy,
    "SACPolicy": sac.MlpPolicy,
    "SACMultiInputPolicy": sac.MultiInputPolicy,
    "SACSequencePolicy": SACSequencePolicy,
    "TD3Policy": td3.MlpPolicy,
    "TD3MultiInputPolicy": td3.MultiInputPolicy,
    "TD3SequencePolicy": TD3SequencePolicy,
}
# The slow copies that training alone needs, and what they are copies of.
TARGETS = {"actor_target": "actor", "critic_target": "critic", "q_net_target": "q_net"}
ACTIVATIONS: dict[str, type[nn.Module]] = {"Tanh": nn.Tanh, "ReLU": nn.ReLU, "ELU": nn.ELU, "SiLU": nn.SiLU}
# The arguments of a policy that are JSON values as they are.
PLAIN = (
    "net_arch", "use_sde", "log_std_init", "full_std", "use_expln", "squash_output", "ortho_init", "clip_mean",
    "n_critics", "cell", "cell_kwargs", "critic", "critic_units", "head", "share_features_extractor",
)  # fmt: skip

Array = NDArray[Any]


def save_policy(model: BaseAlgorithm, path: str | Path, note: dict[str, Any] | None = None) -> None:
    """Writes the policy of a trained model, and its `VecNormalize`'s statistics if it has one.

    :param model: an algorithm of Stable-Baselines3 with an `MlpPolicy` or a `MultiInputPolicy`, `NCPExtractor` in it or
        not, or a recurrent one of this package
    :param path: the file, such as "teacher.safetensors"; replaced whole if it exists
    :param note: anything worth keeping with it (command, seed, score), as JSON values

    A cell of one's own is written by its class's name: `load_policy(path, cells=[Shunting])` reads it.
    """
    policy = model.policy
    settings = settings_of(policy)
    tensors = {f"policy.{name}": value for name, value in kept_of(policy).items()}
    normalize = normalization_of(model)
    if normalize is not None:
        tensors |= normalize.pop("tensors")
    described = {
        "policy": json.dumps(settings),
        "spaces": json.dumps([space_to_json(policy.observation_space), space_to_json(policy.action_space)]),
        "normalize": json.dumps(normalize),
        "note": json.dumps(note or {}),
    }
    write_tensors(path, FORMAT, VERSION, described, tensors)


def kept_of(policy: nn.Module) -> dict[str, torch.Tensor]:
    """A policy's tensors by name, each once, and no target network's."""
    found, seen = {}, set()
    for name, value in policy.state_dict().items():
        place = value.data_ptr() if value.numel() else name
        if name.split(".")[0] not in TARGETS and place not in seen:
            seen.add(place)
            found[name] = value
    return found


def fill(policy: Any, weights: dict[str, torch.Tensor]) -> None:
    """Gives a policy what `kept_of` gave; refused if it is not all of that."""
    wanted = set(kept_of(policy))
    if wanted != set(weights):
        raise ValueError(f"it has other tensors than the policy, such as {min(wanted ^ set(weights))}")
    policy.load_state_dict(weights, strict=False)
    for target, source in TARGETS.items():
        if hasattr(policy, target):
            getattr(policy, target).load_state_dict(getattr(policy, source).state_dict())


def settings_of(policy: Any) -> dict[str, Any]:
    """A policy's class and arguments as JSON values; refused where they are more than that."""
    name = next((name for name, kind in POLICIES.items() if kind is type(policy)), None)
    if name is None:
        raise TypeError(f"save_policy writes {', '.join(POLICIES)}, and this model has a {type(policy).__name__}")
    arguments = policy._get_constructor_parameters()
    activation = arguments["activation_fn"].__name__
    if activation not in ACTIVATIONS:
        raise TypeError(f"save_policy knows the activations {', '.join(ACTIVATIONS)}, not {activation}")
    settings = {"class": name, "activation": activation, **{key: arguments[key] for key in PLAIN if key in arguments}}
    circuit, extractor = actor_circuit(policy), policy.features_extractor_class
    if extractor is NCPExtractor:
        given = policy.features_extractor_kwargs
        settings["extractor"] = {**given, "wiring": wiring_of(given, circuit), **cell_of(given)}
    elif extractor not in (FlattenExtractor, CombinedExtractor):
        raise TypeError(
            f"save_policy knows NCPExtractor and the extractors of vectors and dictionaries, not {extractor.__name__}"
        )
    if "wiring" in arguments:
        settings |= {"wiring": wiring_of(arguments, circuit), **cell_of(arguments)}
    return settings


def cell_of(arguments: dict[str, Any]) -> dict[str, str]:
    """The cell by its name, under which a class of one's own is looked up on loading."""
    cell = arguments.get("cell", "ltc")
    if isinstance(cell, str):
        return {"cell": cell}
    if cell not in CELLS and cell.__name__ in [own.__name__ for own in CELLS]:
        raise ValueError(f"a file names cells, and {cell.__name__} is a cell of ncp_control too: rename {cell!r}")
    return {"cell": cell.__name__}


def wiring_of(arguments: dict[str, Any], circuit: Any) -> int | str:
    """A number of neurons, or the wiring as it was built: a file does not depend on how plans are built later."""
    wiring = arguments.get("wiring")
    if isinstance(wiring, int):
        return wiring
    text: str = circuit.cell.wiring.to_json()
    return text


def policy_from(
    settings: dict[str, Any], observation_space: Any, action_space: Any, most: int, cells: Iterable[type[Cell]]
) -> Any:
    """What `settings_of` described, freshly initialised; refused where it takes more numbers than `most`."""
    arguments = {key: settings[key] for key in PLAIN if key in settings}
    if "cell" in arguments:
        arguments["cell"] = named_cell(arguments["cell"], cells, IN_FILES)
    read_wiring(settings.get("critic_units", 1), most)
    if "wiring" in settings:
        arguments["wiring"] = read_wiring(settings["wiring"], most)
    if "extractor" in settings:
        given = settings["extractor"]
        arguments["features_extractor_class"] = NCPExtractor
        arguments["features_extractor_kwargs"] = {
            **given,
            "wiring": read_wiring(given["wiring"], most),
            "cell": named_cell(given.get("cell", "ltc"), cells, IN_FILES),
        }
    activation = ACTIVATIONS[settings["activation"]]
    kind = POLICIES[settings["class"]]
    return kind(observation_space, action_space, lambda _: 0.0, activation_fn=activation, **arguments)


def read_wiring(written: int | str, most: int) -> int | Wiring:
    """What `wiring_of` gave; refused where it is a number of neurons whose synapses alone are more than `most`."""
    if isinstance(written, int) and written**2 > most:
        raise ValueError(f"{written} fully connected neurons are far more than the file holds")
    return written if isinstance(written, int) else Wiring.from_json(written)


def with_note(source: str | Path, path: str | Path, note: dict[str, Any]) -> None:
    """Writes a policy's file once more, with another note in it."""
    metadata, tensors = read_tensors(source, FORMAT, VERSION, DESCRIBED, "ncp_control.rl.save_policy")
    described = {key: metadata[key] for key in DESCRIBED} | {"note": json.dumps(note)}
    write_tensors(path, FORMAT, VERSION, described, tensors)


def load_policy(path: str | Path, device: str | torch.device = "cpu", cells: Iterable[type[Cell]] = ()) -> LoadedPolicy:
    """Reads a policy that `save_policy` wrote; a file that is truncated, altered or foreign is refused.

    :param path: the file
    :param device: where the policy goes
    :param cells: classes of your own that the file may name
    """
    metadata, tensors = read_tensors(path, FORMAT, VERSION, DESCRIBED, "ncp_control.rl.save_policy")
    weights = {name.removeprefix("policy."): value for name, value in tensors.items() if name.startswith("policy.")}
    most = most_numbers(tensors)
    with building(path, "a policy that cannot be built", tensors):
        settings = read_object(metadata["policy"])
        observation_space, action_space = (space_from_json(space, most) for space in json.loads(metadata["spaces"]))
        policy = policy_from(settings, observation_space, action_space, most, cells)
        fill(policy, weights)
        normalize = json.loads(metadata["normalize"])
        normalizer = None if normalize is None else Normalizer.read(normalize, tensors, observation_space)
        note = read_object(metadata["note"])
        policy.set_training_mode(False)
        name = Path(path).name.removesuffix(".safetensors")
        return LoadedPolicy(policy.to(device), normalizer, name, metadata["sha256"], note)


class Normalizer:
    """What `VecNormalize` does to observations: `clip((x - mean) / sqrt(var + epsilon))`.

    :param statistics: mean and variance of each entry of a dictionary that is normalised; of "", for vectors
    :ivar scales: of each of these, the mean and what the difference to it is divided by
    :ivar clip: nothing leaves [-clip, clip]
    """

    def __init__(self, statistics: dict[str, tuple[Array, Array]], epsilon: float, clip: float) -> None:
        self.clip = clip
        self.scales = {key: (mean, np.sqrt(var + epsilon)) for key, (mean, var) in statistics.items()}

    @classmethod
    def read(cls, described: dict[str, Any], tensors: dict[str, torch.Tensor], space: Any) -> Normalizer:
        """From what `normalization_of` gave, of observations in a space."""
        statistics = {}
        keys = described.get("keys", [""])
        if not isinstance(space, spaces.Dict) and keys != [""]:
            raise ValueError(f"the entries {keys} are normalised, and the observations are vectors")
        for key in keys:
            suffix = f".{key}" if key else ""
            mean, var = (tensors[f"normalize.{name}{suffix}"].numpy() for name in ("mean", "var"))
            shape = (space[key] if key else space).shape
            if mean.shape != shape or var.shape != shape:
                raise ValueError(f"{shape} observations are normalised by {mean.shape} and {var.shape} numbers")
            statistics[key] = mean, var
        return cls(statistics, float(described["epsilon"]), float(described["clip"]))

    def __call__(self, observation: Any) -> Any:
        """The observations as the policy sees them."""
        if not isinstance(observation, dict):
            return self._one("", observation)
        return {
            key: self._one(key, value) if key in self.scales else value for key, value in observation.items()
        }  # fmt: skip

    def _one(self, key: str, values: Array) -> Array:
        mean, scale = self.scales[key]
        return np.clip((values - mean) / scale, -self.clip, self.clip).astype(np.float32)


class LoadedPolicy:
    """A policy ready to act on raw observations, with the `predict` of Stable-Baselines3's models.

    :ivar policy: the Stable-Baselines3 policy, which sees normalised observations
    :ivar normalizer: what normalises them, or None
    :ivar name: the file's name without its ending
    :ivar sha256: the file's checksum
    :ivar note: what the writer left in it
    """

    def __init__(
        self,
        policy: Any,
        normalizer: Normalizer | None,
        name: str,
        sha256: str,
        note: dict[str, Any],
    ) -> None:
        self.policy, self.name, self.sha256, self.note = policy, name, sha256, note
        self.normalizer = normalizer
        self._layers = layers_of(policy)

    @property
    def normalizes(self) -> bool:
        """Whether it normalises its observations."""
        return self.normalizer is not None

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """Of the environment that it was trained in."""
        found: spaces.Space[Any] = self.policy.observation_space
        return found

    @property
    def action_space(self) -> spaces.Space[Any]:
        """Of the environment that it was trained in."""
        found: spaces.Space[Any] = self.policy.action_space
        return found

    def normalize(self, observation: Any) -> Any:
        """The observations as the policy sees them."""
        return observation if self.normalizer is None else self.normalizer(observation)

    def predict(
        self,
        observation: Any,
        state: tuple[Array, ...] | None = None,
        episode_start: Array | None = None,
        deterministic: bool = True,
    ) -> tuple[Array, tuple[Array, ...] | None]:
        """Actions for one observation or a batch of them, and the state of a policy with a memory: hand it over with
        the next observation.

        :param observation: as the environment shows it, or those of n environments
        :param state: what the last call returned; None where episodes begin
        :param episode_start: (n,), true where an episode begins, so that the state is forgotten
        :param deterministic: the mode of the actions, as a policy from a file is there to act; Stable-Baselines3's own
            `predict` draws them by default
        """
        check_observation(observation, self.observation_space)
        seen = self.normalize(observation)
        if deterministic and self._layers is not None and np.shape(seen)[1:] == self.policy.observation_space.shape:
            return self._mode(seen), state
        actions, after = self.policy.predict(seen, state, episode_start, deterministic)
        return actions, after

    def _mode(self, seen: Array) -> Array:
        """What `policy.predict` gives for a batch, in NumPy: a quarter of the time, the same but for rounding."""
        space = self.policy.action_space
        assert isinstance(space, spaces.Box)
        assert self._layers is not None
        features = np.asarray(seen, dtype=np.float32)
        for layer in self._layers:
            features = layer(features)
        return np.minimum(np.maximum(features, space.low), space.high)


def layers_of(policy: Any) -> list[Callable[[Array], Array]] | None:
    """The mean action of a Gaussian policy on vectors as NumPy functions, whose weights are the policy's own memory;
    None for another policy, whose `predict` has to do.
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
