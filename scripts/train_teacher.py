"""Train the half-cheetah's teacher: the controller from whose rollouts the dynamics models learn.

Plain Stable-Baselines3: PPO with two hidden layers of 256, eight HalfCheetah-v5 in one process, observations and
rewards normalised, one thread. The script writes the policy as safetensors and beside it a card with the command, the
seed, the steps, the return of 20 episodes with deterministic actions, the versions and the learning curve. Ctrl-C ends
the training early and writes the policy as it is.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import tyro
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from ncp_control.rl import evaluate, load_policy, save_policy
from ncp_control.rl.files.card import policy_card
from ncp_control.storage.cards import write_card
from ncp_control.storage.run_folder import versions
from ncp_control.support.progress import Tracker, tracked
from ncp_envs import without_mass_warning

ENV = "HalfCheetah-v5"
PACKAGES = ("ncp-control", "stable-baselines3", "gymnasium", "mujoco", "torch", "numpy")
EPISODES, SEED = 20, 1000
DESCRIPTION = (
    f"A controller of {ENV} with all observations: PPO of Stable-Baselines3, two hidden layers of 256 (ReLU) and the "
    "normalisation of its observations.\nIt was trained to generate rollouts, not to reach the highest possible return."
)
POINT_EVERY = 100_000  # steps between two points of the curve


@dataclass
class Arguments:
    """Train the half-cheetah's teacher (about ten minutes on an idle core).

    Example: python scripts/train_teacher.py --out checkpoints/halfcheetah-teacher.safetensors
    """

    out: Path = Path("checkpoints/halfcheetah-teacher.safetensors")
    """The policy's file; the card beside it ends in .md."""

    steps: int = 1_500_000
    """Environment steps of training."""

    seed: int = 0
    """Everything random follows from it."""


class Curve(BaseCallback):
    """Records the mean return of the last 16 episodes, and shows it."""

    def __init__(self, tracker: Tracker) -> None:
        super().__init__()
        self.tracker = tracker
        self.points: list[tuple[int, float]] = []

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        episodes = list(self.model.ep_info_buffer or [])[-16:]
        mean = float(np.mean([episode["r"] for episode in episodes])) if episodes else float("nan")
        before = self.tracker.done
        self.tracker.advance(self.num_timesteps - before, self.num_timesteps - before, f"return {mean:.0f}")
        if episodes and self.num_timesteps // POINT_EVERY > before // POINT_EVERY:
            self.points.append((self.num_timesteps, round(mean, 1)))


def make() -> gym.Env[Any, Any]:
    """Makes an environment that records its returns."""
    with without_mass_warning():
        return Monitor(gym.make(ENV))


def train(arguments: Arguments) -> tuple[PPO, list[tuple[int, float]]]:
    """Trains, and returns the model and its curve, pairs of a step and a mean return."""
    env = VecNormalize(DummyVecEnv([make] * 8), gamma=0.98)
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=512,
        batch_size=512,
        n_epochs=10,
        learning_rate=lambda left: 3e-4 * left,
        gamma=0.98,
        gae_lambda=0.92,
        clip_range=0.2,
        ent_coef=4e-4,
        vf_coef=0.58,
        max_grad_norm=0.8,
        policy_kwargs={
            "net_arch": [256, 256],
            "activation_fn": torch.nn.ReLU,
            "log_std_init": -2.0,
            "ortho_init": False,
        },
        seed=arguments.seed,
        device="cpu",
    )
    batch = model.n_steps * model.n_envs
    with tracked("training", -(-arguments.steps // batch) * batch) as tracker:
        curve = Curve(tracker)
        try:
            model.learn(arguments.steps, callback=curve)
        except KeyboardInterrupt:
            print("\ninterrupted: writing the policy as it is", file=sys.stderr)
    return model, curve.points


def main() -> None:
    """Trains the teacher, writes it, evaluates it from its file, and writes its card."""
    arguments = tyro.cli(Arguments)
    if not arguments.out.parent.is_dir():
        raise SystemExit(f"the folder {arguments.out.parent} does not exist: create it first")
    torch.set_num_threads(1)
    start = time.monotonic()
    model, curve = train(arguments)
    note: dict[str, Any] = {
        "command": " ".join(["python", *map(shlex.quote, sys.argv)]),
        "env": ENV,
        "seed": arguments.seed,
        "steps": model.num_timesteps,
        "seconds": round(time.monotonic() - start),
        "versions": versions(PACKAGES),
        "curve": curve,
    }
    save_policy(model, arguments.out, note)
    returns, _ = evaluate(load_policy(arguments.out), make, EPISODES, SEED, progress=True)
    note |= {"return": float(np.mean(returns)), "return_std": float(np.std(returns)), "return_min": min(returns)}
    save_policy(model, arguments.out, note | {"episodes": EPISODES, "episodes_seed": SEED})
    write_card(arguments.out, policy_card(arguments.out, DESCRIPTION))
    print(json.dumps({key: note[key] for key in ("return", "return_std", "steps", "seconds")}))


if __name__ == "__main__":
    main()
