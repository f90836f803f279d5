"""Comparisons: every row is fitted from every seed, and a resumed comparison ends with the same table."""

import csv
import json
import signal
from pathlib import Path

import numpy as np
import pytest

from helpers.children import wait_for_group
from helpers.gates import Gate
from helpers.job_places import Here
from helpers.oscillators import oscillators
from ncp_control.cli import main
from ncp_control.data import Rollouts
from ncp_control.data.linear import linear_error
from ncp_control.data.sources import write_trace
from ncp_control.dynamics.comparison import Comparison, compare
from ncp_control.dynamics.fit_loop import STATE
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


@pytest.mark.slow  # tests/robustness/test_kill.py kills the worker, too
@pytest.mark.timeout(600)
def test_a_killed_comparison_goes_on_to_the_same_table(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NCP_CONTROL_FIT_SECONDS", "0")
    words = ["compare", str(data), "--seeds", "2", "--epochs", "4", "--workers", "1", "--rows", "GRU", "MLP, five lags"]
    gate = Gate(tmp_path / "gate", STATE, passes=2)
    process = gate.start([*words, "--out", str(tmp_path / "killed")])
    gate.wait_for()
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    wait_for_group(process.pid)
    assert not (tmp_path / "killed" / "table.csv").exists()
    assert main([*words, "--out", str(tmp_path / "killed"), "--resume"]) == 0
    told = capsys.readouterr().out
    assert main([*words, "--out", str(tmp_path / "whole"), "--json"]) == 0
    assert table(tmp_path / "killed") == table(tmp_path / "whole")
    rows = {row["model"]: row for row in json.loads(capsys.readouterr().out.splitlines()[-1])["rows"]}
    assert len(rows["GRU"]["errors"]) == 2
    assert rows["GRU"]["errors"][0] != rows["GRU"]["errors"][1]
    assert "linear, five lags" in told
    for name in ("table.txt", "table.csv", "table.png"):
        assert (tmp_path / "killed" / name).stat().st_size > 100


def test_the_plain_rows_read_actions_too(data: Path, tmp_path: Path) -> None:
    rows = (ComparisonRow("GRU", "gru", 4, learning_rate=0.01),)
    what = Comparison(str(data), seeds=1, epochs=1, actions=True, loss="normalised")
    results = {row.name: row for row in compare(what, tmp_path / "out", rows, place=Here(), progress=False)}
    assert results["linear, one lag"].mean < 1e-10  # the oscillators are linear in what is seen and done
    parts = Rollouts.load(str(data)).split()
    values = np.concatenate([rollout.observations for rollout in parts.train])
    blind = linear_error(parts.train, parts.test, 1, scale=values.std(0))
    assert blind > 1e-4
    assert results["linear, one lag"].parameters == (2 + 1 + 1) * 2
    assert results["GRU"].found[0] > 0
    with pytest.raises(FileExistsError, match="holds a run already"):
        compare(what, tmp_path / "out", rows, progress=False)


@pytest.mark.system
def test_published_errors_are_shown_beside_the_papers_traces_alone(data: Path, tmp_path: Path) -> None:
    paper = tmp_path / "paper"
    paper.mkdir()
    random = np.random.default_rng(0)
    for k in range(25):
        np.save(paper / f"trace_{k:04d}.npy", random.normal(size=(1000, 17)))
    rows = (ComparisonRow("LTC", "gru", 4, published=(2.308, 0.015)),)
    for source, shown in ((paper, True), (data, False)):
        what, out = Comparison(str(source), seeds=1, epochs=1), tmp_path / f"out-{source.name}"
        results = {row.name: row for row in compare(what, out, rows, place=Here(), progress=False)}
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
