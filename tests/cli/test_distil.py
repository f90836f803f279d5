"""`ncp-control distil` as a person meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.command_line import described, printed, refused
from ncp_control.cli import main
from ncp_control.rl import load_policy

FAST = [
    "--steps", "1600", "--iterations", "1", "--demonstrations", "0.5", "--batches", "3", "--batch", "4",
    "--length", "16",
    "--envs", "2", "--eval-episodes", "2", "--wiring", "AutoNCP(8, 3)",
]  # fmt: skip


def test_a_function_teaches_a_circuit_and_the_result_is_printed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["distil", "braking:brake", "--env", "ncp/PendulumNoVel-v0", "--out", "run", *FAST]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "% of the teacher's" in out
    assert "ncp-control evaluate run/best.safetensors" in out
    assert main(["evaluate", "run/best.safetensors", "--episodes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["env"] == "ncp/PendulumNoVel-v0"


@pytest.mark.system
def test_json_has_the_figures_that_the_design_names(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["distil", "braking:brake", "--env", "ncp/PendulumNoVel-v0", "--out", "run", "--json", *FAST]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {"return", "teacher_return", "share", "steps", "seconds", "parameters"} <= set(found)
    assert found["steps"] == 1600


@pytest.mark.system
def test_fine_tuning_is_printed_beside_the_distillation(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["distil", "braking:brake", "--env", "ncp/PendulumNoVel-v0", "--out", "run", "--finetune", "1024", *FAST]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "fine-tuned for 1,024 environment steps in" in out
    assert main([*words, "--resume", "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["finetuned"]["steps"] == 1024
    assert f"{found['finetuned']['return']:,.1f}" in out
    better = "run/finetuned/best" if found["finetuned"]["return"] >= found["return"] else "run/best"
    assert f"see it act:  ncp-control evaluate {better}.safetensors" in out
    assert main(["describe", "run/finetuned"]) == 0
    assert load_policy("run/finetuned/best.safetensors").note["teacher"]["name"] == "braking:brake"


@pytest.mark.system
def test_settings_of_the_cell_are_in_the_circuit(folder: Path) -> None:
    words = ["distil", "braking:brake", "--env", "ncp/PendulumNoVel-v0", "--cell", "ltc", *FAST]
    for given, unfolds in ((["--set", "unfolds=2"], 2), ([], 3)):
        assert main([*words, *given, "--out", f"run{unfolds}"]) == 0
        assert load_policy(f"run{unfolds}/best.safetensors").policy.lstm_actor.cell.unfolds == unfolds


@pytest.mark.system
def test_time_constants_are_kept_in_the_range_that_a_command_names(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["distil", "braking:brake", "--env", "ncp/PendulumNoVel-v0", "--out", "run", *FAST, "--cell", "neuralltc"]
    changes = ["activation=tanh", "signed=true", "time_constants=(0.05, 20)", "bounded=true"]
    assert main([*words, "--set", *changes]) == 0
    cell = load_policy("run/best.safetensors").policy.lstm_actor.cell
    assert cell.bounded
    low, high = cell.time_constant_bounds()
    assert 0.05 <= low.min() < high.max() <= 20


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("nonsense=3", "DualLTC has no setting 'nonsense': choose from time_constants, brake"),
        ("nonsense", "KEY=VALUE, such as unfolds=6"),
    ],
)
def test_settings_that_the_cell_does_not_have_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], given: str, told: str
) -> None:
    words = ["distil", "braking:brake", "--env", "ncp/PendulumNoVel-v0", "--out", "run", *FAST, "--set", given]
    assert told in refused(capsys, *words)
    assert not (folder / "run").exists()


@pytest.mark.system
def test_disturbances_of_the_student_are_in_its_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    disturbed = ["--noise", "0.1", "--dropout", "0.1", "--random", "0.05"]
    disturbed += ["--wrap", "ActionDelay: {steps: [0, 1], told: true}", "PreviousAction"]
    words = ["distil", "braking:brake", "--env", "ncp/PendulumNoVel-v0", "--out", "run", *disturbed, *FAST]
    assert main(words) == 0
    *first, delay, previous = load_policy(folder / "run" / "best.safetensors").note["env_wrapper"]
    assert [next(iter(one)) for one in first] == ["RandomActionOverwrite", "ObservationNoise", "ObservationDropout"]
    assert delay == {"ActionDelay": {"steps": [0, 1], "told": True}}
    assert previous == "PreviousAction"
    capsys.readouterr()
    wrong = ["distil", "braking:brake", "--env", "ncp/PendulumNoVel-v0", "--out", "other", *FAST, "--wrap"]
    assert "there is no wrapper 'os:system' in ncp_envs" in refused(capsys, *wrong, "os:system")
    assert "--wrap 'A: {' is not YAML" in refused(capsys, *wrong, "A: {")
    assert not (folder / "other").exists()


@pytest.mark.system
def test_the_run_and_its_files_are_described(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["distil", "braking:brake", "--env", "ncp/PendulumNoVel-v0", "--out", "run", *FAST]
    assert main(words) == 0
    capsys.readouterr()
    found = described(capsys, "run")["run"]
    assert (found["kind"], found["done"], found["of"]) == ("distillation of a teacher", 1600, 1600)
    assert "braking" in printed(capsys, "describe", "run")
    assert described(capsys, "run/best.safetensors")["policy"]["note"]["teacher"]["kind"] == "function"
    assert "holds the state of a distillation" in refused(capsys, "describe", "run/state.safetensors")


def test_a_function_alone_does_not_say_its_environment(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "distil", "braking:brake", *FAST)
    assert "add --env" in line


def test_a_wiring_that_is_no_plan_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "distil", "braking:brake", "--env", "Pendulum-v1", "--wiring", "AutoNCP(2, 3)")
    assert "AutoNCP" in line or "neurons" in line
    assert not (folder / "runs").exists()
