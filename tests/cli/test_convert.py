"""`ncp-control convert`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("sb3_contrib")

from helpers.command_line import refused
from helpers.teachers import save
from ncp_control.cli import main
from ncp_control.rl import load_policy

pytestmark = pytest.mark.system


def test_a_converted_lstm_is_described_and_evaluated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save("contrib RecurrentPPO", tmp_path, normalizes=True)
    monkeypatch.chdir(tmp_path)
    words = ["convert", "contrib-RecurrentPPO.zip", "--algo", "recurrentppo", "--normalize", "vecnormalize.pkl"]
    words += ["--env", "Pendulum-v1", "--out", "agent.safetensors"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "its circuit has 8 LSTM neurons, 3 inputs and 88 synapses" in out
    assert "its critic's own LSTM is in the new file too" in out
    assert "on 300 observations: its actions differ by at most" in out
    assert load_policy("agent.safetensors").note["algo"] == "RecurrentPPO"
    assert main(["evaluate", "agent.safetensors", "--episodes", "1"]) == 0
    assert main([*words, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert summary["units"] == 8
    assert summary["normalizes_observations"]


def test_a_plain_network_is_converted_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, path = save("DQN", tmp_path)
    assert main(["convert", str(path), "--algo", "DQN", "--out", str(tmp_path / "agent.safetensors")]) == 0
    out = capsys.readouterr().out
    assert "parameters, without a circuit" in out
    assert "of its choices all are the same" in out
    assert "--env ID" in out
    assert "audit" not in out


def test_a_wrong_algorithm_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, path = save("DQN", tmp_path)
    out = ("--out", str(tmp_path / "agent.safetensors"))
    assert "was saved by DQN, not by PPO: add --algo DQN" in refused(
        capsys, "convert", str(path), "--algo", "PPO", *out
    )
    assert "--algo DQN: one of" in refused(capsys, "convert", str(path), *out)
    words = ("convert", str(path), "--algo", "DQN", "--synapses", "100", *out)
    assert "--synapses goes with a network, and" in refused(capsys, *words)
    assert not (tmp_path / "agent.safetensors").exists()
