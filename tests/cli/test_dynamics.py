"""The commands `fit` and `compare`, and `evaluate` and `describe` for a model of the dynamics."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.oscillators import oscillators
from ncp_control.activity.figures.write import FIGURES
from ncp_control.cli import main
from ncp_control.data import Rollouts
from ncp_control.data.sources import write_trace
from ncp_control.dynamics import DynamicsModel, Ensemble, calibrate, load_model, save_model

CPU = ("--device", "cpu")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for k, rollout in enumerate(oscillators(count=5, steps=120, actions=True)):
        write_trace(rollout, folder / f"trace{k}.npz")
    return folder


@pytest.fixture(scope="module")
def fitted(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "fit"
    words = ["fit", str(data), "--actions", "--wiring", "AutoNCP(9, 3)", "--epochs", "2", *CPU, "--out", str(out)]
    assert main(words) == 0
    return out


def told(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main(list(words)) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def described(capsys: pytest.CaptureFixture[str], path: Path) -> Any:
    assert main(["describe", str(path), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 2
    found = capsys.readouterr().err.strip()
    assert len(found.splitlines()) == 1
    return found


def test_fit_tells_what_came_of_it(capsys: pytest.CaptureFixture[str], data: Path, tmp_path: Path) -> None:
    words = ["fit", str(data), "--cell", "gru", "--units", "5", "--epochs", "3", *CPU, "--json"]
    found = told(capsys, *words, "--out", str(tmp_path / "one"))
    assert found["epochs"] == 3
    assert found["parameters"] == 3 * 5 * (2 + 5) + 2 * 3 * 5 + 5 * 2 + 2
    assert found["test_mse"] > 0
    assert found["valid_mse"] > 0
    assert found["seconds"] > 0
    assert told(capsys, *words, "--out", str(tmp_path / "two"))["test_mse"] == found["test_mse"]
    record = json.loads((tmp_path / "one" / "run.json").read_text())
    assert record["settings"]["epochs"] == 3
    assert "torch" in record["versions"]
    assert main([*words[:-1], "--out", str(tmp_path / "three")]) == 0
    share = f"{found['test_normalised_mse']:.4g}"
    assert f"{found['test_mse']:.4g} (over the variances in training {share})" in capsys.readouterr().out


def test_fit_an_ensemble(capsys: pytest.CaptureFixture[str], data: Path, tmp_path: Path) -> None:
    out = tmp_path / "both"
    words = ["fit", str(data), "--cell", "mlp", "--units", "4", "--epochs", "1", "--members", "2", *CPU]
    found = told(capsys, *words, "--out", str(out), "--json")
    assert found["epochs"] == 2
    assert main(["describe", str(out / "best.safetensors")]) == 0
    assert capsys.readouterr().out.count("LaggedMLP, 4 neurons") == 2
    model = load_model(out / "best.safetensors")
    assert isinstance(model, Ensemble)
    assert list(model.calibrations) == ["recorded"]


def test_evaluate_a_model(capsys: pytest.CaptureFixture[str], data: Path, fitted: Path, tmp_path: Path) -> None:
    file, pictures = str(fitted / "best.safetensors"), tmp_path / "pictures"
    found = told(capsys, "evaluate", file, "--data", str(data), "--figures", str(pictures), "--json")
    assert found["one_step"]["raw"] == pytest.approx(np.mean([row["raw"] for row in found["observations"]]))
    assert [row["horizon"] for row in found["open_loop"]] == [1, 5, 10, 20, 50]
    assert found["confidence"] == {}
    assert found["long_run"]["real"]["energy"] > 0
    names = {Path(name).name for name in found["figures"]}
    assert names == {"model-traces.png", "model-horizon.png", "model-errors.png", "model-time-constants.png"}
    assert {name.removesuffix(".png") for name in names}.isdisjoint(FIGURES), "`view` draws into the same folder"
    assert main(["evaluate", file, "--data", str(data)]) == 0
    text = capsys.readouterr().out
    assert "steps ahead, open loop" in text
    assert "long open-loop runs" in text


def test_evaluate_an_ensemble(capsys: pytest.CaptureFixture[str], data: Path, tmp_path: Path) -> None:
    train, valid, _ = Rollouts.load(data).split()
    ensemble = Ensemble([DynamicsModel.of(train, "mlp", 3, reads="observations+actions") for _ in range(2)])
    ensemble.calibrations = calibrate(ensemble, valid)
    file, pictures = str(tmp_path / "two.safetensors"), tmp_path / "pictures"
    save_model(ensemble, file)
    found = told(capsys, "evaluate", file, "--data", str(data), "--figures", str(pictures), "--json")
    assert (pictures / "model-confidence.png").exists()
    assert list(found["confidence"]) == ["recorded"]  # no environment tells what would have followed other actions
    known = found["confidence"]["recorded"]
    assert [row["horizon"] for row in known["horizons"]] == [row["horizon"] for row in found["open_loop"]]
    assert known["within"] > 0.5
    assert -1 <= known["correlation"] <= 1
    assert main(["evaluate", file, "--data", str(data)]) == 0
    assert f"{known['within']:.0%} of all steps are within their interval" in capsys.readouterr().out
    save_model(Ensemble(ensemble.models), file)  # as an earlier version wrote it
    assert main(["evaluate", file, "--data", str(data)]) == 0
    assert "the file has no calibration for these actions" in capsys.readouterr().out


def test_describe_a_model(capsys: pytest.CaptureFixture[str], fitted: Path) -> None:
    assert main(["describe", str(fitted / "best.safetensors")]) == 0
    text = capsys.readouterr().out
    assert "LTC, 9 neurons" in text
    assert "actions       1" in text
    assert "bounds hold" in text
    (member,) = described(capsys, fitted / "best.safetensors")["model"]["members"]
    assert member["circuit"]["wiring"]["units"] == 9


@pytest.mark.slow
def test_describe_a_fit_and_a_comparison(
    capsys: pytest.CaptureFixture[str], data: Path, fitted: Path, tmp_path: Path
) -> None:
    found = described(capsys, fitted)["run"]
    assert (found["kind"], found["unit"]) == ("fit of a model of the dynamics", "epochs")
    assert found["done"] == found["of"] == found["record"]["settings"]["epochs"]
    assert main(["describe", str(fitted)]) == 0
    text = capsys.readouterr().out
    assert "validation error" in text
    assert f"{found['done']} epochs of {found['of']}" in text
    out = tmp_path / "compared"
    words = ["compare", str(data), "--rows", "LTC", "GRU", "--seeds", "1", "--epochs", "1", "--out", str(out)]
    assert main(words) == 0
    capsys.readouterr()
    found = described(capsys, out)["run"]
    assert (found["done"], found["of"], found["unit"]) == (2, 2, "fits")
    (fitted / "curve.csv").rename(tmp_path / "curve.csv")
    try:
        (fitted / "curve.csv").write_text("epoch,loss,valid\n1,x,2\n")
        assert "curve.csv is not a readable curve" in refused(capsys, "describe", str(fitted))
    finally:
        (tmp_path / "curve.csv").rename(fitted / "curve.csv")


def test_bad_words_are_refused(capsys: pytest.CaptureFixture[str], data: Path, fitted: Path, tmp_path: Path) -> None:
    file, out = str(fitted / "best.safetensors"), tmp_path / "out"
    assert "add --data" in refused(capsys, "evaluate", file)
    assert "unknown cell 'ltcc'" in refused(capsys, "fit", str(data), "--cell", "ltcc", "--out", str(out))
    assert "is not a plan" in refused(capsys, "fit", str(data), "--wiring", "Auto(3)", "--out", str(out))
    assert "no file, folder or Minari dataset" in refused(capsys, "fit", "nowhere", "--out", str(out))
    assert "at least 1" in refused(capsys, "fit", str(data), "--epochs", "0", "--out", str(out))
    assert "members must be at least 1" in refused(capsys, "fit", str(data), "--members", "0", "--out", str(out))
    assert "threads must be at least 1" in refused(capsys, "fit", str(data), "--threads", "0", "--out", str(out))
    assert "no device 'tpu': choose cpu" in refused(capsys, "fit", str(data), "--device", "tpu", "--out", str(out))
    assert "workers must be at least 1" in refused(capsys, "compare", str(data), "--workers", "0", "--out", str(out))
    line = refused(capsys, "evaluate", str(fitted))
    assert f"{fitted} is a folder: name a file in it, such as {fitted}/best.safetensors" in line
    assert "holds a run already" in refused(capsys, "fit", str(data), "--actions", "--out", str(fitted))
    assert "there is no row" in refused(capsys, "compare", str(data), "--rows", "LTSM", "--out", str(out))
    assert "no rollout has 500 steps" in refused(capsys, "fit", str(data), "--length", "500", "--out", str(out))
    short = tmp_path / "short"
    short.mkdir()
    for k in range(3):
        np.save(short / f"{k}.npy", np.zeros((5, 2)))
    assert "no rollout has 32 steps" in refused(capsys, "compare", str(short), "--out", str(out))
    assert not out.exists()
    assert main(["compare", str(data), "--rows", "list"]) == 0
    assert "Neural ODE" in capsys.readouterr().out


def test_a_comparison_whose_fits_all_fail_says_so_with_the_first_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{1e25 * np.sin(k / 9)},{1e25 * np.cos(k / 9)}" for k in range(200)]
    (tmp_path / "huge.csv").write_text("\n".join(["x,y", *rows]))
    words = ["compare", str(tmp_path / "huge.csv"), "--rows", "CfC", "LTC", "--seeds", "1", "--epochs", "1"]
    words += ["--workers", "1", "--out", str(tmp_path / "compared")]
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert "failed" in out
    assert "all fits failed; the first, CfC: the loss of epoch 1 is not a finite number" in err.splitlines()[-1]
