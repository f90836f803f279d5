"""Folders of trainings whose policies are set by hand, so that there are levels of data without a training."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO

from ncp_control.rl import evaluate, load_policy, save_policy

# Rows of weights from observations to actions, the best last; tuned by hand.
CARTPOLE = ([0.0, 0.0, -1.0, 0.0], [0.0, 0.0, 1.0, 0.006], [0.0, 0.0, 1.0, 0.1])
PENDULUM = ([0.0, 8.0, 1.0], [0.0, -2.0, 0.0], [0.0, -8.0, 0.0])


def linear_policy(path: Path, env: str, weights: Sequence[float], note: dict[str, Any]) -> None:
    """Writes a policy that is linear in the observation: an action, or the second of two choices where positive."""
    model = PPO("MlpPolicy", env, policy_kwargs={"net_arch": []}, seed=0, device="cpu")
    with torch.no_grad():
        layer = model.policy.action_net
        layer.bias.zero_()
        layer.weight.zero_()
        layer.weight[-1] = torch.tensor(weights)
    save_policy(model, path, note)


def level_run(
    folder: Path, env: str = "Pendulum-v1", rows: Sequence[Sequence[float]] = PENDULUM, steps: int = 20
) -> Path:
    """Writes what a training of an environment with short episodes leaves: its record, curve and policies."""
    (folder / "policies").mkdir(parents=True)
    curve, returns = ["steps,mean_return,std_return"], []
    for k, weights in enumerate(rows, 1):
        note = {
            "env": env, "env_kwargs": {"max_episode_steps": steps}, "algo": "PPO", "seed": 0, "steps": 1000 * k,
            "env_wrapper": [{"RandomActionOverwrite": {"probability": 0.05}}],
        }  # fmt: skip
        path = folder / "policies" / f"{1000 * k:09d}.safetensors"
        linear_policy(path, env, weights, note)
        found = evaluate(load_policy(path), lambda: gym.make(env, max_episode_steps=steps), 16, seed=1).returns
        returns.append(float(np.mean(found)))
        linear_policy(path, env, weights, note | {"return": returns[-1]})
        curve.append(f"{1000 * k},{returns[-1]},{np.std(found)}")
        if returns[-1] == max(returns):
            linear_policy(folder / "best.safetensors", env, weights, note | {"return": returns[-1]})
    (folder / "curve.csv").write_text("\n".join(curve) + "\n")
    (folder / "run.json").write_text(json.dumps({"recipe": {"env": env, "algo": "PPO", "n_timesteps": 3000}}))
    return folder
