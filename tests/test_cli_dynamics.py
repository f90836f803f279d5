"""`fit`, `compare`, and what `evaluate` and `describe` say of a model."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ncp_control.cli import main
from ncp_control.data.sources import write_trace
from oscillators import oscillators


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for k, rollout in enumerate(oscillators(count=5, steps=120, actions=True)):
        write_trace(rollout, folder / f"trace{k}.npz")
    return folder


@pytest.fixture(scope="module")
def fitted(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "fit"
    assert main(["fit", str(data), "--actions", "--wiring", "AutoNCP(9, 3)", "--epochs", "2", "--out", str(out)]) == 0
    return out


def told(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main(list(words)) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 2
    found = capsys.readouterr().err.strip()
    assert len(found.splitlines()) == 1
    return found


def test_fit_tells_what_came_of_it(capsys: pytest.CaptureFixture[str], data: Path, tmp_path: Path) -> None:
    words = ["fit", str(data), "--cell", "gru", "--units", "5", "--epochs", "3", "--json"]
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


def test_fit_an_ensemble(capsys: pytest.CaptureFixture[str], data: Path, tmp_path: Path) -> None:
    out = tmp_path / "both"
    found = told(capsys, "fit", str(data), "--cell", "mlp", "--units", "4", "--epochs", "1", "--members", "2", "--out",
                 str(out), "--json")  # fmt: skip
    assert found["epochs"] == 2
    assert main(["describe", str(out / "best.safetensors")]) == 0
    assert capsys.readouterr().out.count("mlp, 4 neurons") == 2


def test_evaluate_a_model(capsys: pytest.CaptureFixture[str], data: Path, fitted: Path, tmp_path: Path) -> None:
    file, pictures = str(fitted / "best.safetensors"), tmp_path / "pictures"
    found = told(capsys, "evaluate", file, "--data", str(data), "--figures", str(pictures), "--json")
    assert found["one_step"]["raw"] == pytest.approx(np.mean([row["raw"] for row in found["observations"]]))
    assert [row["horizon"] for row in found["open_loop"]] == [1, 5, 10, 20, 50]
    assert found["long_run"]["real"]["energy"] > 0
    names = {Path(name).name for name in found["figures"]}
    assert names == {"traces.png", "horizon.png", "errors.png", "time-constants.png"}
    assert main(["evaluate", file, "--data", str(data)]) == 0
    text = capsys.readouterr().out
    assert "steps without looking" in text
    assert "left to itself" in text


def test_describe_a_model(capsys: pytest.CaptureFixture[str], fitted: Path) -> None:
    assert main(["describe", str(fitted / "best.safetensors")]) == 0
    text = capsys.readouterr().out
    assert "LTC, 9 neurons" in text
    assert "actions       1" in text


def test_bad_words_are_refused(capsys: pytest.CaptureFixture[str], data: Path, fitted: Path, tmp_path: Path) -> None:
    file, out = str(fitted / "best.safetensors"), tmp_path / "out"
    assert "add --data" in refused(capsys, "evaluate", file)
    assert "unknown cell 'ltcc'" in refused(capsys, "fit", str(data), "--cell", "ltcc", "--out", str(out))
    assert "is not a plan" in refused(capsys, "fit", str(data), "--wiring", "Auto(3)", "--out", str(out))
    assert "no file, folder or Minari dataset" in refused(capsys, "fit", "nowhere", "--out", str(out))
    assert "at least 1" in refused(capsys, "fit", str(data), "--epochs", "0", "--out", str(out))
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
