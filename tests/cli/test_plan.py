"""`ncp-control plan`, and `ncp-control evaluate --in`: a model beside the body that it imitates."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

pytest.importorskip("mujoco")

import ncp_control as nc
from helpers.command_line import refused
from ncp_control.cli import main
from ncp_control.data import Rollout, Rollouts
from ncp_control.dynamics import DynamicsModel, Ensemble, PlannedEpisode, save_model
from ncp_control.rl import RecurrentPPO, save_policy
from ncp_envs import observation_names

FAST = ("--steps", "3", "--horizon", "2", "--plans", "6", "--best", "2", "--iterations", "2")
NAMES = tuple(observation_names(gym.make("HalfCheetah-v5")))
PARTIAL, SHORT = "ncp/HalfCheetahNoVel-v0", {"max_episode_steps": 60}


def cheetah_model(seed: int = 0, features: int = 17, names: tuple[str, ...] = NAMES) -> DynamicsModel:
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    walks = tuple(
        Rollout(random.normal(size=(31, features)), actions=random.uniform(-1, 1, size=(30, 6))) for _ in range(5)
    )
    rollouts = Rollouts(walks, names[:features])
    return DynamicsModel.of(rollouts, "cfc", 8, reads="observations+actions").eval()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "cheetah.safetensors"
    save_model(cheetah_model(), path)
    return str(path)


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An untrained circuit that sees no velocities, in episodes of 60 steps with some random actions."""
    path = tmp_path_factory.mktemp("policies") / "runner.safetensors"
    env = gym.make(f"ncp_envs:{PARTIAL}", **SHORT)
    circuit = {"wiring": nc.AutoNCP(9, 6), "cell": "cfc"}
    made = RecurrentPPO("NCPPolicy", env, seed=0, device="cpu", policy_kwargs=circuit)
    note = {"env": PARTIAL, "env_kwargs": SHORT, "env_wrapper": [{"RandomActionOverwrite": {"probability": 0.05}}]}
    save_policy(made, path, note)
    return str(path)


