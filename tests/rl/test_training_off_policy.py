"""Trainings of the algorithms with a replay buffer that others wrote: TQC, CrossQ, and returns over several steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from stable_baselines3.common.callbacks import BaseCallback

import ncp_envs  # noqa: F401 (registers the environments)
from helpers.small_recipes import QUIET, recipe_file
from ncp_control.cli import main
from ncp_control.data import Rollouts
from ncp_control.rl import load_policy
from ncp_control.rl.recipes.recipe import load_recipe
from ncp_control.rl.training import train
from ncp_control.runs.curve import CURVE
from ncp_control.runs.run import BEST, LAST, STATE

gym.register("EpisodeCounter-v0", entry_point="helpers.episode_counter:EpisodeCounter")

OFF_POLICY = """
env: Pendulum-v1
env_kwargs: {{max_episode_steps: 25}}
algo: {algo}
n_timesteps: 120
policy: MlpPolicy
policy_kwargs: {{net_arch: [8]}}
learning_starts: 20
batch_size: 16
buffer_size: 100
"""
DIGITS = "InvertedPendulum-v5"  # whose observations have the digits of float64, and the files of runs those of float32
# What differs from the recipe above, by the names of the cases.
CASES: dict[str, dict[str, Any]] = {
    "TQC": {"policy_kwargs.n_quantiles": 5},
    "TQC, normalised": {"normalize": True, "n_envs": 2, "use_sde": True, "n_steps": 3},
    "CrossQ": {"policy_kwargs.renorm_warmup_steps": 10, "policy_delay": 2},
    "CrossQ, plain": {"policy_kwargs.batch_norm": False, "ent_coef": 0.1},
    "SAC": {"n_steps": 3},
    "SAC, digits": {"env": DIGITS},
    "TQC, digits": {"env": DIGITS, "n_steps": 2},
    "CrossQ, digits": {"env": DIGITS},
    "RecurrentSAC, digits": {
        "env": DIGITS,
        "policy": "NCPPolicy",
        "policy_kwargs": {"wiring": 4, "net_arch": [4]},
        "sequence": 4,
        "burn_in": 2,
    },
    "RecurrentSAC, windows": {
        "env": DIGITS,
        "n_envs": 2,
        "normalize": {"norm_reward": False},
        "policy": "NCPPolicy",
        "policy_kwargs": {
            "wiring": 4,
            "critic": "window",
            "critic_window": 3,
            "net_arch": {"pi": [], "qf": [8]},
        },
        "sequence": 4,
        "burn_in": 2,
    },
    "TD3": {"n_steps": 3},
    "DQN": {"n_steps": 3, "env": "CartPole-v1"},
}

FAST = ("RecurrentSAC, windows", "TD3")


class Stopped(Exception):
    """Stands for a power cut."""


def recipe_of(case: str, folder: Path, **changes: Any) -> Any:
    return load_recipe(recipe_file(folder, OFF_POLICY.format(algo=case.split(",")[0])), {**CASES[case], **changes})


@pytest.mark.parametrize("case", [pytest.param(case, marks=() if case in FAST else pytest.mark.slow) for case in CASES])
def test_a_resumed_run_ends_as_an_uninterrupted_one(case: str, tmp_path: Path) -> None:
    recipe = recipe_of(case, tmp_path)
    quiet = {**QUIET, "checkpoint_every": 32, "eval_every": 60}
    train(recipe, tmp_path / "whole", seed=3, **quiet)

    class Stop(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            if self.num_timesteps >= 84:
                raise Stopped

    with pytest.raises(Stopped):
        train(recipe, tmp_path / "parts", seed=3, callbacks=[Stop()], **quiet)
    train(recipe, tmp_path / "parts", seed=3, resume=True, **quiet)
    assert (tmp_path / "whole" / CURVE).read_text() == (tmp_path / "parts" / CURVE).read_text()
    for name in (STATE, BEST, LAST):
        ours, theirs = (load_file(tmp_path / run / name) for run in ("whole", "parts"))
        assert ours.keys() == theirs.keys()
        for key, value in ours.items():
            assert torch.equal(value, theirs[key]), (name, key)


@pytest.mark.system
def test_the_running_statistics_of_crossq_are_in_its_files(tmp_path: Path) -> None:
    train(recipe_of("CrossQ", tmp_path), tmp_path / "run", **QUIET)
    found = load_file(tmp_path / "run" / LAST)
    steps = [int(value) for name, value in found.items() if name.endswith(".steps")]
    assert min(steps) >= 40  # updates, of which the actor gets every second one
    means = [value for name, value in found.items() if name.endswith(".ra_mean")]
    assert len(means) == len(steps) == 2 + 2 * 2  # two layers of the actor; two critics with two layers
    assert all((value != 0).any() for value in means)


@pytest.mark.system
@pytest.mark.parametrize("case", ["TQC", "CrossQ"])
def test_the_policy_of_a_run_acts_as_the_model_and_every_command_takes_it(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Keep(BaseCallback):
        def _on_step(self) -> bool:
            return True

    keep, out = Keep(), tmp_path / "run"
    train(recipe_of(case, tmp_path), out, callbacks=[keep], **QUIET)
    loaded = load_policy(out / LAST)
    seen = np.random.default_rng(0).normal(size=(33, 3)).astype(np.float32)
    wanted, _ = keep.model.predict(seen, deterministic=True)
    np.testing.assert_allclose(loaded.predict(seen)[0], wanted, rtol=1e-5, atol=1e-6)  # NumPy adds in another order
    for name, value in keep.model.policy.state_dict().items():
        if not name.startswith("critic_target"):  # which only training needs
            assert torch.equal(loaded.policy.state_dict()[name], value), name

    assert main(["evaluate", str(out / BEST), "--episodes", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["env"] == "Pendulum-v1"
    words = ["collect", "--env", "Pendulum-v1", "--policy", str(out / BEST), "--episodes", "1"]
    assert main([*words, "--out", str(tmp_path / "data")]) == 0
    assert len(Rollouts.load(tmp_path / "data")) == 1
    assert main(["describe", str(out / BEST)]) == 0
    assert type(loaded.policy).__name__ in capsys.readouterr().out


@pytest.mark.system
def test_an_agent_of_tqc_with_a_circuit_can_be_recorded(tmp_path: Path) -> None:
    text = OFF_POLICY.format(algo="TQC").replace("MlpPolicy", "MultiInputPolicy")
    changes = {
        "env": "ncp/PendulumNoVel-v0",
        "env_wrapper": [{"History": {"window": 4}}],
        "policy_kwargs.features_extractor_class": "NCPExtractor",
        "policy_kwargs.features_extractor_kwargs": {"wiring": "AutoNCP(9, 3)", "cell": "cfc"},
        "policy_kwargs.share_features_extractor": True,
    }
    train(load_recipe(recipe_file(tmp_path, text), changes), tmp_path / "run", **QUIET)
    episode = tmp_path / "episode.npz"
    assert main(["record", str(tmp_path / "run" / BEST), "--steps", "5", "--out", str(episode)]) == 0
    with np.load(episode) as file:
        assert len(file["actions"]) == 5


def test_a_return_over_several_steps_ends_with_its_episode_also_where_a_checkpoint_ends_it(tmp_path: Path) -> None:
    """The environment counts episodes and steps, and pays the number of the step."""

    class Keep(BaseCallback):
        def _on_step(self) -> bool:
            return True

    keep = Keep()
    changes = {"env": "EpisodeCounter-v0", "env_kwargs": {"lengths": [37, 23]}, "gamma": 0.5, "n_envs": 2}
    train(recipe_of("TD3", tmp_path, **changes), tmp_path / "run", callbacks=[keep], **{**QUIET, "eval_episodes": 1})
    buffer: Any = keep.model.replay_buffer  # type: ignore[attr-defined]
    assert buffer.full
    rows = np.arange(buffer.buffer_size)
    for _ in range(20):  # each row of one of the two environments, drawn at random
        batch = buffer._get_samples(rows)
        before, after = batch.observations.numpy(), batch.next_observations.numpy()
        taken = (after - before)[:, 1].astype(int)
        assert (before[:, 0] == after[:, 0]).all()
        assert ((taken >= 1) & (taken <= 3)).all()
        returns = [sum(0.5**k * (step + k + 1) for k in range(n)) for step, n in zip(before[:, 1], taken, strict=True)]
        np.testing.assert_allclose(batch.rewards.numpy()[:, 0], returns)
        np.testing.assert_allclose(batch.discounts.numpy()[:, 0], 0.5**taken)


@pytest.mark.parametrize(
    ("case", "key", "value", "message"),
    [
        (
            "TQC",
            "top_quantiles_to_drop_per_net",
            5,
            "must be below n_quantiles of its policy_kwargs, .* 5, not 5",
        ),
        (
            "TQC",
            "top_quantiles_to_drop_per_net",
            -1,
            "top_quantiles_to_drop_per_net must be a whole number",
        ),
        ("TQC", "policy_kwargs.n_quantiles", 0, "n_quantiles must be a whole number of at least 1, not 0"),
        ("TQC", "policy_delay", 2, "the recipe does not fit TQC: it has no 'policy_delay'"),
        ("CrossQ", "tau", 0.1, "the recipe does not fit CrossQ: it has no 'tau'"),
        ("CrossQ", "batch_size", 1, "the recipe's batch_size must be a whole number of at least 2, not 1"),
        ("CrossQ", "policy_kwargs.batch_norm_momentum", 2, "batch_norm_momentum must be a number from 0 to 1, not 2"),
        ("CrossQ", "policy_kwargs.batch_norm_eps", 0, "batch_norm_eps must be a number above 0, not 0"),
        (
            "CrossQ",
            "policy_kwargs.renorm_warmup_steps",
            0.5,
            "renorm_warmup_steps must be a whole number",
        ),
        ("SAC", "batch_size", None, "the recipe's batch_size must be a whole number of at least 1, not None"),
        ("SAC", "n_steps", 2000, "the recipe's n_steps must be at most 1,000, not 2000"),
        ("SAC", "env_wrapper", [{"History": {"window": 3}}], "n_steps must be 1 where observations are dictionaries"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(case: str, key: str, value: Any, message: str, tmp_path: Path) -> None:
    recipe = recipe_of(case, tmp_path, **{key: value})
    with pytest.raises(ValueError, match=message) as caught:
        train(recipe, tmp_path / "run", **QUIET)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()
