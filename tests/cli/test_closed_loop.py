"""`ncp-control dynamics`, as a person meets it."""

import json
from pathlib import Path

import numpy as np
import pytest

from helpers.command_line import ROOT, refused
from ncp_control.activity import Activity
from ncp_control.cli import main

pytest.importorskip("matplotlib")

SWIMMER = str(ROOT / "checkpoints" / "swimmer-teacher.safetensors")
FEW = ("--starts", "1", "--thrown", "1", "--steps", "100", "--measured", "50")


def test_it_prints_tables_and_writes_a_page_and_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    html, figures = tmp_path / "page.html", tmp_path / "figures"
    assert main(["dynamics", SWIMMER, *FEW, "--html", str(html), "--figures", str(figures)]) == 0
    out, err = capsys.readouterr()
    assert "swimmer-teacher in Swimmer-v5, without noise: 8 numbers of the body, 0 neurons, 2 actions" in " ".join(
        out.split()
    )
    assert f"page: {html}" in out
    assert "settling" in err
    assert html.stat().st_size > 10_000
    assert {path.name for path in figures.iterdir()} >= {"attractors.svg", "spectrum.svg"}


def test_recordings_begin_on_the_attractors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runner = str(ROOT / "checkpoints" / "halfcheetah-positions-sparse.safetensors")
    few = ("--starts", "1", "--thrown", "10", "--steps", "400", "--measured", "50")
    assert main(["dynamics", runner, *few, "--record", str(tmp_path / "found"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    for letter, one in zip("ABCDEF", report["attractors"], strict=False):
        activity = Activity.load(tmp_path / "found" / f"{letter}.npz")
        assert activity.steps == 300
        assert activity.about["note"]["attractor"] == one["kind"]
        if one["kind"] == "rest":  # from its first step on, without a way back to it
            assert np.ptp(activity.observations, axis=0).max() < 1e-3
        else:
            assert np.mean(activity.extras["rewards"]) == pytest.approx(one["reward"], abs=1.0)
    kinds = {one["kind"] for one in report["attractors"]}
    assert "chaos" in kinds
    assert kinds & {"rest", "cycle"}  # which of the two is chance


def test_json_is_one_object_and_the_same_seed_gives_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for _ in range(2):
        assert main(["dynamics", SWIMMER, *FEW, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1]
    assert found[0]["agent"] == "swimmer-teacher"


def test_what_cannot_be_analysed_is_refused_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "ncp-control convert model.zip" in refused(capsys, "dynamics", "model.zip")
    model = str(ROOT / "checkpoints" / "halfcheetah-dynamics.safetensors")
    assert "holds a dynamics model" in refused(capsys, "dynamics", model)
    assert "does not exist" in refused(capsys, "dynamics", SWIMMER, "--html", str(tmp_path / "no" / "page.html"))
    assert "has no circuit" in refused(capsys, "dynamics", SWIMMER, "--record", str(tmp_path / "found"))
    assert "takes an agent with a circuit" in refused(capsys, "dynamics", SWIMMER, *FEW, "--synapses")
    assert "add --record DIR" in refused(capsys, "dynamics", SWIMMER, "--lab", str(tmp_path / "lab.html"))
    assert "would overwrite" in refused(capsys, "dynamics", SWIMMER, "--html", SWIMMER)
