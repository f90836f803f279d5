"""Trained agents are evaluated on whole episodes, undisturbed and with noise, in the environment of their training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import PPO

from helpers.small_recipes import QUIET, RECIPES, recipe_file
from ncp_control.cli import main
from ncp_control.data import episodes
from ncp_control.rl import evaluate, load_policy, save_policy
from ncp_control.rl.recipes.building import make_env
from ncp_control.rl.recipes.recipe import load_recipe
from ncp_control.rl.training import train
from ncp_control.runs.run import BEST


@pytest.mark.system
def test_a_return_is_the_sum_of_an_episodes_rewards_whatever_other_episodes_run(tmp_path: Path) -> None:
    train(load_recipe(recipe_file(tmp_path)), tmp_path / "run", **QUIET)
    policy = load_policy(tmp_path / "run" / BEST)

    def make() -> Any:  # short, as a pendulum that stands upright doubles a rounding error every four steps
        return make_env("ncp/PendulumNoVel-v0", arguments={"max_episode_steps": 20})

    found = evaluate(policy, make, episodes=18, seed=4)
    assert found.lengths == [20] * 18
    assert len({round(value, 3) for value in found.returns}) == 18
    env, seeds = make(), [np.random.SeedSequence(4, spawn_key=(k,)).generate_state(1)[0] for k in (0, 17)]
    for seed, wanted in zip(seeds, (found.returns[0], found.returns[17]), strict=True):
        seen, _ = env.reset(seed=int(seed))
        state, total = None, 0.0
        for _ in range(20):
            action, state = policy.predict(seen, state, deterministic=True)
            seen, reward, *_ = env.step(action)
            total += float(reward)
        assert total == pytest.approx(wanted, rel=1e-3)
    assert evaluate(policy, make, episodes=3, seed=4).returns == pytest.approx(found.returns[:3], rel=1e-3)


@pytest.mark.parametrize(
    ("words", "wrapper"),
    [
        (("--noise", "0.1"), {"ObservationNoise": {"std": 0.1}}),
        (("--dropout", "0.1"), {"ObservationDropout": {"probability": 0.1, "whole": True}}),
    ],
)
def test_noise_and_lost_observations_are_those_of_the_wrappers(
    words: tuple[str, ...], wrapper: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, env = tmp_path / "policy.safetensors", "Pendulum-v1"
    save_policy(PPO("MlpPolicy", env, seed=0, device="cpu"), path, {"env": env})
    clean, disturbed = (
        evaluate(load_policy(path), lambda wrappers=wrappers: make_env(env, wrappers), 2).returns
        for wrappers in ([], [wrapper])
    )
    assert main(["evaluate", str(path), "--episodes", "2", "--json", *words]) == 0
    assert json.loads(capsys.readouterr().out)["mean_return"] == np.mean(disturbed) != np.mean(clean)


def test_the_conditions_of_the_training_are_repeated_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, env = tmp_path / "policy.safetensors", "Pendulum-v1"
    wrappers: list[Any] = ["RandomActionOverwrite", {"ObservationNoise": {"std": [0.1, 0.1, 0.3]}}]
    wrappers += [{"ObservationDropout": {"probability": "1e-1"}}, {"ActionDelay": {"steps": 1}}]
    save_policy(PPO("MlpPolicy", env, seed=0, device="cpu"), path, {"env": env, "env_wrapper": wrappers})
    words = ["evaluate", str(path), "--episodes", "2"]
    assert main(words) == 0
    conditions = "5 % random actions, noise of 0.3, 10 % of the readings lost, actions 1 step late"
    assert f"in {env} with {conditions}: return" in capsys.readouterr().out
    calm = ["--random", "0", "--noise", "0", "--dropout", "0"]
    for more, kept in (([], wrappers), (calm, wrappers[3:]), (["--noise", "0"], [wrappers[0], *wrappers[2:]])):
        assert main([*words, *more, "--json"]) == 0
        summary = json.loads(capsys.readouterr().out)
        assert summary["env_wrapper"] == kept
        wanted = evaluate(load_policy(path), lambda kept=kept: make_env(env, kept), 2).returns
        assert summary["mean_return"] == np.mean(wanted)
    assert main([*words, *calm]) == 0
    assert f"in {env} with actions 1 step late: return" in capsys.readouterr().out
    for option, value in (("--noise", "-1"), ("--dropout", "1.5")):
        assert main([*words, option, value]) == 2
        assert f"{option} takes" in capsys.readouterr().err


def test_a_students_return_is_said_as_a_share_of_its_teachers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "policy.safetensors"
    note = {"env": "Pendulum-v1", "env_wrapper": ["RandomActionOverwrite"], "teacher_return": -500.0}
    save_policy(PPO("MlpPolicy", "Pendulum-v1", seed=0, device="cpu"), path, note)
    words = ["evaluate", str(path), "--episodes", "2"]
    assert main([*words, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["share"] == pytest.approx(1 - (-500 - summary["mean_return"]) / 500)
    assert main(words) == 0
    assert f"steps, {100 * summary['share']:.1f} % of its teacher's -500.0\n" in capsys.readouterr().out
    for elsewhere in (["--random", "0"], ["--env", "ncp_envs:Pendulum-v1"]):
        assert main([*words, *elsewhere]) == 0
        assert "teacher" not in capsys.readouterr().out  # who acted under other conditions


@pytest.mark.system
def test_a_policy_that_reads_windows_is_evaluated_on_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """
env: ncp/PendulumNoVel-v0
env_wrapper:
- History: {window: 3}
algo: PPO
n_timesteps: 64
policy: MultiInputPolicy
policy_kwargs:
  features_extractor_class: NCPExtractor
  features_extractor_kwargs: {wiring: "AutoNCP(9, 3)"}
