"""Fits and models of earlier versions keep the split that they were made with."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.oscillators import oscillators
from ncp_control.cli import main
from ncp_control.data import Rollouts
from ncp_control.data.sources import write_trace
from ncp_control.dynamics import DynamicsModel, FitSettings, fit, load_model
from ncp_control.dynamics.earlier_files import settings_of_run, split_of_model

FIT = ("--cell", "gru", "--units", "3", "--epochs", "1", "--length", "8", "--device", "cpu")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for k, rollout in enumerate(oscillators(5, 20)):
        write_trace(rollout, folder / f"{k}.npz")
    return folder


def names(rollouts: Rollouts) -> list[str]:
    return [rollout.name for rollout in rollouts]


def record_of(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "run.json").read_text()))


@pytest.mark.parametrize("members", [1, 2])
def test_a_fit_to_a_series_says_so_and_is_evaluated_on_the_latest(data: Path, tmp_path: Path, members: int) -> None:
    run = tmp_path / "run"
    assert main(["fit", str(data), *FIT, "--members", str(members), "--out", str(run)]) == 0
    assert record_of(run if members == 1 else run / "member-0")["data"]["series"] is True
    rollouts, note = Rollouts.load(data), load_model(run / "best.safetensors").note
    assert note["series"] is True
    assert names(split_of_model(rollouts, note).test) == ["3.npz", "4.npz"]


def test_a_fit_to_episodes_of_bare_traces_says_nothing_and_is_evaluated_on_them(data: Path, tmp_path: Path) -> None:
    rollouts, run = Rollouts.load(data), tmp_path / "run"
    parts = rollouts.split(series=False)
    assert names(parts.test) == ["1.npz", "2.npz"]
    fit(DynamicsModel.of(parts.train, "gru", 3), parts, FitSettings(epochs=1, length=8), out=run, progress=False)
    assert "series" not in record_of(run)["data"]
    assert names(split_of_model(rollouts, load_model(run / "best.safetensors").note).test) == ["1.npz", "2.npz"]


@pytest.mark.parametrize("note", [{"seed": 0, "epoch": 3, "valid": 1.0}, {"seed": 0, "members": 2}])
def test_a_model_fitted_to_episodes_is_not_evaluated_on_what_it_was_fitted_to(data: Path, note: dict[str, Any]) -> None:
    rollouts = Rollouts.load(data)
    assert names(split_of_model(rollouts, note).test) == ["1.npz", "2.npz"]
    assert names(split_of_model(rollouts, {}).test) == ["3.npz", "4.npz"]  # nothing tells of a fit
    assert split_of_model(rollouts[:1], note).test[0].steps == 8


def test_a_single_log_is_fitted_and_evaluated_in_time(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (rollout,), run = oscillators(1, 200), tmp_path / "run"
    np.save(tmp_path / "log.npy", rollout.observations)
    assert main(["fit", str(tmp_path / "log.npy"), *FIT, "--out", str(run), "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert record_of(run)["data"] == {"steps": [80, 40, 80], "series": True}
    words = ["evaluate", str(run / "best.safetensors"), "--data", str(tmp_path / "log.npy"), "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["rollouts"] == 1
    assert found["test_mse"] > 0


def test_a_fit_that_an_earlier_version_began_goes_on_with_its_horizon() -> None:
    settings = FitSettings()
    assert settings_of_run(settings, {}) == settings
    for before, after in ((1, 1), (0, 0), (7, 7), ("1", 0), (None, 0)):
        record = {"settings": {"horizon": before}}
        assert settings_of_run(settings, record).horizon == after
        assert settings_of_run(FitSettings(horizon=3), record).horizon == 3
