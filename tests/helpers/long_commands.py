"""The long commands at small sizes, and whether two folders hold the same results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
from safetensors.torch import load_file
from stable_baselines3 import PPO, SAC

from helpers.oscillators import oscillators
from ncp_control.data import Rollouts
from ncp_control.data.collect import collect_dataset
from ncp_control.data.sources import write_trace
from ncp_control.rl import save_policy

PPO_RECIPE = """
env: ncp/PendulumNoVel-v0
env_kwargs: {max_episode_steps: 25}
algo: RecurrentPPO
n_timesteps: 192
n_envs: 2
normalize: true
policy_kwargs: {wiring: "AutoNCP(7, 2)", critic: lstm, critic_units: 3}
learning_rate: lin_3e-3
n_steps: 16
batch_size: 16
n_epochs: 1
"""


SAC_RECIPE = """
env: ncp/PendulumNoVel-v0
env_kwargs: {max_episode_steps: 25}
algo: RecurrentSAC
n_timesteps: 96
normalize: true
policy_kwargs: {wiring: "AutoNCP(7, 2)", net_arch: [4]}
learning_starts: 16
train_freq: 8
gradient_steps: 1
batch_size: 8
sequence: 4
burn_in: 2
buffer_size: 64
"""


DQN = """
env: CartPole-v1
algo: DQN
n_timesteps: 96
policy: MlpPolicy
policy_kwargs: {net_arch: [4]}
learning_starts: 16
train_freq: 4
batch_size: 8
buffer_size: 64
target_update_interval: 10
exploration_fraction: 1.0
"""


MLP = """
env: Pendulum-v1
env_kwargs: {max_episode_steps: 25}
n_timesteps: 96
policy: MlpPolicy
policy_kwargs: {net_arch: [4]}
"""


RECIPES = {
    "RecurrentPPO": PPO_RECIPE,
    "RecurrentSAC": SAC_RECIPE,
    "DQN": DQN,
    "RecurrentTD3": SAC_RECIPE.replace("RecurrentSAC", "RecurrentTD3"),
    "RecurrentA2C": PPO_RECIPE.replace("RecurrentPPO", "RecurrentA2C").replace("n_epochs: 1", ""),
    "PPO": f"{MLP}algo: PPO\nn_steps: 16\nbatch_size: 16\nuse_sde: true\nnormalize: true\n",
    "A2C": f"{MLP}algo: A2C\nn_steps: 16\nnormalize: true\n",
    "SAC": f"{MLP}algo: SAC\nlearning_starts: 16\nbatch_size: 8\nbuffer_size: 64\nuse_sde: true\n",
    "masks": PPO_RECIPE.replace("ncp/PendulumNoVel-v0", "Masked-v0").replace(
        "env_kwargs: {max_episode_steps: 25}\n", ""
    ),
    "TD3": f"{MLP}algo: TD3\nlearning_starts: 16\nbatch_size: 8\nbuffer_size: 64\ntrain_freq: 4\n",
}


EVERY = 32  # steps between checkpoints


Words = list[str]
DISTIL_FAST = [
    "--steps", "200", "--iterations", "3", "--demonstrations", "0.4", "--batches", "2", "--batch", "4",
    "--length", "16",
    "--envs", "2", "--eval-episodes", "1", "--wiring", "AutoNCP(7, 2)", "--patience", "5",
]  # fmt: skip


def train_words(folder: Path, algorithm: str) -> Words:
    recipe = folder / "recipe.yml"
    recipe.write_text(RECIPES[algorithm])
    if algorithm == "masks" and "Masked-v0" not in gym.registry:
        gym.register("Masked-v0", entry_point="helpers.masked_environments:StrictFive")
    return ["train", str(recipe), "--checkpoint-every", str(EVERY), "--eval-every", "48", "--eval-episodes", "1"]


def fit_words(folder: Path) -> Words:
    write_data(folder / "data")
    settings = ["--units", "3", "--epochs", "4", "--length", "8", "--average", "0.9", "--schedule", "cosine"]
    return ["fit", str(folder / "data"), "--cell", "gru", "--actions", "--device", "cpu", *settings]


def distil_words(folder: Path) -> Words:
    env = gym.make("ncp_envs:ncp/PendulumNoVel-v0", max_episode_steps=25)
    note = {"env": "ncp/PendulumNoVel-v0", "env_kwargs": {"max_episode_steps": 25}}
    teacher = PPO("MlpPolicy", env, seed=0, device="cpu", policy_kwargs={"net_arch": [4]})
    save_policy(teacher, folder / "teacher.safetensors", note)
    return ["distil", str(folder / "teacher.safetensors"), *DISTIL_FAST]


def distil_stock_words(folder: Path) -> Words:
    """A distillation of an off-policy agent in a file of Stable-Baselines3."""
    SAC("MlpPolicy", "Pendulum-v1", seed=0, device="cpu", buffer_size=10).save(folder / "teacher.zip")
    env = ["--env", "ncp/PendulumNoVel-v0", "--teacher-env", "Pendulum-v1"]
    settings = ["1200" if word == "200" else word for word in DISTIL_FAST]  # steps, for whole episodes
    return ["distil", str(folder / "teacher.zip"), "--algo", "SAC", *env, *settings]


def distil_recorded_words(folder: Path) -> Words:
    """Behaviour cloning of recorded episodes."""
    collect_dataset("random", "ncp/PendulumNoVel-v0", str(folder / "recorded"), rollouts=3, progress=False)
    words = ["distil", str(folder / "recorded"), "--env", "ncp/PendulumNoVel-v0", "--iterations", "3", "--batches", "3"]
    return [*words, "--batch", "4", "--length", "16", "--eval-episodes", "1", "--wiring", "AutoNCP(7, 2)"]


def distil_further_words(folder: Path) -> Words:
    """A distillation that is then pruned and fine-tuned."""
    return [*distil_words(folder), "--prune", "--prune-rounds", "1", "--finetune", "1024"]


def collect_words(folder: Path) -> Words:
    return ["collect", "--env", "CartPole-v1", "--episodes", "5", "--group", "2", "--random", "0.2", "--seed", "3"]


def compare_words(folder: Path) -> list[str]:
    (folder / "data").mkdir()
    for k, rollout in enumerate(oscillators(steps=40)):
        write_trace(rollout, folder / "data" / f"{k}.npz")
    return ["compare", str(folder / "data"), "--seeds", "1", "--epochs", "1", "--rows", "GRU", "--workers", "1"]


def write_data(folder: Path) -> None:
    folder.mkdir()
    for k, rollout in enumerate(oscillators(actions=True, steps=40)):
        write_trace(rollout, folder / f"trace{k}.npz")


def same_training(one: Path, other: Path) -> None:
    """Asserts that weights, optimizers, statistics, replay buffer and evaluations are the same."""
    assert (one / "curve.csv").read_text() == (other / "curve.csv").read_text()
    same_tensors(one, other, ("state.safetensors", "best.safetensors", "last.safetensors"))


def same_distillation(one: Path, other: Path) -> None:
    curves = [(run / "curve.csv").read_text().splitlines() for run in (one, other)]
    without_seconds = [[line.rpartition(",")[0] for line in curve] for curve in curves]
    assert without_seconds[0] == without_seconds[1]
    same_tensors(one, other, ("state.safetensors", "best.safetensors", "last.safetensors"))


def same_distillation_further(one: Path, other: Path) -> None:
    same_distillation(one, other)
    same_training(one / "finetuned", other / "finetuned")
    pruned = [sorted(path.name for path in (run / "pruned").iterdir()) for run in (one, other)]
    assert pruned[0] == pruned[1]
    assert len(pruned[0]) == 2
    same_tensors(one / "pruned", other / "pruned", tuple(name for name in pruned[0] if name != "table.csv"))


def same_fit(one: Path, other: Path) -> None:
    assert (one / "curve.csv").read_text() == (other / "curve.csv").read_text()
    same_tensors(one, other, ("state.safetensors", "best.safetensors"))


def same_tensors(one: Path, other: Path, names: tuple[str, ...]) -> None:
    for name in names:
        ours, theirs = load_file(one / name), load_file(other / name)
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(value, theirs[key]) for key, value in ours.items()), name


def same_dataset(one: Path, other: Path) -> None:
    ours, theirs = Rollouts.load(one), Rollouts.load(other)
    assert len(ours) == len(theirs) == 5
    for a, b in zip(ours, theirs, strict=True):
        for key in ("observations", "actions", "rewards", "is_random"):
            assert np.array_equal(getattr(a, key), getattr(b, key)), key
        assert a.seed == b.seed


COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "train": lambda folder: train_words(folder, "RecurrentPPO"),
    "distil": distil_words,
    "fit": fit_words,
    "collect": collect_words,
    "compare": compare_words,
}

SAME: dict[str, Callable[[Path, Path], None]] = {
    "train": same_training,
    "distil": same_distillation,
    "fit": same_fit,
    "collect": same_dataset,
}