def told(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_a_plan_tells_what_it_earned_and_keeps_the_episodes(
    capsys: pytest.CaptureFixture[str], model: str, tmp_path: Path
) -> None:
    found = told(capsys, "plan", model, *FAST, "--episodes", "2", "--out", str(tmp_path / "episodes"))
    again, other = (told(capsys, "plan", model, *FAST, "--episodes", "2", "--seed", seed) for seed in "01")
    assert found["returns"] == again["returns"] != other["returns"]
    assert found["steps"] == 6
    assert found["mean_return"] == pytest.approx(np.mean(found["returns"]))
    assert found["mean_reward"] == pytest.approx(sum(found["returns"]) / 6)
    assert found["imagined_steps"] == again["imagined_steps"] > 0
    assert found["seconds"] > 0
    kept = Rollouts.load(tmp_path / "episodes")
    assert [rollout.total_reward for rollout in kept] == pytest.approx(found["returns"])
    assert [rollout.seed for rollout in kept] == [0, 1]
    assert kept[0].observations.shape == (4, 17)


def test_a_plan_says_its_result_in_one_line(capsys: pytest.CaptureFixture[str], model: str) -> None:
    assert main(["plan", model, *FAST]) == 0
    out, err = capsys.readouterr()
    assert re.fullmatch(
        r"return -?[\d.]+, -?[\d.]+ a step, over one episode and 3 steps of HalfCheetah-v5; "
        r"\d+ steps imagined in \d+ s\n",
        out,
    )
    assert re.match(r"planning: 3 of 3 .* return -?\d+", err)


def test_several_files_are_an_ensemble(capsys: pytest.CaptureFixture[str], model: str, tmp_path: Path) -> None:
    members = [cheetah_model(seed) for seed in range(3)]
    save_model(members[1], tmp_path / "one.safetensors")
    save_model(Ensemble(members[::2]), tmp_path / "two.safetensors")
    save_model(Ensemble([members[1], members[0], members[2]]), tmp_path / "three.safetensors")
    files = [str(tmp_path / f"{name}.safetensors") for name in ("one", "two", "three")]
    apart = told(capsys, "plan", *files[:2], *FAST, "--doubt", "1")
    assert apart["model"] == files[:2]
    assert apart["returns"] == told(capsys, "plan", files[2], *FAST, "--doubt", "1")["returns"]
    assert apart["returns"] != told(capsys, "plan", model, *FAST, "--doubt", "1")["returns"]


@pytest.mark.parametrize("json_words", [(), ("--json",)])
def test_a_ctrl_c_prints_what_there_is(
    json_words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    whole = told(capsys, "plan", model, *FAST, "--steps", "2")
    step = PlannedEpisode.step

    def interrupted(episode: PlannedEpisode) -> None:
        if len(episode.steps) == 2:
            raise KeyboardInterrupt
        step(episode)

    monkeypatch.setattr(PlannedEpisode, "step", interrupted)
    assert main(["plan", model, *FAST, *json_words]) == 130
    out, err = capsys.readouterr()
    assert "ncp-control: interrupted" in err
    if json_words:
        assert json.loads(out)["returns"] == whole["returns"]
    else:
        assert "one episode and 2 steps" in out


def test_what_cannot_be_planned_is_refused(capsys: pytest.CaptureFixture[str], model: str, tmp_path: Path) -> None:
    out, small, walker = tmp_path / "out", tmp_path / "small.safetensors", tmp_path / "walker.safetensors"
    save_model(cheetah_model(features=5), small)
    save_model(cheetah_model(names=tuple(f"joint {k}" for k in range(17))), walker)
    words = ("--out", str(out))
    assert "either a model to imagine in, or --simulator" in refused(capsys, "plan", *words)
    assert "either a model to imagine in, or --simulator" in refused(capsys, "plan", model, "--simulator", *words)
    assert "has 17 observations and 6 actions, and the model was fitted to 5 and 6" in refused(
        capsys, "plan", str(small), *words
    )
    assert "has 11 observations and 3 actions" in refused(capsys, "plan", model, "--env", "Hopper-v5", *words)
    assert "is another body than the model's: it has 'front tip z' where the model has 'joint 0'" in refused(
        capsys, "plan", str(walker), *words
    )
    assert "has no vectors of numbers" in refused(capsys, "plan", model, "--env", "CartPole-v1", *words)
    hopper = ("--env", "Hopper-v5", *words)
    assert "plans for a HalfCheetah or a Swimmer" in refused(capsys, "plan", "--simulator", *hopper)
    assert "steps must be at least 1" in refused(capsys, "plan", model, "--steps", "0", *words)
    assert not out.exists()
    out.mkdir()
    assert "exists already" in refused(capsys, "plan", model, *words)


@pytest.mark.system
def test_the_reward_of_another_body_is_not_known(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    walks = Rollouts(
        tuple(Rollout(random.normal(size=(31, 11)), actions=random.uniform(-1, 1, size=(30, 3))) for _ in range(5))
    )
    save_model(DynamicsModel.of(walks, "cfc", 8, reads="observations+actions"), tmp_path / "hopper.safetensors")
    line = refused(capsys, "plan", str(tmp_path / "hopper.safetensors"), "--env", "Hopper-v5")
    assert "only HalfCheetah's reward is known" in line


@pytest.mark.system
@pytest.mark.parametrize("env", ["HalfCheetah-v5", "Swimmer-v5"])
def test_the_simulator_plans_better_than_nobody(capsys: pytest.CaptureFixture[str], env: str) -> None:
    words = ("plan", "--simulator", "--env", env, "--steps", "60", "--horizon", "10", "--plans", "40")
    found = told(capsys, *words)
    assert found["model"] == "the simulator"
    assert found["mean_return"] > (30 if env == "HalfCheetah-v5" else 5)


def test_a_policy_in_a_model_and_in_truth(capsys: pytest.CaptureFixture[str], model: str, runner: str) -> None:
    found = told(capsys, "evaluate", runner, "--in", model, "--episodes", "3")
    assert found == told(capsys, "evaluate", runner, "--in", model, "--episodes", "3")
    assert found["model_return"] != told(capsys, "evaluate", runner, "--in", model, "--seed", "1")["model_return"]
    plain = told(capsys, "evaluate", runner, "--episodes", "3")
    assert found["true_return"] == pytest.approx(plain["mean_return"])
    assert found["true_std"] == pytest.approx(plain["std_return"])
    assert found["random"] == 0.05
    assert [(part["from"], part["to"]) for part in found["steps"]] == [(0, 50), (50, 200)]
    for kind in ("model", "true"):
        early, late = (part[kind] for part in found["steps"])
        assert 50 * early + 10 * late == pytest.approx(found[f"{kind}_return"])
    calm = told(capsys, "evaluate", runner, "--in", model, "--random", "0")
    wild = told(capsys, "evaluate", runner, "--in", model, "--random", "1")
    assert wild["model_return"] < calm["model_return"] - 1  # actions cost
    assert (found["ratio"] is None) == (found["true_return"] <= 0)


def test_an_evaluation_in_a_model_is_a_table(capsys: pytest.CaptureFixture[str], model: str, runner: str) -> None:
    assert main(["evaluate", runner, "--in", model, "--episodes", "2"]) == 0
    out = capsys.readouterr().out
    assert "with 5 % random actions, 2 episodes" in out
    assert [line.split()[0] for line in out.splitlines()[3:6]] == ["return", "a", "a"]


def test_what_no_model_can_foretell_is_refused(
    capsys: pytest.CaptureFixture[str], model: str, runner: str, policy: Path, tmp_path: Path
) -> None:
    assert "--in is for policies" in refused(capsys, "evaluate", model, "--in", model)
    cart = ("--env", "CartPole-v1", "--in", model)
    assert "has no vectors of numbers" in refused(capsys, "evaluate", str(policy), *cart)
    assert "at least one episode" in refused(capsys, "evaluate", runner, "--in", model, "--episodes", "0")
    assert "from 0 to 1, not 2" in refused(capsys, "evaluate", runner, "--in", model, "--random", "2")
    assert "the policy was made for observations in" in refused(
        capsys, "evaluate", runner, "--in", model, "--env", "HalfCheetah-v5"
    )
