"""Comparisons: every row is fitted from every seed, and a resumed comparison ends with the same table."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from helpers.oscillators import oscillators
from ncp_control.data import Rollouts
from ncp_control.data.linear import linear_error
from ncp_control.data.sources import write_trace
from ncp_control.dynamics.comparison import Comparison, compare
from ncp_control.dynamics.rows import ROWS, ComparisonRow, choose_rows

TIMES = ("seconds",)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for k, rollout in enumerate(oscillators(actions=True)):
        write_trace(rollout, folder / f"trace{k}.npz")
    return folder


def table(out: Path) -> list[dict[str, str]]:
    with (out / "table.csv").open() as file:
        return [{key: value for key, value in row.items() if key not in TIMES} for row in csv.DictReader(file)]


def start(data: Path, out: Path, *more: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "ncp_control.cli", "compare", str(data), "--out", str(out), "--seeds", "2",
             "--epochs", "12", "--workers", "1", "--rows", "GRU", "MLP, five lags", *more]  # fmt: skip
    environment = {**os.environ, "NCP_CONTROL_FIT_SECONDS": "0"}
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )


@pytest.mark.slow  # tests/robustness/test_kill.py has a shorter one
def test_a_killed_comparison_goes_on_to_the_same_table(data: Path, tmp_path: Path) -> None:
    whole = start(data, tmp_path / "whole", "--json")
    told, trouble = whole.communicate()
    assert whole.returncode == 0, trouble
    killed = start(data, tmp_path / "killed")
    fits, deadline = tmp_path / "killed" / "fits", time.monotonic() + 90
    while not list(fits.glob("*/state.safetensors")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert not (tmp_path / "killed" / "table.csv").exists()
    resumed = start(data, tmp_path / "killed", "--resume")
    words, trouble = resumed.communicate()
    assert resumed.returncode == 0, trouble
    assert table(tmp_path / "killed") == table(tmp_path / "whole")
    rows = {row["model"]: row for row in json.loads(told.splitlines()[-1])["rows"]}
    assert len(rows["GRU"]["errors"]) == 2
    assert rows["GRU"]["errors"][0] != rows["GRU"]["errors"][1]
    assert "linear, five lags" in words
    for name in ("table.txt", "table.csv", "table.png"):
        assert (tmp_path / "killed" / name).stat().st_size > 100


def test_the_plain_rows_read_actions_too(data: Path, tmp_path: Path) -> None:
    rows = (ComparisonRow("GRU", "gru", 4, learning_rate=0.01),)
    what = Comparison(str(data), seeds=1, epochs=1, actions=True, loss="normalised")
    results = {row.name: row for row in compare(what, tmp_path / "out", rows, workers=1, progress=False)}
    assert results["linear, one lag"].mean < 1e-10  # the oscillators are linear in what is seen and done
    parts = Rollouts.load(str(data)).split()
    values = np.concatenate([rollout.observations for rollout in parts.train])
    blind = linear_error(parts.train, parts.test, 1, scale=values.std(0))
    assert blind > 1e-4
    assert results["linear, one lag"].parameters == (2 + 1 + 1) * 2
    assert results["GRU"].found[0] > 0
    with pytest.raises(FileExistsError, match="holds a run already"):
        compare(what, tmp_path / "out", rows, progress=False)


def test_published_errors_are_shown_beside_the_papers_traces_alone(data: Path, tmp_path: Path) -> None:
    paper = tmp_path / "paper"
    paper.mkdir()
    random = np.random.default_rng(0)
    for k in range(25):
        np.save(paper / f"trace_{k:04d}.npy", random.normal(size=(1000, 17)))
    rows = (ComparisonRow("LTC", "gru", 4, published=(2.308, 0.015)),)
    for source, shown in ((paper, True), (data, False)):
        what, out = Comparison(str(source), seeds=1, epochs=1), tmp_path / f"out-{source.name}"
        results = {row.name: row for row in compare(what, out, rows, workers=1, progress=False)}
        assert (results["LTC"].published is not None) == shown
        assert ("published" in (out / "table.txt").read_text()) == shown


def test_a_comparison_that_cannot_be_is_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no row 'LTSM': the rows are 'LSTM'"):
        choose_rows(("LTSM",))
    assert choose_rows(()) == ROWS
    bare = tmp_path / "bare"
    bare.mkdir()
    for k, rollout in enumerate(oscillators()):
        np.save(bare / f"{k}.npy", rollout.observations)
    with pytest.raises(ValueError, match="has no actions"):
        compare(Comparison(str(bare), actions=True), tmp_path / "out", progress=False)
    with pytest.raises(ValueError, match="at least one seed"):
        compare(Comparison(str(bare), seeds=0), tmp_path / "out", progress=False)
    assert not (tmp_path / "out").exists()


def test_the_papers_rows_are_all_there() -> None:
    published = {row.name: row.published for row in ROWS if row.published}
    assert published == {
        "LSTM": (2.500, 0.140), "CT-RNN": (2.838, 0.112), "Neural ODE": (3.805, 0.313), "CT-GRU": (3.014, 0.134),
        "LTC": (2.308, 0.015),
    }  # fmt: skip
    for row in ROWS:
        settings = row.settings(200)
        assert settings.length == 32
        if row.published:
            assert (settings.batch, settings.epochs, settings.stride, row.wiring) == (16, 200, 10, 32)
            assert 0.001 <= row.learning_rate <= 0.02
