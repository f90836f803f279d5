"""Files that lead to other files, or are broken: none is followed, and each gets one sentence."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load, save

from helpers.command_line import refused_after_progress as refused
from helpers.forgeries import dataset, policy_file, small_model
from ncp_control.base.tensors import checksum
from ncp_control.data import Rollouts

pytest.importorskip("sb3_contrib")


def test_a_pipe_among_traces_is_not_waited_for(tmp_path: Path) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("there are no named pipes on this system")
    os.mkfifo(tmp_path / "a.npy")
    np.save(tmp_path / "b.npy", np.ones((3, 2)))
    assert [rollout.name for rollout in Rollouts.load(tmp_path)] == ["b.npy"]


def test_a_state_sets_nothing_but_counters(tmp_path: Path) -> None:
    """A run's state names attributes of the model; only counters are set."""
    from stable_baselines3 import PPO

    from ncp_control.rl.files.run_state import COUNTERS, load_state, save_state

    model = PPO("MlpPolicy", "Pendulum-v1", n_steps=4, batch_size=4, device="cpu")
    path = tmp_path / "state.safetensors"
    save_state(model, path, {})
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    metadata = json.loads(content[8 : 8 + length])["__metadata__"]
    state = json.loads(metadata["state"])
    state["counters"]["predict"] = 5
    metadata["state"] = json.dumps(state)
    tensors = load(content)
    metadata["sha256"] = checksum(metadata, ("state", "about"), tensors)
    path.write_bytes(save(tensors, metadata))
    load_state(model, path)
    assert callable(model.predict)
    assert "predict" not in COUNTERS


def test_commands_refuse_broken_files_in_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    policy = policy_file(tmp_path / "policy.safetensors").read_bytes()
    model = small_model(tmp_path / "model.safetensors").read_bytes()
    np.savez(tmp_path / "whole.npz", observations=np.ones((3, 2)))
    trace = (tmp_path / "whole.npz").read_bytes()
    broken = tmp_path / "broken.safetensors"
    for content in (b"", b"\xff" * 8, policy[:-1], policy[:300], model[:-1], struct.pack("<Q", 2**40) + policy[8:]):
        broken.write_bytes(content)
        for command in (["describe"], ["evaluate"], ["record"], ["ablate"], ["collect", "--policy"]):
            assert str(broken) in refused(capfd, *command, broken)
    for content in (b"", trace[:-30], trace[:40] + trace[60:]):
        (tmp_path / "broken.npz").write_bytes(content)
        for command in (["describe"], ["view"], ["fit"], ["compare"]):
            assert "broken.npz" in refused(capfd, *command, tmp_path / "broken.npz")
    found = dataset(tmp_path / "data")
    (found / "data" / "main_data.hdf5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    for command in (["describe"], ["fit"], ["compare"]):
        assert "not a readable Minari dataset" in refused(capfd, *command, found)
    (tmp_path / "recipe.yml").write_text("a: &a [*a]")
    assert "recipe.yml is not YAML of plain values: a value holds itself" in refused(
        capfd, "train", tmp_path / "recipe.yml"
    )
    assert "gamma=[ is not YAML" in refused(capfd, "train", "pendulum-positions", "--set", "gamma=[")
