"""Recipes whose training takes a second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PPO_RECIPE = """
env: ncp/PendulumNoVel-v0
algo: RecurrentPPO
n_timesteps: 512
n_envs: 2
normalize: true
policy_kwargs:
  wiring: AutoNCP(9, 3)
  critic: lstm
  critic_units: 5
learning_rate: lin_3e-3
n_steps: 32
batch_size: 32
n_epochs: 2
"""
SAC_RECIPE = """
env: ncp/PendulumNoVel-v0
algo: RecurrentSAC
n_timesteps: 120
policy_kwargs:
  wiring: AutoNCP(9, 3)
  net_arch: [8]
learning_starts: 30
batch_size: 32
sequence: 8
burn_in: 4
buffer_size: 100
"""
MLP_RECIPE = """
env: Pendulum-v1
algo: PPO
n_timesteps: 256
n_envs: 2
normalize: {norm_reward: false, clip_obs: 5.0}
policy: MlpPolicy
n_steps: 32
batch_size: 32
use_sde: true
"""
TEACHER_RECIPE = """
env: Pendulum-v1
env_wrapper:
- RandomActionOverwrite: {probability: 0.25}
also_evaluate: {undisturbed: []}
algo: SAC
n_timesteps: 240
n_envs: 4
updates_per_step: 0.5
policy: MlpPolicy
policy_kwargs:
  net_arch: [8, 8]
learning_starts: 40
batch_size: 16
"""
RECIPES = {"ppo": PPO_RECIPE, "sac": SAC_RECIPE, "mlp": MLP_RECIPE, "teacher": TEACHER_RECIPE}
QUIET: dict[str, Any] = {"eval_episodes": 2, "progress": False, "checkpoint_every": 64, "eval_every": 200}


def recipe_file(folder: Path, text: str = PPO_RECIPE) -> Path:
    path = folder / "recipe.yml"
    path.write_text(text)
    return path
