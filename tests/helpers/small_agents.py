"""Small untrained agents as loaded from their files, one for each way in which an agent acts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import SAC
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import ncp_control as nc
from ncp_control.rl import LoadedPolicy, NCPPolicy, RecurrentPPO, RecurrentSAC, load_policy, save_policy
from ncp_envs import IrregularTime

KINDS = ("circuit", "squashed", "timed", "choices", "plain")


def small_agent(kind: str, folder: Path) -> LoadedPolicy:
    """Returns an agent that clips its actions, squashes them, knows the elapsed time, chooses, or has no memory."""
    path = folder / f"{kind}.safetensors"
    made = make(kind)
    note = {"env": "CartPole-v1" if kind == "choices" else "Pendulum-v1"}
    if kind == "timed":
        note["env_wrapper"] = [{"IrregularTime": {"frames": [1, 3], "observe_elapsed": "apart"}}]
    save_policy(made, path, note)
    return load_policy(path)


def make(kind: str, **more: Any) -> Any:
    """Returns an untrained model of Stable-Baselines3; those of pendulums have statistics of a few steps.

    :param kind: one of `KINDS`
    :param more: further settings of a circuit
    """
    few = {"unfolds": 2}  # so that programs are made faster
    cell: dict[str, Any] = {"cell": "cfc"} if kind in ("timed", "choices") else {"cell": "ltc", "cell_kwargs": few}
    wiring: dict[str, Any] = {"wiring": nc.AutoNCP(9, 3, seed=1), **cell, **more}
    if kind == "choices":
        return moved(RecurrentPPO("NCPPolicy", "CartPole-v1", seed=0, device="cpu", policy_kwargs=wiring), 10)
    if kind == "timed":
        env = IrregularTime(gym.make("Pendulum-v1"), frames=(1, 3), observe_elapsed="apart")
        return moved(RecurrentPPO("NCPPolicy", env, seed=0, device="cpu", policy_kwargs=wiring), 2)
    envs = VecNormalize(DummyVecEnv([lambda: gym.make("Pendulum-v1")]), clip_obs=1.5)
    envs.seed(0)
    envs.reset()
    for _ in range(20):
        envs.step(np.zeros((1, 1)))
    if kind == "plain":
        return SAC("MlpPolicy", envs, seed=0, device="cpu", policy_kwargs={"net_arch": [16, 16]}, buffer_size=10)
    if kind == "squashed":
        return RecurrentSAC("NCPPolicy", envs, seed=0, device="cpu", policy_kwargs=wiring, buffer_size=100)
    return moved(RecurrentPPO("NCPPolicy", envs, seed=0, device="cpu", policy_kwargs=wiring), 2)


def moved(model: Any, gain: float) -> Any:
    """Makes the last layer strong, without which an untrained agent hardly moves, or always makes one choice."""
    torch.nn.init.orthogonal_(model.policy.action_net.weight, gain)
    torch.nn.init.zeros_(model.policy.action_net.bias)
    return model


def agent_of(cell: nc.Cell, actions: int = 1, box: float = 1.0) -> LoadedPolicy:
    """Returns an agent whose circuit is this very cell, with a linear head and actions from -1 to 1.

    :param actions: how many numbers an action has
    :param box: the observation space reaches from `-box` to `box`
    """
    spaces = gym.spaces.Box(-box, box, (cell.inputs,)), gym.spaces.Box(-1.0, 1.0, (actions,))
    policy: Any = NCPPolicy(*spaces, lambda _: 1e-3, wiring=1, cell="gru", critic="mlp", critic_units=1)
    policy.lstm_actor.rnn = nc.RNN(cell)
    policy.action_net = torch.nn.Linear(cell.outputs, actions)
    return LoadedPolicy(policy, None, "agent", "0" * 64, {})
