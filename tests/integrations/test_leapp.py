"""Agents as bundles of LEAPP, run by its own runtime: `python scripts/clients.py leapp`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from helpers.command_line import printed
from helpers.small_agents import KINDS, small_agent
from ncp_control.export import export_leapp
from ncp_control.rl.monitor import Monitor

pytestmark = pytest.mark.clients
leapp = pytest.importorskip("leapp")
pytest.importorskip("onnxruntime")

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["halfcheetah", "halfcheetah-teacher"])
def test_a_shipped_agent_acts_as_its_bundle_for_a_thousand_steps(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "robot")
    text = printed(capsys, "export", str(ROOT / "checkpoints" / f"{name}.safetensors"), "--to", "leapp", "--out", out)
    found = text.split("greatest difference of an action is ")[1].split()[0].rstrip(".")
    assert "over 1,000 steps of its environment by LEAPP 0.7" in text
    assert float(found) < 1e-5
    described = yaml.safe_load((tmp_path / "robot" / "controller.yaml").read_text())
    assert described["pipeline"]["configs"] == {"frequency": pytest.approx(20.0)}
    (action,) = [one for one in described["models"]["policy"]["outputs"] if one["name"] == "action"]
    assert action["element_names"] == [None, ["bthigh", "bshin", "bfoot", "fthigh", "fshin", "ffoot"]]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_agent_acts_as_its_bundle(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_agent(kind, tmp_path)
    words = ("--to", "leapp", "--out", str(tmp_path / "robot"), "--steps", "230", "--json")
    found = json.loads(printed(capsys, "export", str(tmp_path / f"{kind}.safetensors"), *words))
    assert found["checked_by"].startswith("LEAPP 0.7")
    assert (found["steps"], found["refused"]) == (230, "")
    assert found["difference"] <= (0 if kind == "choices" else 1e-5)


def test_the_elapsed_time_and_flags_are_there_for_an_agent_that_has_them(tmp_path: Path) -> None:
    agent = small_agent("timed", tmp_path)
    ranges = [-1] * 3, [1] * 3, [-9] * 9, [9] * 9
    export_leapp(agent, tmp_path / "robot", Monitor(*ranges, sha256=agent.sha256))  # type: ignore[arg-type]
    runner = leapp.InferenceManager(str(tmp_path / "robot" / "controller.yaml"))
    assert runner.inputs == ["policy/observation", "policy/elapsed"]
    found = runner.run_policy({"policy/observation": torch.full((1, 3), 3.0), "policy/elapsed": torch.full((1,), 0.5)})
    assert found["policy/flags"].tolist() == [2]


def test_the_readme_says_how_to_run_it(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    small_agent("circuit", tmp_path)
    printed(capsys, "export", str(tmp_path / "circuit.safetensors"), "--to", "leapp", "--out", str(tmp_path / "robot"))
    text = (tmp_path / "robot" / "README.txt").read_text()
    lines = text.split("Use it")[1].split("\n\n")[0].splitlines()[1:]
    monkeypatch.chdir(tmp_path / "robot")
    names: dict[str, Any] = {}
    exec("\n".join(line.strip() for line in lines), names)
    assert names["action"].shape == (1, 1)
