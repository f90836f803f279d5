"""`ncp-control distil DATASET` as a person meets it: behaviour cloning."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers.collecting import short
from helpers.command_line import described, printed, refused
from helpers.distilling import turning
from ncp_control.cli import main
from ncp_control.data.collect import collect_dataset
from ncp_control.rl import load_policy

ROOT = Path(__file__).parents[2]
FAST = [
    "--iterations", "1", "--batches", "3", "--batch", "4", "--length", "16", "--eval-episodes", "2",
    "--wiring", "AutoNCP(8, 3)",
]  # fmt: skip
CLONE = ["distil", "./swing", "--env", "ncp/PendulumNoVel-v0", "--out", "run", *FAST]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a dataset of the pendulum."""
    monkeypatch.chdir(tmp_path)
    record(0.2, "./swing")
    return tmp_path


def record(random: float, out: str) -> None:
    collect_dataset(
        turning, short(steps=30), out, rollouts=3, random_action_fraction=random, name="turner", progress=False
    )


def test_a_dataset_teaches_a_circuit_and_the_result_is_printed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(CLONE) == 0
    out, err = capsys.readouterr()
    assert out.startswith("behaviour cloning of 90 recorded steps in ")
    assert "% of the recorded episodes' (" in out
    assert " % of their actions random) " in out
    assert "behaviour cloning: 6 of 6" in err
    assert main(["evaluate", "run/best.safetensors", "--episodes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["env"] == "ncp/PendulumNoVel-v0"


@pytest.mark.system
def test_json_says_the_method_and_how_much_was_random(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(0.0, "./calm")
    for data, least, most in (("./swing", 0.05, 0.5), ("./calm", 0, 0)):
        assert main(["distil", data, "--out", f"runs/{data}", "--json", *FAST]) == 0
        found = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert {"return", "teacher_return", "share", "seconds", "parameters"} <= set(found)
        assert (found["method"], found["steps"], found["episodes"]) == ("behaviour cloning", 90, 20)
        assert least <= found["recorded_random"] <= most


def test_the_students_environment_is_the_recorded_one_unless_another_is_named(folder: Path) -> None:
    assert main(["distil", "./swing", "--out", "run", *FAST]) == 0
    note = load_policy("run/best.safetensors").note
    assert (note["env"], note["env_kwargs"]) == ("Pendulum-v1", {"max_episode_steps": 30})


def test_the_run_and_its_files_say_behaviour_cloning(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CLONE, "--noise", "0.1"]) == 0
    capsys.readouterr()
    found = described(capsys, "run")["run"]
    assert (found["kind"], found["done"], found["of"]) == ("behaviour cloning of a dataset", 2, 2)
    words = printed(capsys, "describe", "run")
    assert "2 iterations of 2" in words
    assert "swing-v0" in words
    note: Any = described(capsys, "run/best.safetensors")["policy"]["note"]
    assert (note["method"], note["teacher"]["kind"], note["teacher"]["policy"]) == (
        "behaviour cloning",
        "dataset",
        "turner",
    )
    assert "behaviour cloning" in printed(capsys, "describe", "run/best.safetensors")


@pytest.mark.system
def test_a_checkpoint_of_a_cloned_student_has_a_card_that_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(CLONE) == 0
    script = str(ROOT / "scripts" / "ship_agent.py")
    monkeypatch.setattr(sys, "argv", [script, "run", "student.safetensors"])
    monkeypatch.syspath_prepend(ROOT / "scripts")
    runpy.run_path(script, run_name="__main__")
    card = (folder / "student.md").read_text()
    note = load_policy("student.safetensors").note
    assert "| behaviour cloning | 3 recorded episodes of turner, 90 steps, in the dataset swing-v0, SHA-256 " in card
    assert f"Their return is {note['teacher_return']:,.0f}" in card
    assert f"% of the actions were random: the student has {100 * note['share']:.1f} % of that" in card
    assert [step for step, _ in note["curve"]] == [3, 6]
    assert "batches" in card


@pytest.mark.system
def test_a_run_is_resumed_with_the_same_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CLONE, "--json"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert main([*CLONE, "--json", "--resume"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["return"] == first["return"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["./swing", "--random", "0.1"], "RandomActionOverwrite changes actions"),
        (["./swing", "--handover", "2"], "where --handover would mean nothing: leave it out"),
        (["./swing", "--algo", "SAC"], "--algo goes with a .zip"),
        (["./swing", "--steps", "20"], "raise --steps above 20"),
        (["./swing", "--env", "CartPole-v1"], "swing-v0 does not fit the student's environment, CartPole-v1"),
        (["./flight.csv"], "'./flight.csv' is a table, which does not say its environment, actions and rewards"),
        (["./missing"], "'./missing' is no teacher: give a policy's .safetensors file"),
    ],
)
def test_what_cannot_be_cloned_is_refused_in_one_line(
    words: list[str], sentence: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "flight.csv").write_text("time,height\n0,1\n")
    assert sentence in refused(capsys, "distil", *words, *FAST)
    assert not (folder / "runs").exists()


@pytest.mark.system
def test_a_dataset_that_does_not_say_its_environment_is_cloned_when_the_user_names_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    described = folder / "swing" / "data" / "metadata.json"
    metadata = json.loads(described.read_text())
    del metadata["env_spec"], metadata["ncp_control"]["env"]
    described.write_text(json.dumps(metadata))
    for words in ([], ["--env", "ncp/PendulumNoVel-v0"]):
        line = refused(capsys, "distil", "./swing", *words, *FAST)
        assert "swing-v0 does not say in which environment it was recorded: name it, --teacher-env ID" in line
    assert main(["distil", "./swing", "--teacher-env", "Pendulum-v1", "--out", "run", *FAST]) == 0
    assert load_policy("run/best.safetensors").note["env"] == "Pendulum-v1"
