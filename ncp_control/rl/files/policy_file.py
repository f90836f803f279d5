"""A trained Stable-Baselines3 policy in one safetensors file, with the normalisation of its observations.

The metadata holds the policy's class, arguments and spaces as JSON; loading makes the policy from these and fills in
its weights. `"critics": false` among the arguments says that the file holds the actor only. The file contains no
pickle, so loading it runs no code.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from gymnasium.envs.registration import EnvSpec
from stable_baselines3.common.base_class import BaseAlgorithm
from torch import nn

from ncp_control.base.files import name_of
from ncp_control.base.notes import read_note, read_object, write_note
from ncp_control.base.tensors import building, described_in, read_tensors, write_tensors
from ncp_control.data.normalizing import normalization_of
from ncp_control.neurons import Cell
from ncp_control.rl.files.loaded_policy import LoadedPolicy, MissingCritic, NoCritic, Normalizer
from ncp_control.rl.files.policy_json import (
    as_actor_only,
    policy_from_json,
    policy_to_json,
    space_from_json,
    space_to_json,
)

FORMAT = "ncp_control.policy"
VERSION = 1
DESCRIBED = ("policy", "spaces", "normalize", "note")
MONITOR = "stable_baselines3.common.monitor:Monitor"
# The target networks, which only training needs, and the networks that they follow.
TARGETS = {"actor_target": "actor", "critic_target": "critic", "q_net_target": "q_net"}


def save_policy(
    model: BaseAlgorithm, path: str | Path, note: dict[str, Any] | None = None, critics: bool = True
) -> None:
    """Writes the policy of a trained model, and the statistics of its `VecNormalize` if it has one.

    A cell of your own is saved as its class's name: `load_policy(path, cells=[Shunting])` reads it.

    :param model: an algorithm of Stable-Baselines3 with an `MlpPolicy` or a `MultiInputPolicy`, with or without an
        `NCPExtractor`, or a recurrent algorithm of this package
    :param path: the file, such as "teacher.safetensors"; replaced as a whole if it exists
    :param note: anything worth keeping with the policy (command, seed, score), as JSON values. The environment is added
        to it if Gymnasium made it by its id and it is not wrapped, so that commands know it
    :param critics: write the critics too, which acting does not need. Without them the file of an agent of SAC, TQC,
        CrossQ or TD3 has about a third of the size, and the policy that it holds acts alike
    """
    note = note or {}
    about = note if "env" in note else {**environment_of(model), **note}
    write_policy(model.policy, path, about, normalization_of(model), critics)


def write_policy(
    policy: Any,
    path: str | Path,
    note: dict[str, Any],
    normalize: dict[str, Any] | None = None,
    critics: bool = True,
) -> None:
    """Writes a policy that has no algorithm around it; `save_policy` has the file's contents.

    :param policy: the policy
    :param path: the file
    :param note: the file's note, as JSON values
    :param normalize: the settings and tensors of its `VecNormalize`, as `normalization_of` returns them
    :param critics: write the critics too
    """
    settings = policy_to_json(policy)
    tensors = {f"policy.{name}": value for name, value in weights_of(policy).items()}
    if not critics:
        settings, tensors = as_actor_only(settings), without_weights_of_critics(tensors)
    elif isinstance(getattr(policy, "critic", None), NoCritic):
        raise MissingCritic
    if normalize is not None:
        tensors |= normalize.pop("tensors")
    described = {
        "policy": json.dumps(settings),
        "spaces": json.dumps([space_to_json(policy.observation_space), space_to_json(policy.action_space)]),
        "normalize": json.dumps(normalize),
        "note": write_note(note),
    }
    write_tensors(path, FORMAT, VERSION, described, tensors)


def check_name(path: str | Path) -> None:
    """Refuses a name for a policy's file before work is done for it: another ending, or a folder that is not there."""
    path = Path(path)
    if path.suffix != ".safetensors":
        raise ValueError(f"{path} is no name for a policy's file: let it end in .safetensors")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent}: make it first")


