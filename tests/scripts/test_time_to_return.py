"""The race to a return: the clock stands still in evaluations, and whoever is good enough or out of time stops."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system


@pytest.fixture
def script(import_script: Callable[[str], Any]) -> Any:
    return import_script("time_to_return")


def run(script: Any, monkeypatch: pytest.MonkeyPatch, out: Path, *words: str) -> list[dict[str, Any]]:
    given = ["--seeds", "0", "--every", "4096", "--episodes", "1", "--json", str(out), *words]
    monkeypatch.setattr(sys, "argv", ["time_to_return.py", *given])
    script.main()
    found: list[dict[str, Any]] = json.loads(out.read_text())
    return found


def test_a_training_ends_as_soon_as_it_is_good_enough(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    circuit, stock = "circuit, signed NeuralLTC", "stock PPO, MLP"
    rows = run(script, monkeypatch, tmp_path / "all.json", "--contestants", circuit, stock, "--goal", "-5000")
    assert [(row["contestant"], row["reached"]) for row in rows] == [(circuit, True), (stock, True)]
    assert [[step for step, _, _ in row["curve"]] for row in rows] == [[4096], [4096]]
    assert "4 k" in capsys.readouterr().out


def test_the_clock_stands_still_in_evaluations_and_ends_a_training(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]  # the seconds pass in evaluations and in updates alone

    def passes(seconds: float, result: Any = None) -> Any:
        now[0] += seconds
        return result

    monkeypatch.setattr(script.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(script, "evaluate_policy", lambda *given, **named: passes(1000.0, (0.0, 0.0)))
    monkeypatch.setattr(script.PPO, "train", lambda self: passes(10.0))
    words = ["--contestants", "stock PPO, MLP", "--limit", "35", "--every", "2048"]
    (row,) = run(script, monkeypatch, tmp_path / "all.json", *words)
    assert [seconds for _, seconds, _ in row["curve"]] == [10.0, 20.0, 30.0, 40.0]
    assert not row["reached"]
    assert "over 35" in capsys.readouterr().out
