"""Circuits in NeuroGym's tasks, against the real package: `python scripts/clients.py neurogym`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.docs_pages import ROOT, blocks
from ncp_control.activity import Activity
from ncp_control.activity.figures.trials import trials_of
from ncp_control.cli import main
from ncp_control.rl import evaluate
from ncp_control.rl.recipes.env_making import make_env

pytestmark = pytest.mark.clients
pytest.importorskip("neurogym")

DECISION = "neurogym:PerceptualDecisionMaking-v0"
TASKS = (
    "PerceptualDecisionMaking",
    "DelayMatchSample",
    "GoNogo",
    "ContextDecisionMaking",
    "Reaching1D",
    "MultiSensoryIntegration",
)
SMALL = ("--set", "n_steps=32", "n_envs=2", "batch_size=32", "env_kwargs.max_episode_steps=200")


class Waiting:
    """Always takes the first action."""

    def predict(self, observation: Any, state: Any, episode_start: Any, deterministic: bool) -> tuple[Any, Any]:
        return np.zeros(len(observation), int), None


def carried_out(command: str) -> None:
    assert main(shlex.split(command)[1:]) == 0, command


def test_the_commands_of_the_page_work_in_this_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = "\n".join(blocks(ROOT / "docs" / "integrations" / "neurogym.md", "sh"))
    commands = [line for line in page.splitlines() if line.startswith("ncp-control")]
    assert [shlex.split(command)[1] for command in commands] == ["train", "evaluate", "record", "view"]
    for command in commands:
        few = " --eval-every 4096 --eval-episodes 1" if " train " in command else ""
        carried_out(command.replace("--steps 200000", "--steps 4096") + few)
    recorded = Activity.load("decision.npz")
    assert recorded.steps == 5000
    assert recorded.about["observation_names"] == ["fixation", "stimulus 0", "stimulus 1"]
    assert recorded.seconds_per_step == pytest.approx(0.1)
    assert trials_of(recorded).names == ["choice 0", "choice 1"]
    assert (tmp_path / "pictures" / "trials.png").is_file()


@pytest.mark.parametrize("task", TASKS)
def test_a_task_is_trained_evaluated_and_recorded(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    env = f"neurogym:{task}-v0"
    carried_out(f"ncp-control train --env {env} --steps 128 --eval-episodes 1 --out run {' '.join(SMALL)}")
    capsys.readouterr()
    carried_out(f"ncp-control evaluate run/best.safetensors --env {env} --episodes 1 --json")
    found = json.loads(capsys.readouterr().out)
    assert found["trials"] > 0
    assert 0 <= found["correct"] <= 1
    carried_out(f"ncp-control record run/best.safetensors --env {env} --steps 200 --out run.npz")
    recorded = Activity.load("run.npz")
    ends = recorded.extras["new_trial"]
    assert 0 < ends.sum() < 200
    assert np.isnan(recorded.extras["performance"][~ends]).all()
    assert not np.isnan(recorded.extras["performance"][ends]).any()
    assert "gt" in recorded.extras


def test_the_same_seed_gives_the_same_trials() -> None:
    def rights(seed: int) -> list[int]:
        env = make_env(DECISION)
        env.reset(seed=seed)
        return [int(env.step(0)[4]["gt"]) for _ in range(300)]

    assert rights(1) == rights(1) != rights(2)


def test_a_session_ends_and_an_agent_that_never_chooses_is_never_right() -> None:
    shares: list[float] = []
    assert evaluate(Waiting(), lambda: make_env(DECISION), 2, performance=shares).lengths == [1000, 1000]
    assert set(shares) == {0.0}


@pytest.mark.timeout(600)
def test_a_circuit_learns_to_decide_well_above_chance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert main(["train", "--env", DECISION, "--steps", "120000", "--out", str(out)]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(out / "best.safetensors"), "--env", DECISION, "--episodes", "12", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["trials"] == 540
    assert found["correct"] > 0.8
