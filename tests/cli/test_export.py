"""`ncp-control export`: an agent as code, compared with the agent, and with words on how to use it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("sb3_contrib")

from helpers.command_line import printed, refused
from helpers.small_agents import KINDS, small_agent
from ncp_control.cli import main
from ncp_control.export import checking
from ncp_control.rl import load_policy
from ncp_control.rl.monitor import Monitor

needs_compiler = pytest.mark.skipif(checking.find_compiler() is None, reason="this machine has no C compiler")


def agent_file(kind: str, folder: Path) -> Path:
    small_agent(kind, folder)
    return folder / f"{kind}.safetensors"


def exported(capsys: pytest.CaptureFixture[str], *words: str | Path) -> Any:
    return json.loads(printed(capsys, "export", *map(str, words), "--json"))


@pytest.mark.system
@needs_compiler
@pytest.mark.parametrize("kind", KINDS)
def test_c_is_compiled_and_compared_with_the_agent(
    kind: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = exported(capsys, agent_file(kind, tmp_path), "--to", "c", "--out", tmp_path / "out", "--steps", "230")
    assert list(found["files"]) == ["README.txt", "controller.c", "controller.h", "main.c", "vectors.csv"]
    assert (found["steps"], found["refused"]) == (230, "")
    assert found["difference"] <= (0 if kind == "choices" else 1e-5)
    assert found["state"] == (0 if kind == "plain" else 9)


@pytest.mark.system
@pytest.mark.parametrize(
    ("to", "file"), [("pt2", "controller.pt2"), pytest.param("onnx", "controller.onnx", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("kind", ["timed", pytest.param("choices", marks=pytest.mark.slow)])
def test_a_program_is_run_and_compared_with_the_agent(
    to: str, file: str, kind: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    if to == "onnx":
        pytest.importorskip("onnxruntime")
    found = exported(capsys, agent_file(kind, tmp_path), "--to", to, "--out", tmp_path / "out", "--steps", "60")
    assert list(found["files"]) == ["README.txt", file]
    assert found["steps"] == 60
    assert found["difference"] <= 1e-5


@pytest.mark.system
@needs_compiler
def test_the_readme_says_all_that_a_robot_needs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    agent = agent_file("circuit", tmp_path)
    low, high = np.full(3, -9.0), np.array([9.0, 9.0, 0.25])
    monitor = Monitor(low, high, [-50.0] * 9, [50.0] * 9, 0.5, 2.0)
    (tmp_path / "monitor.json").write_text(monitor.to_json())
    words = ["--to", "c", "--out", tmp_path / "out", "--monitor", tmp_path / "monitor.json", "--steps", "40"]
    said = printed(capsys, "export", str(agent), *map(str, words))
    assert "circuit.safetensors as C99: 3 sensors, 1 action, a state of 9 numbers" in said
    assert "over 40 steps of its environment" in said
    text = (tmp_path / "out" / "README.txt").read_text()
    assert load_policy(agent).sha256 in text
    assert "   2  angular velocity       -9 to 0.25\n" in text
    assert "   0  action0    -2 to 2\n" in text
    assert "1 is one step of the training" in text
    assert "an observation lies outside the certified range" in text
    compiler = Path(checking.find_compiler() or "").name
    assert f"over 40 steps of its environment by {compiler} -std=c99 -O2: the greatest" in " ".join(text.split())
    # The lines of the README work as they stand, with the compiler of this machine.
    compile_line, check_line = [line.strip() for line in text.splitlines() if line.startswith(("    cc ", "    ./"))]
    subprocess.run(compile_line.replace("cc", compiler, 1), shell=True, cwd=tmp_path / "out", check=True)
    done = subprocess.run(check_line, shell=True, cwd=tmp_path / "out", check=True, capture_output=True, text=True)
    assert "200 steps: the greatest difference is" in done.stdout


@pytest.mark.system
@pytest.mark.system
@pytest.mark.parametrize("kind", ["circuit", "plain"])
def test_an_onnx_file_has_the_names_and_shapes_of_rsl_rl(
    kind: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    words = ("--to", "onnx", "--names", "rsl_rl", "--out", tmp_path / "out", "--steps", "230")
    found = exported(capsys, agent_file(kind, tmp_path), *words)
    assert (found["steps"], found["refused"]) == (230, "")
    assert found["difference"] <= 1e-5
    session = onnxruntime.InferenceSession(tmp_path / "out" / "controller.onnx")
    shapes = {value.name: value.shape for value in (*session.get_inputs(), *session.get_outputs())}
    sensors, actions = found["sensors"], found["actions"]
    state = {"h_in": [1, 1, 9], "h_out": [1, 1, 9]} if kind == "circuit" else {}
    assert shapes == {"obs": [1, sensors], "actions": [1, actions], **state}
    run_readme(tmp_path / "out", f"assert actions.shape == (1, {actions})")


def run_readme(folder: Path, last: str) -> None:
    """Runs the Python that README.txt shows, and a last line after it."""
    lines = (folder / "README.txt").read_text().split("Use it")[1].split("\n\n")[0].splitlines()[1:]
    code = "\n".join([line.strip() for line in lines] + [last])
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)


@pytest.mark.parametrize("to", ["pt2", pytest.param("onnx", marks=pytest.mark.system)])
def test_the_python_of_the_readme_runs_as_it_stands(
    to: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    if to == "onnx":
        pytest.importorskip("onnxruntime")
    exported(capsys, agent_file("plain", tmp_path), "--to", to, "--out", tmp_path / "out", "--steps", "5")
    run_readme(tmp_path / "out", "assert tuple(action.shape) == (1, 1)")


@pytest.mark.system
def test_seconds_and_names_of_a_body_are_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    agent = Path(__file__).parents[2] / "checkpoints" / "halfcheetah-positions.safetensors"
    exported(capsys, agent, "--to", "pt2", "--out", tmp_path / "out", "--steps", "10")
    text = (tmp_path / "out" / "README.txt").read_text()
    assert "   1  torso angle\n" in text
    assert "   5  ffoot     -1 to 1\n" in text
    assert "which takes 0.05 s" in text


@pytest.mark.system
def test_the_steps_that_a_monitor_flags_are_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    agent = agent_file("plain", tmp_path)
    words = [agent, "--to", "pt2", "--out", tmp_path / "out", "--steps", "150"]
    assert exported(capsys, *words)["flagged"] is None
    monitor = Monitor([-1, -1, -8], [1, 0.5, 8], [], [])  # the sine of the angle goes beyond a half
    (tmp_path / "monitor.json").write_text(monitor.to_json())
    words = [*words[:-3], tmp_path / "watched", *words[-2:], "--monitor", tmp_path / "monitor.json"]
    found = exported(capsys, *words)
    assert 0 < found["flagged"] < 150
    text = " ".join((tmp_path / "watched" / "README.txt").read_text().split())
    assert f"The monitor raises flags in {found['flagged']} of these steps." in text


def test_without_a_compiler_the_code_is_written_and_the_command_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = agent_file("plain", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    said = printed(capsys, "export", str(agent), "--to", "c", "--out", str(tmp_path / "out"), "--steps", "5")
    sentence = "Nothing was compared with the agent: this machine has no C compiler (cc, gcc, clang)."
    assert sentence in said
    assert sentence in " ".join((tmp_path / "out" / "README.txt").read_text().split())


def test_with_no_steps_no_environment_is_needed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    agent = agent_file("plain", tmp_path)
    found = exported(capsys, agent, "--to", "pt2", "--out", tmp_path / "out", "--steps", "0", "--env", "gone-v0")
    assert (found["steps"], found["difference"]) == (0, None)
    assert "   0  observation0\n" in (tmp_path / "out" / "README.txt").read_text()


@pytest.mark.system
@needs_compiler
def test_code_that_acts_differently_is_never_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = agent_file("circuit", tmp_path)
    monkeypatch.setattr(checking, "act", with_full_torque)
    said = refused(capsys, "export", str(agent), "--to", "c", "--out", str(tmp_path / "out"), "--steps", "20")
    assert "the export's actions differ from the agent's by up to" in said
    assert [path.name for path in tmp_path.iterdir()] == ["circuit.safetensors"]


def with_full_torque(*given: Any, act: Any = checking.act) -> checking.ActedSteps:
    acted = act(*given)
    return acted._replace(actions=np.full_like(acted.actions, 2))


def test_what_cannot_work_is_refused_before_anything_is_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, out = str(agent_file("plain", tmp_path)), str(tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "own.txt").write_text("mine")
    (tmp_path / "bad.json").write_text("{}")
    (tmp_path / "other.json").write_text(Monitor([0] * 2, [1] * 2, [], []).to_json())

    def said(*words: str) -> str:
        return refused(capsys, "export", agent, *words)

    assert "--to takes c, onnx, leapp, pt2, not 'java'" in said("--to", "java", "--out", out)
    assert "--steps takes a number of at least 0, not -1" in said("--to", "c", "--out", out, "--steps", "-1")
    assert "full is not empty: choose another one (--out)" in said("--to", "c", "--out", str(tmp_path / "full"))
    assert "nowhere does not exist: create it first" in said("--to", "c", "--out", str(tmp_path / "nowhere" / "out"))
    assert "bad.json: this is not a monitor" in said("--to", "c", "--out", out, "--monitor", str(tmp_path / "bad.json"))
    monitor = ("--monitor", str(tmp_path / "other.json"))
    assert "is for 2 observations and a state of 0" in said("--to", "c", "--out", out, *monitor)
    assert "missing.json: No such file" in said("--to", "c", "--out", out, "--monitor", str(tmp_path / "missing.json"))
    assert "--names is for an ONNX file" in said("--to", "c", "--out", out, "--names", "rsl_rl")
    assert "are ncp_control or rsl_rl, not 'lstm'" in said("--to", "onnx", "--out", out, "--names", "lstm")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    line = said("--to", "onnx", "--out", out, "--steps", "3")
    assert line == 'ncp-control: this needs onnxscript, which is missing: pip install "ncp-control[export]"'
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.json", "full", "other.json", "plain.safetensors"]


@needs_compiler
def test_a_compiler_that_fails_leaves_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    agent, tools = agent_file("plain", tmp_path), tmp_path / "tools"
    tools.mkdir()
    (tools / "cc").write_text("#!/bin/sh\necho no room here >&2\nexit 1\n")
    (tools / "cc").chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{tools}:/bin")
        said = refused(capsys, "export", str(agent), "--to", "c", "--out", str(tmp_path / "out"), "--steps", "3")
    assert "cc failed: no room here" in said
    shutil.rmtree(tools)
    assert [path.name for path in tmp_path.iterdir()] == ["plain.safetensors"]


def test_an_agent_without_an_environment_needs_one_or_no_steps(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from stable_baselines3 import SAC

    from ncp_control.rl import save_policy

    env = gym.make("Pendulum-v1").unwrapped  # which no id makes
    save_policy(SAC("MlpPolicy", env, device="cpu", buffer_size=1), tmp_path / "homeless.safetensors", {})
    words = [tmp_path / "homeless.safetensors", "--to", "pt2", "--out", tmp_path / "out"]
    assert "add --env, or --steps 0 to compare nothing" in refused(capsys, "export", *map(str, words))
    assert exported(capsys, *words, "--env", "Pendulum-v1", "--steps", "7")["steps"] == 7


def test_a_network_is_no_agent(capsys: pytest.CaptureFixture[str], checkpoint: Path, tmp_path: Path) -> None:
    assert main(["export", str(checkpoint), "--to", "c", "--out", str(tmp_path / "out")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "out").exists()
