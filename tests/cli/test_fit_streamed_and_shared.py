"""`ncp-control fit` of data on disk, and under torchrun."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.oscillators import oscillators
from helpers.ranks import end_of_ranks
from ncp_control.cli import main
from ncp_control.data import streaming
from ncp_control.data.sources import write_trace
from ncp_control.dynamics import load_model


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for k, rollout in enumerate(oscillators(count=5, steps=60, actions=True)):
        write_trace(rollout, folder / f"trace{k}.npz")
    return folder


def words(data: Path, out: Path, *more: str) -> list[str]:
    return ["fit", str(data), "--actions", "--units", "6", "--epochs", "1", "--json", "--device", "cpu", "--out",
            str(out), *more]  # fmt: skip


def told(capsys: pytest.CaptureFixture[str], *all_words: str) -> Any:
    assert main(list(all_words)) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def weights(out: Path) -> torch.Tensor:
    return torch.cat([value.detach().reshape(-1) for value in load_model(out / "best.safetensors").parameters()])


def test_a_streamed_fit_is_the_same_fit(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = told(capsys, *words(data, tmp_path / "runs" / "here"))
    kept = told(capsys, *words(data, tmp_path / "runs" / "kept", "--stream", "yes"))
    monkeypatch.setattr(streaming, "memory_size", lambda: 1000)
    large = told(capsys, *words(data, tmp_path / "runs" / "large"))
    for found in (kept, large):
        for key in ("test_mse", "test_normalised_mse", "valid_mse", "parameters"):
            assert found[key] == here[key]
    for name in ("kept", "large"):
        assert torch.equal(weights(tmp_path / "runs" / name), weights(tmp_path / "runs" / "here"))
    assert len(here["peak_memory"]) == 1
    assert here["peak_memory"][0] > 2**26
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["here", "kept", "large"]


def test_an_unknown_way_to_read_is_refused(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(data, tmp_path / "run", "--stream", "maybe")) == 2
    assert "--stream is auto, yes or no, not 'maybe'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.system
def test_of_several_processes_the_first_one_speaks(data: Path, tmp_path: Path) -> None:
    first, second = end_of_ranks(2, lambda: main(words(data, tmp_path / "run")), tmp_path)
    assert (first.value, second.value) == (0, 0)
    # torch may warn of a machine's network in either
    assert not [line for line in second.output.splitlines() if line.startswith(("fitting", "ncp-control", "{"))]
    assert len(json.loads(first.output.splitlines()[-1])["peak_memory"]) == 2
    first, second = end_of_ranks(2, lambda: main(words(data, tmp_path / "run")), tmp_path)
    assert first.value == 2
    assert "run holds a run already: resume it (--resume), or choose another folder (--out)" in first.output
    assert "holds a run already" not in second.output


@pytest.mark.system
def test_torchrun_fits_as_one_process_does(data: Path, tmp_path: Path) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launcher, "-m", "ncp_control.cli", *words(data, tmp_path / "both")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = done.stdout.splitlines()
    assert len(json.loads(line)["peak_memory"]) == 2
    assert main(words(data, tmp_path / "alone")) == 0
    torch.testing.assert_close(weights(tmp_path / "both"), weights(tmp_path / "alone"), rtol=0, atol=1e-5)


def test_several_sources_are_fitted_together(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for k, rollout in enumerate(oscillators(count=5, steps=90, actions=True, seed=9)):
        write_trace(rollout, other / f"trace{k}.npz")
    found = [
        told(capsys, "fit", str(data), str(other), *words(data, tmp_path / name, *more)[2:])
        for name, more in (("here", ()), ("kept", ("--stream", "yes")))
    ]
    assert found[0]["test_mse"] == found[1]["test_mse"]
    record = json.loads((tmp_path / "here" / "run.json").read_text())
    assert record["data"]["steps"] == [2 * 60 + 2 * 90, 60 + 90, 2 * 60 + 2 * 90]  # each source is split by itself
    assert load_model(tmp_path / "here" / "best.safetensors").note["data"] == f"{data} {other}"
    resumed = told(capsys, "fit", str(data), str(other), *words(data, tmp_path / "here", "--resume")[2:])
    assert resumed["test_mse"] == found[0]["test_mse"]
    assert main(["fit", str(other), str(data), *words(data, tmp_path / "here", "--resume")[2:]]) == 2