def environment_of(model: BaseAlgorithm) -> dict[str, Any]:
    """Returns the id and the arguments of the environment that a model was trained in; an empty dictionary if these are
    not enough to make it again.
    """
    vector = model.get_env()
    if vector is None:
        return {}
    spec = vector.get_attr("spec", 0)[0]
    if not isinstance(spec, EnvSpec) or spec.id not in gym.registry:
        return {}
    if vector.get_attr("observation_space", 0)[0] != model.observation_space:  # frames are stacked, for example
        return {}
    # a Monitor changes nothing that an agent sees
    if any(wrapper.entry_point != MONITOR for wrapper in spec.additional_wrappers):
        return {}
    arguments = {key: value for key, value in spec.kwargs.items() if key != "render_mode"}
    if spec.max_episode_steps != gym.registry[spec.id].max_episode_steps:
        if spec.max_episode_steps is None:  # its limit was taken away, which no argument can say
            return {}
        arguments["max_episode_steps"] = spec.max_episode_steps
    try:
        json.dumps(arguments)
    except (TypeError, ValueError):
        return {}
    return {"env": spec.id, **({"env_kwargs": arguments} if arguments else {})}


def load_policy(path: str | Path, device: str | torch.device = "cpu", cells: Iterable[type[Cell]] = ()) -> LoadedPolicy:
    """Reads a policy that `save_policy` wrote; a file that is truncated, altered or foreign is refused.

    :param path: the file
    :param device: the device to put the policy on
    :param cells: classes of your own cells that the file may name
    """
    metadata, tensors = read_tensors(path, FORMAT, VERSION, DESCRIBED, "ncp_control.rl.save_policy")
    weights = {name.removeprefix("policy."): value for name, value in tensors.items() if name.startswith("policy.")}
    # Without gradients also because gSDE draws a matrix from the weights, which could not be copied otherwise.
    with building(path, "a policy that cannot be built"), torch.no_grad():
        settings = read_object(metadata["policy"])
        observation_space, action_space = (space_from_json(space) for space in json.loads(metadata["spaces"]))
        policy = policy_from_json(settings, observation_space, action_space, cells)
        fill(policy, weights)
        normalize = json.loads(metadata["normalize"])
        normalizer = None if normalize is None else Normalizer.read(normalize, tensors, observation_space)
        note = read_note(metadata["note"])
        policy.set_training_mode(False)
        return LoadedPolicy(policy.to(device), normalizer, name_of(path), metadata["sha256"], note)


def with_note(source: str | Path, path: str | Path, note: dict[str, Any], critics: bool = True) -> None:
    """Copies a policy's file, with another note in the copy.

    :param source: the file to copy
    :param path: the copy
    :param note: the new note, as JSON values
    :param critics: copy the critics too, if the file has them, as in `save_policy`
    """
    metadata, tensors = read_tensors(source, FORMAT, VERSION, DESCRIBED, "ncp_control.rl.save_policy")
    described = {key: metadata[key] for key in DESCRIBED} | {"note": write_note(note)}
    if not critics:
        with described_in(source, "a policy that cannot be read"):
            settings = read_object(metadata["policy"])
        described["policy"] = json.dumps(as_actor_only(settings))
        tensors = without_weights_of_critics(tensors)
    write_tensors(path, FORMAT, VERSION, described, tensors)


def without_weights_of_critics(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Returns a policy file's tensors without those that only its critics have."""
    return {name: value for name, value in tensors.items() if not name.startswith("policy.critic.")}


def weights_of(policy: nn.Module) -> dict[str, torch.Tensor]:
    """Returns a policy's tensors by name, shared tensors once, without those of target networks."""
    weights, seen = {}, set()
    for name, value in policy.state_dict().items():
        place = value.data_ptr() if value.numel() else name  # all empty tensors have the address 0
        if name.split(".")[0] not in TARGETS and place not in seen:
            seen.add(place)
            weights[name] = value
    return weights


def fill(policy: Any, weights: dict[str, torch.Tensor]) -> None:
    """Fills in a policy's weights; a set of weights that is not exactly that of `weights_of` is refused."""
    wanted = set(weights_of(policy))
    if wanted != set(weights):
        raise ValueError(f"it has other tensors than the policy, such as {min(wanted ^ set(weights))}")
    # Not strict: a file lacks target networks, and a shared tensor's second name.
    policy.load_state_dict(weights, strict=False)
    for target, source in TARGETS.items():
        if hasattr(policy, target):
            getattr(policy, target).load_state_dict(getattr(policy, source).state_dict())
