"""Comparisons: every row is fitted from every seed, and a resumed comparison ends with the same table."""

import csv
import json
import signal
from pathlib import Path

import numpy as np
import pytest

from helpers.children import wait_for_group
from helpers.collecting import short
from helpers.gates import Gate
from helpers.job_places import Here
from helpers.oscillators import oscillators
from ncp_control.cli import main
from ncp_control.data import Rollouts
from ncp_control.data.collect import collect_dataset
from ncp_control.data.linear import linear_error
from ncp_control.data.sources import write_trace
from ncp_control.dynamics import load_model, one_step_error
from ncp_control.dynamics.comparison import ROWS, Comparison, ComparisonRow, choose_rows, compare, read_result
from ncp_control.dynamics.open_loop import open_loop
from ncp_control.dynamics.questions import ask
from ncp_control.runs.run import STATE

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


SMALL = (ComparisonRow("GRU", "gru", 4, learning_rate=0.01),)


def rollouts_table(out: Path) -> list[dict[str, str]]:
    with (out / "rollouts.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_error_of_every_test_rollout_is_written(tmp_path: Path) -> None:
    folder, out = tmp_path / "data", tmp_path / "out"
    folder.mkdir()
    for k, rollout in enumerate(oscillators()[:4]):
        write_trace(rollout, folder / f"trace{k}.npz")
    write_trace(oscillators(steps=20)[0], folder / "trace4.npz")
    compare(Comparison(str(folder), seeds=2, epochs=1, loss="normalised"), out, SMALL, place=Here(), progress=False)
    test, rows = Rollouts.load(folder).split().test, rollouts_table(out)
    assert [(row["model"], row["seed"], row["rollout"]) for row in rows] == [
        ("GRU", seed, name) for seed in "01" for name in ("trace3.npz", "trace4.npz")
    ]
    assert [rollout.steps for rollout in test] == [80, 20]
    for seed in range(2):
        model = load_model(out / "fits" / f"gru-s{seed}" / "best.safetensors")
        assert float(rows[2 * seed]["error"]) == pytest.approx(one_step_error(model, test[:1], scale=model.std))
    assert rows[1]["error"] == rows[3]["error"] == ""  # shorter than a window
    assert rows[0]["error"] != rows[2]["error"]


def test_open_loop_errors_are_means_over_the_seeds(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    what = Comparison(str(data), seeds=2, epochs=1, actions=True)
    result = compare(what, out, SMALL, place=Here(), progress=False)[-1]
    test = Rollouts.load(data).split().test
    models = [load_model(out / "fits" / f"gru-s{seed}" / "best.safetensors") for seed in range(2)]
    errors = [open_loop(model, test, horizon=10).mean[9] for model in models]
    assert result.open_loop == pytest.approx({"recorded 10": np.mean(errors)})  # 80 steps have no 50 after the first 32
    assert errors[0] != errors[1]
    text = (out / "table.txt").read_text()
    assert "recorded 10" in text
    assert "recorded 50" not in text
    assert "off-policy" not in text
    row = table(out)[-1]
    assert float(row["recorded_10"]) == pytest.approx(np.mean(errors))
    assert row["recorded_50"] == row["off_policy_5"] == ""


def test_rollouts_that_are_too_short_for_open_loops_are_compared_without(tmp_path: Path) -> None:
    for k, rollout in enumerate(oscillators(steps=32)):  # 33 observations, 32 of which a model reads first
        write_trace(rollout, tmp_path / f"trace{k}.npz")
    what = Comparison(str(tmp_path), seeds=1, epochs=1)
    result = compare(what, tmp_path / "out", SMALL, place=Here(), progress=False)[-1]
    assert result.open_loop == {}
    assert result.mean > 0


def test_a_result_of_an_earlier_version_is_read_by_the_names_of_today(tmp_path: Path) -> None:
    ahead = {"recorded 10": 0.5, "foreign 5": 0.25}
    result = {"error": 1.0, "seconds": 1.0, "parameters": 3, "rollouts": [], "open_loop": ahead}
    (tmp_path / "result.json").write_text(json.dumps(result))
    assert read_result(tmp_path / "result.json")["open_loop"] == {"recorded 10": 0.5, "off-policy 5": 0.25}


def test_models_of_a_body_are_asked_of_other_actions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mujoco")
    pytest.importorskip("minari")
    monkeypatch.chdir(tmp_path)  # where MuJoCo writes its log
    collect_dataset("random", short("Swimmer-v5", 90), "./swims", rollouts=5, progress=False)
    result = compare(Comparison("./swims", 1, 1, actions=True), "out", SMALL, place=Here(), progress=False)[-1]
    model = load_model("out/fits/gru-s0/best.safetensors")
    answers = ask(model, Rollouts.load("./swims").split().test, 50)
    assert answers.off_policy is not None
    off_policy = answers.off_policy.mean(0)
    assert result.open_loop == pytest.approx({
        "recorded 10": answers.recorded.mean[9], "recorded 50": answers.recorded.mean[49],
        "off-policy 5": off_policy[4], "off-policy 10": off_policy[9],
    })  # fmt: skip
    assert off_policy[9] != answers.recorded.mean[9]
    blind = compare(Comparison("./swims", 1, 1), "blind", SMALL, place=Here(), progress=False)[-1]
    assert set(blind.open_loop) == {"recorded 10", "recorded 50"}


def test_fits_that_an_earlier_version_finished_leave_columns_blank(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, what = tmp_path / "out", Comparison(str(data), seeds=2, epochs=1)
    row = choose_rows(("GRU",))
    before = {one.name: one for one in compare(what, out, row, place=Here(), progress=False)}
    assert before["GRU"].open_loop
    words = ["compare", str(data), "--seeds", "2", "--epochs", "1", "--rows", "GRU", "--out", str(out), "--resume"]
    assert main(words) == 0
    assert "recorded 10: error over variance 10 steps ahead" in capsys.readouterr().out
    for seed, left in ((0, 2), (1, 0)):  # how many rows of rollouts are left
        path = out / "fits" / f"gru-s{seed}" / "result.json"
        known = json.loads(path.read_text())
        path.write_text(json.dumps({key: known[key] for key in known if key not in ("rollouts", "open_loop")}))
        assert main(words) == 0
        told = capsys.readouterr().out
        assert "GRU" in told
        assert "recorded" not in told
        assert table(out)[-1]["recorded_10"] == ""
        assert float(table(out)[-1]["mean"]) == before["GRU"].mean
        assert len(rollouts_table(out)) == left
    path.write_text(json.dumps({**known, "open_loop": {"recorded 10": "0.5"}}))
    assert main(words) == 2
    assert "is not the result of a fit" in capsys.readouterr().err


def test_rows_are_fitted_to_their_own_predictions(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = choose_rows(("MLP, five lags",))
    for horizon in (1, 4):
        what, out = Comparison(str(data), seeds=1, epochs=2, horizon=horizon), tmp_path / str(horizon)
        compare(what, out, rows, place=Here(), progress=False)
        settings = json.loads((out / "fits" / "mlp-five-lags-s0" / "run.json").read_text())["settings"]
        assert settings["horizon"] == horizon
    compared = [json.loads((tmp_path / name / "run.json").read_text())["compared"] for name in "14"]
    # as earlier versions wrote it, which knew no other horizon
    assert compared[0] == {"source": str(data), "seeds": 1, "epochs": 2, "actions": False, "loss": "raw"}
    assert compared[1] == {**compared[0], "horizon": 4}
    assert table(tmp_path / "1")[-1]["mean"] != table(tmp_path / "4")[-1]["mean"]
    words = ["compare", str(data), "--seeds", "1", "--epochs", "2", "--rows", rows[0].name, "--resume", "--json"]
    assert main([*words, "--horizon", "4", "--out", str(tmp_path / "4")]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])["rows"][-1]
    assert told["open_loop"]["recorded 10"] == float(table(tmp_path / "4")[-1]["recorded_10"])
    assert told["open_loop"]["off-policy 5"] is None
    assert main([*words, "--out", str(tmp_path / "4")]) == 2
    assert "compared.horizon: 4 there, None here" in capsys.readouterr().err
    assert main([*words, "--horizon", "33", "--out", str(tmp_path / "new")]) == 2
    assert "a horizon of 33 does not fit into windows of 32 steps" in capsys.readouterr().err


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
