"""A replay buffer in a run's file: every number that the networks read comes back, in about a third of the room."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import SAC
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from helpers.stock_models import Anything
from ncp_control.base.tensors import CheckpointError, pack, read_tensors, write_tensors
from ncp_control.rl.files import run_state as replay_rows
from ncp_control.rl.files.run_state import DESCRIBED, FORMAT, VERSION, load_state, save_state

DIGITS = spaces.Box(-1.0, 1.0, (17,), np.float64)
SPACES: dict[str, spaces.Space[Any]] = {
    "float64": DIGITS,
    "float32": spaces.Box(-1.0, 1.0, (3,), np.float32),
    "choices": spaces.Discrete(5),
    "dict": spaces.Dict(a=DIGITS, b=spaces.MultiBinary(3)),
}
# Of the observations, and whether a VecNormalize, which refuses choices, normalises them.
KINDS = [*((name, False) for name in SPACES), *((name, True) for name in SPACES if name != "choices")]


def model_of(space: spaces.Space[Any], normalize: bool = False, rows: int = 60) -> Any:
    envs: Any = DummyVecEnv([lambda: Anything(space)] * 2)
    keys = ["a"] if isinstance(space, spaces.Dict) else None
    envs = VecNormalize(envs, norm_obs_keys=keys) if normalize else envs
    policy = "MultiInputPolicy" if isinstance(space, spaces.Dict) else "MlpPolicy"
    kwargs = {"net_arch": [2]}
    return SAC(policy, envs, buffer_size=rows, learning_starts=10**6, seed=0, device="cpu", policy_kwargs=kwargs)


@pytest.mark.parametrize("steps", [0, 1, 26, 30, 47], ids=lambda steps: f"{steps} steps")
@pytest.mark.parametrize(("name", "normalize"), KINDS)
def test_a_buffer_comes_back(
    name: str, normalize: bool, steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its 30 rows of 2 environments, whose episodes have 5 steps, are compared 7 at a time."""
    monkeypatch.setattr(replay_rows, "CHUNK", 7)
    model, again = model_of(SPACES[name], normalize), model_of(SPACES[name], normalize)
    if steps:
        model.learn(2 * steps)
    ours, theirs = model.replay_buffer, again.replay_buffer
    if steps and name == "float32":
        ours.next_observations[0, 0, 0] = -ours.next_observations[0, 0, 0] * 0  # zeros of either sign are apart
        ours.observations[1 % ours.buffer_size, 0, 0] = 0.0
    save_state(model, tmp_path / "state.safetensors", {})
    load_state(again, tmp_path / "state.safetensors")
    assert (theirs.pos, theirs.full, theirs.size()) == (ours.pos, ours.full, min(steps, 30))
    for key, array in replay_rows.arrays_of(ours):
        wanted = array[: ours.size()]
        if "observations" in key and not normalize and wanted.dtype == np.float64:
            wanted = wanted.astype(np.float32).astype(np.float64)
        found = dict(replay_rows.arrays_of(theirs))[key][: ours.size()]
        assert found.tobytes() == wanted.tobytes(), key
    save_state(again, tmp_path / "again.safetensors", {})
    files = [tmp_path / f"{name}.safetensors" for name in ("state", "again")]
    assert len({read_tensors(path, FORMAT, VERSION, DESCRIBED, "a test")[0]["sha256"] for path in files}) == 1


def test_the_networks_read_the_same_from_a_buffer_that_came_back(tmp_path: Path) -> None:
    model, again = model_of(DIGITS), model_of(DIGITS)
    model.learn(80)
    save_state(model, tmp_path / "state.safetensors", {})
    load_state(again, tmp_path / "state.safetensors")
    batches = []
    for one in (model, again):
        np.random.seed(0)
        batch = one.replay_buffer.sample(64)
        batches.append([batch.observations.float(), batch.actions, batch.next_observations.float(), batch.rewards])
    for ours, theirs in zip(*batches, strict=True):
        assert (ours == theirs).all()


def test_a_row_of_a_half_cheetah_takes_a_third_of_its_room_in_memory(tmp_path: Path) -> None:
    model = SAC(
        "MlpPolicy", gym.make("HalfCheetah-v5"), buffer_size=3000, device="cpu", policy_kwargs={"net_arch": [1]}
    )
    save_state(model, tmp_path / "empty.safetensors", {})
    buffer: Any = model.replay_buffer
    before = np.random.default_rng(0).normal(size=buffer.observations.shape)
    buffer.observations[:], buffer.next_observations[:] = before, np.roll(before, -1, axis=0)
    buffer.full = True
    save_state(model, tmp_path / "full.safetensors", {})
    added = (tmp_path / "full.safetensors").stat().st_size - (tmp_path / "empty.safetensors").stat().st_size
    in_memory = sum(array.nbytes for _, array in replay_rows.arrays_of(buffer))
    assert added < 0.35 * in_memory


def test_a_file_of_version_1_with_whole_arrays_fills_the_buffer_too(tmp_path: Path) -> None:
    path, model, again = tmp_path / "state.safetensors", model_of(DIGITS), model_of(DIGITS)
    model.learn(80)
    save_state(model, path, {})
    metadata, tensors = read_tensors(path, FORMAT, VERSION, DESCRIBED, "a test")
    ours, theirs = (dict(replay_rows.arrays_of(one.replay_buffer)) for one in (model, again))
    state = json.loads(metadata["state"])
    buffer = model.replay_buffer
    state["replay"] = pack({"pos": buffer.pos, "full": buffer.full, "arrays": ours}, tensors)
    write_tensors(path, FORMAT, 1, {"state": json.dumps(state), "about": metadata["about"]}, tensors)
    load_state(again, path)
    assert again.replay_buffer.full
    for name, array in ours.items():
        assert theirs[name].tobytes() == array.tobytes()


def test_a_file_with_observations_in_places_that_do_not_exist_is_refused(tmp_path: Path) -> None:
    path, model = tmp_path / "state.safetensors", model_of(DIGITS)
    model.learn(20)
    save_state(model, path, {})
    metadata, tensors = read_tensors(path, FORMAT, VERSION, DESCRIBED, "a test")
    place = next(name for name, value in tensors.items() if value.dtype == torch.int64)
    for wrong in (-1, 20):
        changed = {**tensors, place: tensors[place].clone()}
        changed[place][0] = wrong
        write_tensors(path, FORMAT, VERSION, {key: metadata[key] for key in DESCRIBED}, changed)
        with pytest.raises(CheckpointError, match="a replay buffer of 10 rows has no observation"):
            load_state(model_of(DIGITS), path)
