"""The TensorBoard log in W&B, trackio and MLflow, against the real packages: `python scripts/clients.py trackers`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.docs_pages import ROOT, run_apart

pytestmark = pytest.mark.clients
pytest.importorskip("wandb")

CURVE = "eval/mean_return"
MLFLOW = f"""
import mlflow
client = mlflow.MlflowClient("sqlite:///mlflow.db")
(run,) = client.search_runs(["0"])
print([point.value for point in client.get_metric_history(run.info.run_id, {CURVE!r})])
"""


def printed(folder: Path, *words: str) -> str:
    """What a Python of its own prints."""
    return subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, check=True).stdout


def logged(board: Path) -> list[float]:
    """The curve in a log of TensorBoard."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(board))
    accumulator.Reload()
    return [event.value for event in accumulator.Scalars(CURVE)]


def test_the_page_hands_over_every_curve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # where trackio keeps what it imports
    output = run_apart(ROOT / "docs" / "integrations" / "trackers.md", tmp_path)
    first, second = (logged(tmp_path / "runs" / run / "board") for run in ("pole", "second"))
    assert len(first) == len(second) > 2
    assert f"{CURVE} {first[-1]:.5g}" in " ".join(output.split())  # the summary of W&B
    assert list((tmp_path / "wandb").glob("offline-run-*/run-*.wandb"))
    words = f"get metric --project circuits --run pole_main --metric {CURVE} --json"
    points = json.loads(printed(tmp_path, "-m", "trackio.cli", *words.split()))["values"]
    assert [point["value"] for point in points] == pytest.approx(first)
    assert json.loads(printed(tmp_path, "-c", MLFLOW)) == pytest.approx(second)
