"""Agents in environments of trials without an end: how they are evaluated, trained, stored and taught."""

import json
from pathlib import Path

import pytest

from helpers.trial_environment import CueTrials, Remembering
from ncp_control.cli import main
from ncp_control.data import env_specs
from ncp_control.rl import evaluate, load_policy
from ncp_control.rl.recipes.env_making import make_env

CUE = "helpers.trial_environment:CueTrials"


def test_an_evaluation_counts_trials_and_how_many_were_right() -> None:
    def make() -> CueTrials:
        return make_env(CUE, (), {"max_episode_steps": 41})  # type: ignore[return-value]

    shares: list[float] = []
    found = evaluate(Remembering(), make, episodes=3, performance=shares)
    assert shares == [1.0] * 30  # the eleventh trial of each episode is cut
    assert found.returns == [10.0] * 3
    of_one_side: list[float] = []
    stubborn = evaluate(Remembering(always=1), make, episodes=3, performance=of_one_side)
    assert sum(of_one_side) == sum(stubborn.returns)
    assert 0 < sum(of_one_side) < 30


def test_environments_without_trials_have_no_share_of_right_ones() -> None:
    always = Remembering(always=0)
    always.predict = lambda seen, *_, **__: ([0] * len(seen), None)  # type: ignore[method-assign, assignment, return-value]
    shares: list[float] = []
    evaluate(always, lambda: make_env("CartPole-v1"), episodes=2, performance=shares)
    assert shares == []


@pytest.mark.system
def test_an_agent_of_trials_is_trained_evaluated_recorded_drawn_and_taught(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(env_specs, "TRIAL_STEPS", 100)
    run, episode = tmp_path / "run", tmp_path / "episode.npz"
    limit = ["--set", "env_kwargs.max_episode_steps=40", "n_steps=32", "n_envs=4", "batch_size=32"]
    assert main(["train", "--env", CUE, "--steps", "256", "--eval-episodes", "2", "--out", str(run), *limit]) == 0
    assert "monitor" not in capsys.readouterr().err
    best = str(run / "best.safetensors")
    assert (load_policy(best).action_space.n, load_policy(best).observation_space.shape) == (3, (3,))  # type: ignore[attr-defined]
    assert main(["evaluate", best, "--env", CUE, "--episodes", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["trials"] == 20
    assert 0 <= found["correct"] <= 1
    assert main(["evaluate", best, "--env", CUE, "--episodes", "2"]) == 0
    assert f"; {100 * found['correct']:.1f} % of 20 trials correct" in capsys.readouterr().out
    assert main(["record", best, "--env", CUE, "--steps", "60", "--out", str(episode)]) == 0
    assert main(["view", str(episode), "--figures", str(tmp_path / "figures")]) == 0
    assert (tmp_path / "figures" / "trials.png").is_file()
    few = ["--steps", "440", "--envs", "2", "--iterations", "1", "--batches", "2", "--eval-episodes", "1"]
    student = tmp_path / "student"
    assert main(["distil", best, "--env", CUE, "--demonstrations", "0.5", *few, "--out", str(student)]) == 0
    assert f"evaluate {student / 'best.safetensors'} --env {CUE}" in capsys.readouterr().out
