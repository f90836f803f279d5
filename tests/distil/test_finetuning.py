"""Fine-tuning a student by rewards, after its teacher has taught it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from helpers.distilling import turning
from ncp_control.distil import DistilSettings, distil
from ncp_control.distil.finetuning import FOLDER, recipe_of
from ncp_control.rl import evaluate, load_policy
from ncp_control.rl.recipes.building import make_env
from ncp_control.runs.run import BEST, LAST, STATE

ENV = "ncp/PendulumNoVel-v0"
SMALL = DistilSettings(
    steps=1200, iterations=1, demonstrations=0.5, batches=4, batch=8, length=32, envs=2, eval_episodes=2
)
QUIET: Any = {"progress": False, "wiring": "AutoNCP(8, 3)", "settings": SMALL}


@pytest.mark.system
def test_the_actor_learns_once_the_critic_is_warm(tmp_path: Path) -> None:
    found = distil(turning, ENV, out=tmp_path / "run", finetune_steps=2048, **QUIET)
    assert found.finetuned is not None
    assert found.finetuned.steps == 2048
    student, last = load_policy(tmp_path / "run" / BEST), load_policy(tmp_path / "run" / FOLDER / LAST)
    given, own = student.policy.state_dict(), last.policy.state_dict()
    actor = {name for name in given if not student.policy.is_critics(name)}
    moved = {name for name in actor if not torch.equal(own[name], given[name])}
    assert {"action_net.weight", "log_std"} <= moved
    for name in actor:  # it is the student that went on, and not a new actor
        torch.testing.assert_close(own[name], given[name], rtol=0, atol=0.1)


def test_only_the_critic_learns_at_first() -> None:
    note = {"env": ENV, "env_kwargs": {}, "env_wrapper": []}
    found = {steps: recipe_of(note, steps, SMALL).settings["critic_warmup"] for steps in (5, 5000, 500_000)}
    assert found == {5: 1, 5000: 1000, 500_000: 20_000}


@pytest.mark.slow
def test_the_note_names_the_teacher_and_the_steps_and_the_returns_can_be_had_again(tmp_path: Path) -> None:
    found = distil(turning, ENV, out=tmp_path / "run", finetune_steps=1024, env_wrapper=["PreviousAction"], **QUIET)
    assert found.finetuned is not None
    agent = load_policy(tmp_path / "run" / FOLDER / BEST)
    assert agent.note["finetuned"] == 1024
    assert agent.note["return"] == pytest.approx(np.mean(found.finetuned.returns))
    assert agent.note["share"] == pytest.approx(found.share_of(found.finetuned.returns))
    assert agent.note["teacher"]["name"].endswith(":turning")
    made = evaluate(agent, lambda: make_env(ENV, ["PreviousAction"]), 2, 0).returns
    assert np.isfinite(made).all()


@pytest.mark.slow
def test_fine_tuning_can_be_added_to_a_finished_run(tmp_path: Path) -> None:
    at_once = distil(turning, ENV, out=tmp_path / "once", finetune_steps=1500, **QUIET)
    distil(turning, ENV, out=tmp_path / "later", **QUIET)
    later = distil(turning, ENV, out=tmp_path / "later", finetune_steps=1500, resume=True, **QUIET)
    assert at_once.finetuned is not None
    assert later.finetuned is not None
    assert at_once.finetuned.returns == later.finetuned.returns
    one, other = (load_file(tmp_path / name / FOLDER / STATE) for name in ("once", "later"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_fewer_steps_than_none_are_refused() -> None:
    with pytest.raises(ValueError, match="the steps of fine-tuning are at least 0, not -1"):
        distil(turning, ENV, finetune_steps=-1, **QUIET)
