"""The demonstration script with its smallest settings: what it writes, and that it continues and repeats itself."""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

pytest.importorskip("matplotlib")

ROOT = Path(__file__).parents[2]
MODELS = {"LTC NCP", "LTC dense", "LSTM", "linear", "persistence"}
First = tuple[Path, dict[str, Any]]


def call(*words: str | Path) -> str:
    """Returns what the script prints with one seed and the smallest settings."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, str(ROOT / "scripts" / "noisy_chaos.py"), "--quick", "--seeds", "1", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def runs(folder: Path) -> list[dict[str, Any]]:
    return json.loads((folder / "results.json").read_text())["runs"]


def errors(rows: list[dict[str, Any]]) -> dict[tuple[str, float], float]:
    return {(row["model"], row["noise"]): row["test_error"] for row in rows}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> First:
    """A folder that two processes filled, and the JSON object that was printed."""
    folder = tmp_path_factory.mktemp("first")
    return folder, json.loads(call("--jobs", "2", "--json", "--out", folder))


@pytest.fixture
def script(import_script: Callable[[str], Any]) -> Any:
    return import_script("noisy_chaos")


@pytest.mark.slow
def test_writes_numbers_for_every_model_and_a_picture(first: First) -> None:
    folder, printed = first
    assert {path.name for path in folder.iterdir()} == {"results.json", "results.csv", "noisy_chaos.png"}
    assert (folder / "noisy_chaos.png").read_bytes().startswith(b"\x89PNG")
    with (folder / "results.csv").open(newline="") as file:
        table = {(row["model"], row["noise"]): float(row["test_error"]) for row in csv.DictReader(file)}
    assert set(printed["test_error"]) == MODELS
    for model, by_noise in printed["test_error"].items():
        assert set(by_noise) == {"0.0", "0.3"}
        for noise, values in by_noise.items():
            assert values == [table[model, noise]]
            assert 0 < values[0] < 2


@pytest.mark.slow
def test_networks_have_nearly_the_same_number_of_parameters(first: First) -> None:
    parameters = first[1]["parameters"]
    assert abs(parameters["LTC NCP"] - parameters["LSTM"]) <= 4
    assert abs(parameters["LTC dense"] / parameters["LSTM"] - 1) < 0.15


@pytest.mark.slow
def test_noise_harms_a_forecast_and_least_squares_beat_persistence(first: First) -> None:
    linear, persistence = (first[1]["test_error"][model] for model in ("linear", "persistence"))
    assert linear["0.0"] < linear["0.3"]
    assert linear["0.0"] < persistence["0.0"]


@pytest.mark.slow
def test_does_only_what_is_missing_and_gets_the_same_numbers(first: First, tmp_path: Path) -> None:
    """A kept run has a mark instead of its error; the mark would be gone if the run had been done again."""
    before = runs(first[0])
    missing = {("LTC NCP", 0.3), ("LSTM", 0.0), ("linear", 0.3)}
    kept = [row for row in before if (row["model"], row["noise"]) not in missing]
    marked = next(row for row in kept if (row["model"], row["noise"]) == ("LTC dense", 0.0))
    expected = errors(before) | {("LTC dense", 0.0): 0.125}
    marked["test_error"] = 0.125
    (tmp_path / "results.json").write_text(json.dumps({"runs": kept}))
    printed = call("--jobs", "1", "--out", tmp_path)
    assert f"{len(before)} runs, {len(kept)} of them done before" in printed
    assert "0.125 ± 0.000" in printed
    assert errors(runs(tmp_path)) == expected
    assert max(map(len, printed.splitlines())) <= 100


def test_no_window_crosses_a_cut(script: Any) -> None:
    run = script.Run("lorenz", "LSTM", 0.1, 0, train=100, valid=60, test=60)
    data = script.Data(run)
    parts = [(data.overlapping, 0, 100), (data.train, 0, 100), (data.valid, 100, 160), (data.test, 160, 220)]
    for times, start, end in parts:
        assert times.min() >= start
        assert times.max() + 1 < end


@pytest.mark.parametrize("name", ["lorenz", "mackey-glass"])
def test_the_same_seed_gives_the_same_series_and_another_seed_another(script: Any, name: str) -> None:
    one, same, other = (script.SERIES[name](50, script.np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert len(one) == 50
    assert (one == same).all()
    assert abs(one - other).max() > 0.01


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seeds", "0"], "--seeds must be at least 1, got 0"),
        (["--parameters", "20"], "--parameters must be at least 100, got 20"),
        (["--noise", "0", "-0.1"], "--noise must be finite and at least 0, got -0.1 0"),
        (["--series", "tent"], "argument --series: invalid choice: 'tent'"),
    ],
)
def test_says_in_one_line_what_is_wrong(
    script: Any, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        script.main(words)
    printed = capsys.readouterr()
    assert stopped.value.code == 2
    assert printed.out == ""
    assert printed.err.startswith(f"noisy_chaos: {message}")
    assert printed.err.count("\n") == 1


def test_refuses_results_that_it_did_not_write(script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "results.json").write_text('{"episodes": 3}')
    assert script.main(["--quick", "--out", str(tmp_path)]) == 2
    assert "is not a file of this script" in capsys.readouterr().err
    assert (tmp_path / "results.json").read_text() == '{"episodes": 3}'
