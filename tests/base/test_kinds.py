"""Every kind of file and folder is told from the others by its outside."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import ncp_control as nc
from ncp_control.activity import record_network
from ncp_control.base.kinds import FORMATS, RECORD, Kind, kind_of
from ncp_control.base.tensors import write_tensors

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "0.2.0"


@pytest.mark.parametrize(("kind", "expected"), FORMATS.items())
def test_our_safetensors_files_say_what_they_are(tmp_path: Path, kind: str, expected: Kind) -> None:
    for name in ("a.safetensors", "without_suffix"):
        write_tensors(tmp_path / name, kind, 1, {}, {"a": torch.ones(1)})
        assert kind_of(tmp_path / name) is expected


def test_files_of_an_earlier_version_are_told_apart() -> None:
    assert kind_of(GOLDEN / "model.safetensors") is Kind.DYNAMICS
    assert kind_of(GOLDEN / "recording.npz") is Kind.RECORDING
    assert {kind_of(path) for path in (GOLDEN / "agents").glob("*.safetensors")} == {Kind.POLICY}
    assert {kind_of(path) for path in (GOLDEN / "finished").glob("*/")} <= {Kind.RUN, Kind.ROLLOUTS}


def test_archives_are_told_by_their_members(tmp_path: Path) -> None:
    record_network(nc.RNN(nc.LTC(3, 4)), torch.zeros(2, 3), tmp_path / "run.npz")
    np.savez(tmp_path / "trace.npz", observations=np.ones((3, 2)))
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        for name in ("data", "policy.pth", "_stable_baselines3_version"):
            archive.writestr(name, "{}")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("letters.txt", "")
    assert kind_of(tmp_path / "run.npz") is Kind.RECORDING
    assert kind_of(tmp_path / "trace.npz") is Kind.ROLLOUTS
    assert kind_of(tmp_path / "model.zip") is Kind.STABLE_BASELINES
    assert kind_of(tmp_path / "other.zip") is None


def test_a_model_that_stable_baselines3_saves_is_one_of_its_models(tmp_path: Path) -> None:
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    stable_baselines3.A2C("MlpPolicy", "CartPole-v1", device="cpu").save(tmp_path / "model.zip")
    assert kind_of(tmp_path / "model.zip") is Kind.STABLE_BASELINES


def test_folders(tmp_path: Path) -> None:
    assert kind_of(tmp_path) is Kind.ROLLOUTS
    (tmp_path / RECORD).write_text("{}")
    assert kind_of(tmp_path) is Kind.RUN


def test_where_the_contents_do_not_tell_the_suffix_does(tmp_path: Path) -> None:
    expected = {
        "a.json": Kind.WIRING, "a.npy": Kind.ROLLOUTS, "a.npz": Kind.ROLLOUTS, "a.safetensors": Kind.NETWORK,
        "a.txt": None, "a": None,
    }  # fmt: skip
    for name, kind in expected.items():
        assert kind_of(tmp_path / name) is kind  # it does not exist
        for content in (b"", b"PK", b"PK\x03\x04 cut short", b"\xff" * 30, json.dumps({"a": 1}).encode()):
            (tmp_path / name).write_bytes(content)
            assert kind_of(tmp_path / name) is kind
    save_file({"a": torch.ones(1)}, tmp_path / "foreign.safetensors", {"format": "pt"})
    assert kind_of(tmp_path / "foreign.safetensors") is Kind.NETWORK


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes on this system")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.npz")
    assert kind_of(tmp_path / "a.npz") is Kind.ROLLOUTS


def test_telling_needs_no_torch() -> None:
    code = f"""
import sys
from ncp_control.base.kinds import kind_of
kind_of({str(GOLDEN / "model.safetensors")!r})
sys.exit("torch" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
