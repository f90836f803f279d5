"""Small models of recurrent PPO whose values and actions depend on their memory, and their circuits stepped by hand."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.vec_env import DummyVecEnv

from helpers.memory_tasks import Steps
from ncp_control.rl import RecurrentPPO
from ncp_control.rl.policies.circuit import Circuit
from ncp_control.wiring import AutoNCP

# Episodes of one step, of a sequence's length and longer than a rollout; ends and time limits in turn.
LENGTHS = [(3, -5, 1, -4, 4), (-7, 7), (100,), (1,), (-4, 4, -12)]
CRITICS = ["circuit", "lstm", "mlp", "linear", "shared"]
ROLLOUT = 12
SPACES = [
    gym.spaces.Box(-1.0, 1.0, (2,), np.float32),
    gym.spaces.Discrete(3),
    gym.spaces.MultiDiscrete([2, 3]),
    gym.spaces.MultiBinary(3),
]


def envs(as_dict: bool = False, space: Any = None) -> DummyVecEnv:
    return DummyVecEnv([partial(Steps, i, lengths, space, as_dict) for i, lengths in enumerate(LENGTHS)])


def build(critic: str = "circuit", as_dict: bool = False, space: Any = None, **settings: Any) -> RecurrentPPO:
    """Makes a model whose weights are perturbed, so that values and actions depend on the memory."""
    policy_kwargs = {"cell": "ltc", "wiring": AutoNCP(9, 3), "critic": critic, "critic_units": 5}
    given = {"n_steps": ROLLOUT, "sequence": 4, "batch_size": 12, "gamma": 0.9, "gae_lambda": 0.8, **settings}
    model = RecurrentPPO("NCPPolicy", envs(as_dict, space), policy_kwargs=policy_kwargs, seed=0, device="cpu", **given)
    with torch.no_grad():
        for name, parameter in model.policy.named_parameters():
            if name.startswith(("action_net", "value_net")):
                parameter += 0.3 * torch.randn_like(parameter)
    return model


def by_hand(circuit: Circuit, features: Any, state: Any, starts: Any) -> tuple[Any, Any]:
    """Returns the outputs (S, T, O) and the last state (S, N) by the cell's own step."""
    outputs = []
    for t in range(features.shape[1]):
        state = torch.where(starts[:, t, None], circuit.cell.initial_state(len(state)), state)
        state = circuit.cell.step(features[:, t], state)
        outputs.append(circuit.cell.motor(state))
    return torch.stack(outputs, dim=1), state
