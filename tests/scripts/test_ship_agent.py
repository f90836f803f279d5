"""A checkpoint made from a run: an off-policy agent goes without its critics, and a student names its teacher."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from helpers.distilling import turning
from ncp_control.distil import DistilSettings, distil
from ncp_control.rl import load_policy
from ncp_control.rl.recipes.recipe import load_recipe
from ncp_control.rl.training import train

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
RECIPE = """
env: Pendulum-v1
env_kwargs: {{max_episode_steps: 10}}
algo: {algo}
n_timesteps: 60
policy: MlpPolicy
policy_kwargs: {{net_arch: [8]}}
batch_size: 8
{more}
"""


@pytest.mark.parametrize(
    ("algo", "more", "words", "actor_only"),
    [
        ("TQC", "learning_starts: 20", [], True),
        ("TQC", "learning_starts: 20", ["--critics"], False),
        ("PPO", "n_steps: 16", ["--grid"], False),
    ],
)
def test_a_checkpoint_and_its_card(
    algo: str, more: str, words: list[str], actor_only: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = tmp_path / "recipe.yml", tmp_path / "agent.safetensors"
    path.write_text(RECIPE.format(algo=algo, more=more))
    train(load_recipe(path), tmp_path / "run", eval_episodes=1, progress=False)
    script = str(ROOT / "scripts" / "ship_agent.py")
    monkeypatch.setattr(sys, "argv", [script, str(tmp_path / "run"), str(out), *words])
    monkeypatch.syspath_prepend(ROOT / "scripts")
    runpy.run_path(script, run_name="__main__")
    policy = load_policy(out)
    assert policy.is_actor_only == actor_only
    card = out.with_suffix(".md").read_text()
    assert f"{policy.note['return']:,.0f}" in card
    for row in policy.note.get("grid", []):
        assert f"| {row['disturbance']} | {row['mean_return']:,.0f} ± {row['std_return']:,.0f} |" in card
    assert ("| noise of 0.03 |" in card) == ("--grid" in words)


def test_the_card_of_a_student_names_its_teacher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = DistilSettings(steps=400, iterations=1, batches=1, batch=4, length=16, envs=2, eval_episodes=1)
    distil(
        turning,
        "ncp/PendulumNoVel-v0",
        "AutoNCP(8, 3)",
        env_kwargs={"max_episode_steps": 20},
        settings=settings,
        out=tmp_path / "run",
        command="ncp-control distil turning",
        progress=False,
    )
    out, script = tmp_path / "student.safetensors", str(ROOT / "scripts" / "ship_agent.py")
    monkeypatch.setattr(sys, "argv", [script, str(tmp_path / "run"), str(out)])
    monkeypatch.syspath_prepend(ROOT / "scripts")
    runpy.run_path(script, run_name="__main__")
    note, card = load_policy(out).note, out.with_suffix(".md").read_text()
    assert note["episodes"] == 100
    assert note["share"] == pytest.approx(1 - (note["teacher_return"] - note["return"]) / abs(note["teacher_return"]))
    assert f"| taught by | helpers.distilling:turning, which has {note['teacher_return']:,.0f}" in card
    assert f"the student has {100 * note['share']:.1f} % of that" in card