n_steps: 32
batch_size: 32
"""
    train(load_recipe(recipe_file(tmp_path, text)), tmp_path / "run", **QUIET)
    best = str(tmp_path / "run" / BEST)
    assert main(["evaluate", best, "--episodes", "2", "--noise", "0.1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mean_length"] == 200
    assert main(["evaluate", best, "--episodes", "2", "--env", "HalfCheetah-v5"]) == 2
    assert "the policy was made for observations in Dict" in capsys.readouterr().err


@pytest.mark.system
def test_the_share_of_random_actions_is_that_of_the_training_unless_another_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(load_recipe(recipe_file(tmp_path, RECIPES["teacher"])), tmp_path / "run", **QUIET)
    best = tmp_path / "run" / BEST

    def returns_with(wrappers: list[Any]) -> float:
        found = evaluate(load_policy(best), lambda: make_env("Pendulum-v1", wrappers), episodes=3, seed=0)
        return float(np.mean(found.returns))

    for words, share in {"": 0.25, "--random 0": 0.0, "--random 1": 1.0}.items():
        assert main(["evaluate", str(best), "--episodes", "3", "--json", *words.split()]) == 0
        found = json.loads(capsys.readouterr().out)
        wrappers = [{"RandomActionOverwrite": {"probability": share}}] if share else []
        assert found["random"] == share
        assert found["mean_return"] == returns_with(wrappers)
    assert main(["evaluate", str(best), "--episodes", "1"]) == 0
    assert "in Pendulum-v1 with 25 % random actions: return" in capsys.readouterr().out
    assert main(["evaluate", str(best), "--random", "1.5"]) == 2
    assert "--random takes a probability from 0 to 1, not 1.5" in capsys.readouterr().err


def test_actions_are_sampled_if_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, env = tmp_path / "policy.safetensors", "CartPole-v1"
    save_policy(PPO("MlpPolicy", env, seed=0, device="cpu"), path, {"env": env})
    told, wanted = [], []
    for deterministic, words in ((True, []), (False, ["--sample"])):
        assert main(["evaluate", str(path), "--episodes", "5", "--json", *words]) == 0
        told.append(json.loads(capsys.readouterr().out)["mean_return"])
        found = evaluate(load_policy(path), lambda: make_env(env), 5, deterministic=deterministic)
        wanted.append(float(np.mean(found.returns)))
    assert told == wanted
    assert told[0] != told[1]


def test_an_episode_without_an_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodes, "LONGEST", 30)
    policy = PPO("MlpPolicy", "Pendulum-v1", seed=0, device="cpu")
    assert evaluate(policy, lambda: gym.make("Pendulum-v1"), 1).lengths == [200]  # a limit of its own is none of ours
    with pytest.raises(
        ValueError, match=r"no end after 30 steps: wrap the environment in gymnasium.wrappers.TimeLimit"
    ):
        evaluate(policy, lambda: gym.make("Pendulum-v1").unwrapped, 1)
