"""The first run on a GPU: what it says where there is none, how steps end, and that they name what there is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(import_script: Callable[[str], Any]) -> Any:
    return import_script("first_gpu_run")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so_and_stops(script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main(script.Arguments(out=tmp_path / "run")) == 2
    assert capsys.readouterr().out.count("There is no GPU that torch can use here") == 1
    assert not (tmp_path / "run").exists()


def test_every_step_has_a_verdict_and_the_last_line_of_what_it_printed(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def python(code: str) -> tuple[str, ...]:
        return sys.executable, "-c", code

    made = [
        script.Step("one", python("print('first'); print('a | b')"), 60),
        script.Step("two", python("raise SystemExit('broken')"), 60),
        script.Step("three", python("import threading; threading.Event().wait()"), 1),
        script.Step("four", (), 60, "there is one GPU"),
    ]
    monkeypatch.setattr(script, "steps", lambda cards, folder: made)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    assert script.main(script.Arguments(out=tmp_path)) == 1
    found = json.loads((tmp_path / "results.json").read_text())
    assert [(each["verdict"], each["told"]) for each in found["results"]] == [
        ("fine", "a | b"), ("failed", "broken"), ("took too long", ""), ("left out", "there is one GPU"),
    ]  # fmt: skip
    assert found["results"][0]["printed"] == "first\na | b\n"
    assert "| one | fine |" in (tmp_path / "table.md").read_text()
    assert "a / b" in (tmp_path / "table.md").read_text()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_steps_name_tests_and_scripts_that_there_are(script: Any, tmp_path: Path) -> None:
    for step in script.steps(2, tmp_path):
        command = [word for word in step.command if word]
        if "pytest" in command and "tests" not in command:
            command = command[command.index(sys.executable) :]
            done = subprocess.run([*command, "--collect-only"], cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, (step.name, done.stdout)
        elif "pytest" not in command:
            done = subprocess.run([*command[:2], "--help"], cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, (step.name, done.stderr)
            assert all(word in done.stdout for word in command[2:] if word.startswith("--")), step.name


def test_steps_of_a_fit_are_timed(script: Any) -> None:
    assert script.step_time("gru", 256, 2, False, "cpu", 4) > 0


@pytest.mark.system
def test_settings_of_the_backward_kernel_are_timed(script: Any) -> None:
    """In Triton's interpreter, on CPU tensors."""
    pytest.importorskip("triton")
    code = "import first_gpu_run as script; print(script.timed(1, 2, 255, 'cpu', 2, 1))"
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, timeout=100, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) > 0
