"""Checkpoints of rsl_rl, whose actors may be teachers.

They are read without rsl_rl, and as tensors alone, so that loading one runs no code from it.
"""

from __future__ import annotations

import hashlib
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import nn

from ncp_control.base.plain_yaml import read_yaml
from ncp_control.base.progress import say

Array = NDArray[Any]
ACTORS = ("actor_state_dict", "student_state_dict")
ACTIVATIONS: dict[str, type[nn.Module]] = {
    "elu": nn.ELU, "selu": nn.SELU, "relu": nn.ReLU, "crelu": nn.CELU, "lrelu": nn.LeakyReLU, "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid, "softplus": nn.Softplus, "gelu": nn.GELU, "swish": nn.SiLU, "mish": nn.Mish,
    "identity": nn.Identity,
}  # fmt: skip
DEFAULT_ACTIVATION = "elu"
EPSILON = 1e-2  # of rsl_rl's EmpiricalNormalization, whose file does not hold it
PYTHON = re.compile(r"!!python/\S+")  # mjlab says of a list that it was a tuple
CONFIGURATIONS = ("agent.yaml", "params/agent.yaml")  # Isaac Lab and mjlab write the second


class RslActor:
    """An actor of rsl_rl with the `predict` of Stable-Baselines3's models.

    :param layers: the layers from normalised observations to the mean action
    :param mean: the mean by which observations are normalised, (n,)
    :param scale: what they are then divided by, (n,)
    :param name: the name of its file
    :param sha256: the checksum of its file
    """

    def __init__(self, layers: nn.Sequential, mean: Array, scale: Array, name: str, sha256: str) -> None:
        self.layers, self.mean, self.scale, self.name, self.sha256 = layers, mean, scale, name, sha256
        self.observation_space = spaces.Box(-np.inf, np.inf, mean.shape, np.float32)

    def predict(
        self, observation: Array, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Array, Any]:
        """Returns the mean actions (B, A) for observations (B, n), and the state as it was."""
        seen = torch.as_tensor((observation - self.mean) / self.scale, dtype=torch.float32)
        with torch.no_grad():
            actions: Array = self.layers(seen).numpy()
        return actions, state


def load_rsl_rl(path: Path) -> RslActor:
    """Reads the actor of a checkpoint `model_*.pt` of rsl_rl 5, an MLP.

    Its activation is not in the file. It is that of `agent.yaml` beside the file, if there is one, else elu.

    :param path: the checkpoint
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint at {path}")
    content = path.read_bytes()
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise ValueError(
            f"{path} is no checkpoint of rsl_rl, is damaged, or holds more than tensors, which would run code: name a "
            "model_*.pt that its runner wrote"
        ) from error
    key = next((key for key in ACTORS if isinstance(found, dict) and isinstance(found.get(key), dict)), None)
    if key is None:
        raise ValueError(f"{path} is no checkpoint of rsl_rl 5, which has {' or '.join(ACTORS)}: name its model_*.pt")
    tensors = {name: value for name, value in found[key].items() if isinstance(value, torch.Tensor)}
    if any(name.startswith("rnn.") for name in tensors):
        raise ValueError(
            f"the actor in {path} is recurrent, and a file teaches only if it is an MLP: give a function that runs it, "
            "as MODULE:FUNCTION"
        )
    weights = sorted((int(name.split(".")[1]), value) for name, value in tensors.items() if is_weight(name))
    if not weights:
        raise ValueError(f"the actor in {path} is no MLP of vectors: give a function that runs it, as MODULE:FUNCTION")
    layers: list[nn.Module] = []
    kind, where = activation_of(path)
    for place, weight in weights:
        linear = nn.Linear(int(weight.shape[1]), int(weight.shape[0]))
        linear.load_state_dict({"weight": weight, "bias": tensors[f"mlp.{place}.bias"]})
        layers += [linear, ACTIVATIONS[kind]()]
    say(f"{path.name}: {len(weights)} layers with {kind} between them, {where}")
    size = int(weights[0][1].shape[1])
    mean, scale = np.zeros(size), np.ones(size)
    if "obs_normalizer._mean" in tensors:
        mean = tensors["obs_normalizer._mean"][0].double().numpy()
        scale = tensors["obs_normalizer._std"][0].double().numpy() + EPSILON
    return RslActor(nn.Sequential(*layers[:-1]), mean, scale, path.stem, hashlib.sha256(content).hexdigest())


def is_weight(name: str) -> bool:
    """Whether a tensor's name is that of the weight of a layer."""
    parts = name.split(".")
    return len(parts) == 3 and parts[0] == "mlp" and parts[1].isdigit() and parts[2] == "weight"


def activation_of(path: Path) -> tuple[str, str]:
    """Returns the name of an actor's activation, and where it stands, in words."""
    for name in CONFIGURATIONS:
        file = path.parent / name
        if file.is_file():
            settings = read_yaml(PYTHON.sub("", file.read_text(encoding="utf-8")), str(file))
            actor = settings.get("actor") if isinstance(settings, dict) else None
            kind = actor.get("activation", DEFAULT_ACTIVATION) if isinstance(actor, dict) else None
            if kind not in ACTIVATIONS:
                raise ValueError(f"{file} does not say the actor's activation, one of {', '.join(ACTIVATIONS)}")
            return kind, f"as {name} says"
    where = f"rsl_rl's default; if it has another one, put its configuration beside it, as {CONFIGURATIONS[0]}"
    return DEFAULT_ACTIVATION, where
