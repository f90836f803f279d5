"""Training inside of a model of the dynamics."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.callbacks import BaseCallback

pytest.importorskip("mujoco")

from helpers.command_line import refused
from helpers.small_recipes import QUIET, recipe_file
from ncp_control.base.kinds import RECORD
from ncp_control.cli import main
from ncp_control.data import Rollout, Rollouts
from ncp_control.data.sources import write_trace
from ncp_control.dynamics import Branches, DynamicsModel, save_model
from ncp_control.rl import load_policy
from ncp_control.rl.recipes.imagined_envs import ImaginedVecEnv, imagined_envs
from ncp_control.rl.recipes.recipe import Recipe, load_recipe
from ncp_control.rl.training import train
from ncp_control.runs.curve import CURVE
from ncp_control.runs.run import BEST, STATE
from ncp_envs import observation_names

RECIPE = """
env: ncp/HalfCheetahNoVel-v0
env_kwargs: {max_episode_steps: 20}
env_wrapper:
- RandomActionOverwrite: {probability: 0.1}
algo: RecurrentPPO
n_timesteps: 96
n_envs: 4
normalize: true
policy: NCPPolicy
policy_kwargs: {cell: cfc, wiring: 8}
n_steps: 8
batch_size: 16
n_epochs: 1
"""


def walks(features: int = 17, actions: int = 6) -> Rollouts:
    random = np.random.default_rng(0)
    found = tuple(
        Rollout(random.normal(size=(31, features)), random.uniform(-1, 1, size=(30, actions)), seed=k) for k in range(5)
    )
    names = tuple(observation_names(gym.make("HalfCheetah-v5"))) if features == 17 else ()
    return Rollouts(found, names)


def imagined(seed: int = 0, rollouts: Rollouts | None = None, steps: int = 5) -> Branches:
    torch.manual_seed(seed)
    rollouts = walks() if rollouts is None else rollouts
    model = DynamicsModel.of(rollouts, "cfc", 8, reads="observations+actions", residual=True).eval()
    torch.nn.init.normal_(model.readout.weight, std=0.1)
    return Branches(model, rollouts, steps)


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    return load_recipe(recipe_file(tmp_path, RECIPE))


def test_branches_are_steps_of_the_model(recipe: Recipe) -> None:
    inside, full = imagined(steps=3), replace(recipe, env="HalfCheetah-v5", env_wrapper=[])
    envs = imagined_envs(inside, full, 6)
    model, space = inside.model, envs.action_space
    envs.seed(1)
    seen = envs.reset()
    moments = np.concatenate([rollout.observations for rollout in inside.rollouts])
    assert all(np.isclose(moments, row).all(axis=1).any() for row in seen)
    states = envs._episodes.unwrapped._episodes.state
    for step in range(3):
        actions = np.stack([space.sample() for _ in range(6)])
        with torch.no_grad():
            wanted, states = model(
                *(torch.tensor(one, dtype=torch.float32)[:, None] for one in (seen, actions)), states
            )
        after, rewards, dones, infos = envs.step(actions)
        found = after if step < 2 else np.stack([info["terminal_observation"] for info in infos])
        np.testing.assert_allclose(found, wanted[:, 0].numpy(), rtol=1e-5, atol=1e-5)
        speed = (seen[:, 8] + found[:, 8]) / 2
        np.testing.assert_allclose(rewards, speed - 0.1 * np.square(actions).sum(axis=1), rtol=1e-4)
        assert dones.all() == (step == 2)
        assert all(info.get("TimeLimit.truncated", False) == (step == 2) for info in infos)
        seen = after
    assert all(np.isclose(moments, row).all(axis=1).any() for row in seen)  # the next branches have begun
    assert infos[0]["episode"]["l"] == 3
    envs.seed(1)
    first, second = envs.reset(), envs.reset()
    assert not np.array_equal(first, second)  # each reset draws other moments
    envs.seed(1)
    assert np.array_equal(envs.reset(), first)


def test_a_training_in_a_model_is_evaluated_in_truth_and_resumes_exactly(recipe: Recipe, tmp_path: Path) -> None:
    arguments: dict[str, Any] = {**QUIET, "seed": 2, "checkpoint_every": 32}
    train(recipe, tmp_path / "whole", inside=imagined(), **arguments)

    class Stop(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            if self.num_timesteps >= 64:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "parts", inside=imagined(), callbacks=[Stop()], **arguments)
    assert (tmp_path / "parts" / STATE).exists()
    with pytest.raises(ValueError, match="inside"):
        train(recipe, tmp_path / "parts", inside=imagined(seed=1), resume=True, **arguments)
    with pytest.raises(ValueError, match="another inside"):
        train(recipe, tmp_path / "parts", resume=True, **arguments)
    train(recipe, tmp_path / "parts", inside=imagined(), resume=True, **arguments)
    assert (tmp_path / "whole" / CURVE).read_text() == (tmp_path / "parts" / CURVE).read_text()
    record = json.loads((tmp_path / "whole" / RECORD).read_text())
    assert record["inside"] | {"model": ""} == {"model": "", "rollouts": 5, "rollout_steps": 150, "branch": 5}
    policy = load_policy(tmp_path / "whole" / BEST)
    assert policy.note["env"] == "ncp/HalfCheetahNoVel-v0"
    assert policy.predict(np.zeros(8))[0].shape == (6,)


def test_what_cannot_be_imagined_is_refused(recipe: Recipe, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="at least one step"):
        imagined(steps=0)
    with pytest.raises(ValueError, match="the model was fitted to 5 and 6"):
        imagined_envs(imagined(rollouts=walks(5)), recipe, 2)
    short = Rollouts(tuple(Rollout(np.zeros((9, 17)), np.zeros((8, 6))) for _ in range(3)), walks().observation_names)
    with pytest.raises(ValueError, match="no rollout has more than 16 steps"):
        imagined_envs(Branches(imagined().model, short), recipe, 2)
    assert "--data DATA" in refused(capsys, "train", "halfcheetah", "--in", "model.safetensors")


def test_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inside = imagined()
    save_model(inside.model, tmp_path / "model.safetensors")
    (tmp_path / "data").mkdir()
    for k, rollout in enumerate(inside.rollouts):
        write_trace(rollout, tmp_path / "data" / f"walk-{k}.npz")
    words = ["train", str(recipe_file(tmp_path, RECIPE)), "--in", str(tmp_path / "model.safetensors")]
    words += ["--data", str(tmp_path / "data"), "--branch", "4", "--eval-episodes", "1", "--json"]
    assert main([*words, "--out", str(tmp_path / "run")]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["steps"] == 96
    assert json.loads((tmp_path / "run" / RECORD).read_text())["inside"]["branch"] == 4


def test_the_algorithms_find_what_they_ask_a_vector_environment(recipe: Recipe) -> None:
    envs = imagined_envs(imagined(), recipe, 2)
    assert isinstance(envs, ImaginedVecEnv)
    assert envs.get_attr("num_envs") == [2, 2]
    assert envs.env_is_wrapped(gym.Wrapper) == [False, False]
    for call in (lambda: envs.set_attr("x", 1), lambda: envs.env_method("x")):
        with pytest.raises(AttributeError, match="of its own"):
            call()
    envs.close()
