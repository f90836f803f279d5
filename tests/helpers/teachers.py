"""Small teachers of every kind, untrained, and their files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from sb3_contrib import ARS, QRDQN, TQC, TRPO, CrossQ
from sb3_contrib import RecurrentPPO as ContribRecurrentPPO
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from ncp_control.rl import RecurrentA2C, RecurrentPPO, RecurrentSAC, RecurrentTD3

Array = NDArray[Any]
CIRCUIT = {"wiring": 6}
SMALL = {"net_arch": [8]}
LSTM = {**SMALL, "lstm_hidden_size": 8}
# The class, the environment's id, the policy's name and arguments.
MODELS: dict[str, tuple[Any, str, str, dict[str, Any]]] = {
    "PPO": (PPO, "Pendulum-v1", "MlpPolicy", SMALL),
    "A2C": (A2C, "Pendulum-v1", "MlpPolicy", SMALL),
    "TRPO": (TRPO, "Pendulum-v1", "MlpPolicy", SMALL),
    "ARS": (ARS, "Pendulum-v1", "MlpPolicy", SMALL),
    "SAC": (SAC, "Pendulum-v1", "MlpPolicy", SMALL),
    "TD3": (TD3, "Pendulum-v1", "MlpPolicy", SMALL),
    "DDPG": (DDPG, "Pendulum-v1", "MlpPolicy", SMALL),
    "TQC": (TQC, "Pendulum-v1", "MlpPolicy", SMALL),
    "CrossQ": (CrossQ, "Pendulum-v1", "MlpPolicy", SMALL),
    "DQN": (DQN, "CartPole-v1", "MlpPolicy", SMALL),
    "QRDQN": (QRDQN, "CartPole-v1", "MlpPolicy", SMALL),
    "contrib RecurrentPPO": (ContribRecurrentPPO, "Pendulum-v1", "MlpLstmPolicy", LSTM),
    "RecurrentPPO": (RecurrentPPO, "Pendulum-v1", "NCPPolicy", CIRCUIT),
    "RecurrentA2C": (RecurrentA2C, "Pendulum-v1", "NCPPolicy", CIRCUIT),
    "RecurrentSAC": (RecurrentSAC, "Pendulum-v1", "NCPPolicy", CIRCUIT),
    "RecurrentTD3": (RecurrentTD3, "Pendulum-v1", "NCPPolicy", CIRCUIT),
}
WITH_MEMORY = ("contrib RecurrentPPO", "RecurrentPPO", "RecurrentA2C", "RecurrentSAC", "RecurrentTD3")


def model_of(name: str, normalizes: bool = False, **arguments: Any) -> Any:
    """Makes a model that has not been trained, but whose weights all differ from zero.

    :param name: a key of MODELS
    :param normalizes: whether its environments have a `VecNormalize`, with statistics of their own
    :param arguments: of the algorithm
    """
    kind, env, policy, given = MODELS[name]
    envs: Any = make_vec_env(env, 2, seed=0)
    if normalizes:
        envs = VecNormalize(envs)
        shape = envs.observation_space.shape
        envs.obs_rms.mean, envs.obs_rms.var = np.linspace(-0.5, 0.5, *shape), np.linspace(0.1, 3, *shape)
    if issubclass(kind, SAC | TD3 | DQN | QRDQN):
        arguments = {"buffer_size": 1000, **arguments}
    model = kind(policy, envs, policy_kwargs=dict(given), device="cpu", seed=0, **arguments)
    with torch.no_grad():
        for parameter in model.policy.parameters():
            if parameter.ndim > 1:  # actions of an untrained head would be near zero, and ARS's are zero
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def save(name: str, folder: Path, normalizes: bool = False, **arguments: Any) -> tuple[Any, Path]:
    """Makes a model and saves it; returns the model and its `.zip`, beside which its `vecnormalize.pkl` is."""
    model = model_of(name, normalizes, **arguments)
    path = folder / f"{name.replace(' ', '-')}.zip"
    model.save(path)
    if normalizes:
        model.get_vec_normalize_env().save(folder / "vecnormalize.pkl")
    return model, path


def algo_of(name: str) -> str:
    """Returns the word for `--algo`."""
    return name.split()[-1]


def forget_modules_in(folder: Path) -> None:
    """Lets Python forget the modules that it imported from a folder."""
    for name, module in list(sys.modules.items()):
        if Path(getattr(module, "__file__", None) or "/").parent == folder:
            del sys.modules[name]


def observations_of(name: str, steps: int, places: int) -> Array:
    """Draws observations (steps, places, n), as if episodes ran in several places."""
    space: Any = gym.make(MODELS[name][1]).observation_space
    random = np.random.default_rng(0)
    return random.normal(size=(steps, places, *space.shape)).astype(np.float32)


def starts_of(steps: int, places: int) -> Array:
    """Returns (steps, places) bool: episodes begin everywhere at first, and anew in one place after some steps."""
    starts = np.zeros((steps, places), dtype=bool)
    starts[0] = True
    starts[3, 1] = starts[7, 1] = starts[7, 2] = True
    return starts
