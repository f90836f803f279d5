"""Small models of recurrent SAC and TD3 in environments whose every number can be predicted."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv

from helpers.memory_tasks import Steps, joined, shown
from ncp_control.rl import RecurrentSAC, RecurrentTD3
from ncp_control.wiring import AutoNCP

KINDS = [RecurrentSAC, RecurrentTD3]
CRITICS = ["circuit", "lstm", "mlp", "window"]
CELLS = [("ltc", AutoNCP(9, 3)), ("cfc", AutoNCP(9, 3)), ("lstm", 5), ("ctgru", 4)]
LENGTHS = [(5, -3, 2), (7, -9), (-40, 12)]
OF_POLICY = {"wiring", "cell", "cell_kwargs", "critic", "critic_units", "circuit_lr_scale", "net_arch"} | {
    "share_features_extractor", "features_extractor_class", "normalize_images", "optimizer_kwargs", "critic_window",
    "activation_fn",
}  # fmt: skip
of_kinds = pytest.mark.parametrize("kind", KINDS)


def envs(as_dict: bool = False, number: int = 3) -> DummyVecEnv:
    space = gym.spaces.Box(-0.5, 1.0, (2,), np.float32)
    return DummyVecEnv([partial(Steps, i, lengths, space, as_dict) for i, lengths in enumerate(LENGTHS[:number])])


def build(kind: Any = RecurrentSAC, env: Any = None, policy: Any = "NCPPolicy", **settings: Any) -> Any:
    """Makes a small model; settings that are not arguments of the policy go to the algorithm."""
    to_policy = {key: settings.pop(key) for key in list(settings) if key in OF_POLICY}
    given = {"sequence": 4, "burn_in": 3, "batch_size": 32, "learning_starts": 30, "buffer_size": 300, "seed": 0}
    sizes = {"wiring": AutoNCP(9, 3), "critic_units": 5, "critic_window": 3, "net_arch": {"pi": [], "qf": [16]}}
    policy_kwargs = sizes | to_policy
    return kind(
        policy, envs() if env is None else env, policy_kwargs=policy_kwargs, device="cpu", **{**given, **settings}
    )


class Truth:
    """Computes features and state after an episode's steps from `first` to `last`, one step of the cell at a time."""

    def __init__(self, extractor: Any, as_dict: bool) -> None:
        self.extractor, self.as_dict = extractor, as_dict
        self.runs: dict[tuple[int, int, int], list[Any]] = {}

    @torch.no_grad()
    def __call__(self, environment: int, episode: int, last: int, first: int = 0) -> Any:
        cell = self.extractor.circuit.cell
        states = self.runs.setdefault((environment, episode, first), [cell.initial_state(1)])
        for step in range(first + len(states) - 1, last + 1):
            row = shown(torch.tensor([[environment, episode, step]], dtype=torch.float32), self.as_dict)
            states.append(cell.step(self.extractor.row(row), states[-1]))
        state = states[last - first + 1]
        found = cell.motor(state)[0]
        if self.extractor.shortcut:
            row = shown(torch.tensor([[environment, episode, last]], dtype=torch.float32), self.as_dict)
            found = torch.cat([found, self.extractor.row(row)[0]])
        return found, state[0]


class Scaled(BaseFeaturesExtractor):
    """A user's own extractor for one observation."""

    def __init__(self, space: Any, outputs: int = 4) -> None:
        super().__init__(space, outputs)
        self.layer = torch.nn.Linear(3, outputs)

    def forward(self, seen: Any) -> Any:
        return torch.tanh(self.layer(0.1 * joined(seen)))
