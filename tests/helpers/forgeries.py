"""Small files of several kinds, and changes to the descriptions in them."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
from safetensors.torch import load, save

from helpers.oscillators import oscillators
from ncp_control.base.tensors import checksum
from ncp_control.data import collect
from ncp_control.data.minari_files import write_minari
from ncp_control.dynamics import DynamicsModel, save_model


def forge(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes the description in a checkpoint, and its checksum with it."""
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    metadata = json.loads(content[8 : 8 + length])["__metadata__"]
    described = [key for key in metadata if key not in ("format", "version", "package", "sha256")]
    order = {"config": 0, "wiring": 1, "note": 9, "policy": 0, "spaces": 1, "normalize": 2, "models": 0, "ensemble": 1}
    values = {key: json.loads(metadata[key]) for key in described}
    change(values)
    metadata |= {key: json.dumps(value) for key, value in values.items()}
    tensors = load(content)
    metadata["sha256"] = checksum(metadata, tuple(sorted(described, key=order.__getitem__)), tensors)
    path.write_bytes(save(tensors, metadata))


def policy_file(path: Path, algorithm: str = "RecurrentPPO") -> Path:
    """Saves an agent that was never trained."""
    from ncp_control.rl import RecurrentPPO, RecurrentSAC, save_policy

    env = gym.make("Pendulum-v1")
    if algorithm == "RecurrentPPO":
        model: Any = RecurrentPPO("NCPPolicy", env, device="cpu", policy_kwargs={"wiring": 4, "net_arch": [3]})
    else:
        kwargs = {"wiring": 4, "net_arch": [3]}
        model = RecurrentSAC(
            "NCPPolicy", env, device="cpu", policy_kwargs=kwargs, buffer_size=50, sequence=4, burn_in=2
        )
    save_policy(model, path, {"env": "Pendulum-v1"})
    return path


def dataset(folder: Path) -> Path:
    """Writes two short rollouts as a Minari dataset without our checksum, as another program would."""
    spec = gym.make("Pendulum-v1", max_episode_steps=4).spec
    assert spec is not None
    write_minari(collect("random", spec, 2, progress=False), "small-v0", folder, spec, {})
    describe(folder, lambda metadata: metadata.pop("ncp_control"))
    return folder


def describe(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Changes a dataset's description."""
    path = folder / "data" / "metadata.json"
    metadata = json.loads(path.read_text())
    change(metadata)
    path.write_text(json.dumps(metadata))


def small_model(path: Path) -> Path:
    save_model(DynamicsModel.of(oscillators(steps=10), "mlp", 3), path)
    return path
