"""Files of Stable-Baselines3: which algorithm wrote them, what loading them does, and files that are refused."""

import base64
import json
import pickle
import random
import sys
import zipfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import SAC, HerReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from helpers.teachers import MODELS, algo_of, forget_modules_in, model_of, save
from ncp_control.distil.stock_files import ALGORITHMS, Spaces
from ncp_control.distil.teachers import load_teacher

ALIKE = ({"TD3", "DDPG"}, {"RecurrentPPO", "RecurrentA2C"})  # nothing in the files tells these apart


class Trap:
    """Unpickling it makes a file.

    :param path: the file
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (open, (str(self.path), "w"))


def with_members(path: Path, changes: dict[str, bytes | None]) -> None:
    """Rewrites some members of a `.zip`, or leaves them out."""
    with zipfile.ZipFile(path) as archive:
        members: dict[str, bytes | None] = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (members | changes).items():
            if content is not None:
                archive.writestr(name, content)


def set_trap(path: Path, trap: Path) -> None:
    """Puts a pickle that makes a file in the place of one in a model's file."""
    with zipfile.ZipFile(path) as archive:
        settings = json.loads(archive.read("data"))
    settings["policy_class"][":serialized:"] = base64.b64encode(pickle.dumps(Trap(trap))).decode()
    with_members(path, {"data": json.dumps(settings).encode()})
    trap.unlink(missing_ok=True)


@pytest.mark.parametrize("name", MODELS)
def test_a_file_of_another_algorithm_is_refused_with_the_right_one(name: str, tmp_path: Path) -> None:
    _, path = save(name, tmp_path)
    right = next((pair for pair in ALIKE if name in pair), {algo_of(name)})
    for other in set(ALGORITHMS) - right:
        with pytest.raises(ValueError, match=rf"was saved by .*{algo_of(name)}.*, not by {other}: add --algo"):
            load_teacher(str(path), other)


def test_a_file_without_an_algorithm_is_refused_with_the_names(tmp_path: Path) -> None:
    _, path = save("TQC", tmp_path)
    with pytest.raises(ValueError, match=r"TQC\.zip was trained with, --algo TQC: one of PPO, A2C, SAC, TD3, DDPG"):
        load_teacher(str(path))
    with pytest.raises(ValueError, match=r"there is no algorithm 'REINFORCE' to load .*TQC\.zip with: choose one of"):
        load_teacher(str(path), "REINFORCE")


def test_one_sentence_warns_that_loading_runs_code(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _, path = save("PPO", tmp_path, normalizes=True, verbose=1)
    capfd.readouterr()
    load_teacher(str(path), "PPO")
    said = f"loading {path} runs code from it: load only files whose origin you know\n"
    assert capfd.readouterr() == ("", said)
    load_teacher(str(path), "ppo", tmp_path / "vecnormalize.pkl")
    both = f"{path} and {tmp_path / 'vecnormalize.pkl'}"
    assert capfd.readouterr() == ("", f"loading {both} runs code from them: load only files whose origin you know\n")


@pytest.mark.parametrize("algo", [None, "SAC", "nothing"])
def test_nothing_is_unpickled_before_the_algorithm_is_known_to_be_right(algo: str | None, tmp_path: Path) -> None:
    _, path = save("PPO", tmp_path)
    trap = tmp_path / "trap"
    set_trap(path, trap)
    with pytest.raises(ValueError, match=r"PPO\.zip"):
        load_teacher(str(path), algo)
    with pytest.raises(FileNotFoundError, match="there is no VecNormalize at"):
        load_teacher(str(path), "PPO", tmp_path / "missing.pkl")
    assert not trap.exists()
    with pytest.raises(ValueError, match="cannot be loaded as a model of PPO, or is damaged"):
        load_teacher(str(path), "PPO")
    assert trap.exists()


@pytest.mark.parametrize("name", ["PPO", "SAC", "RecurrentPPO"])
def test_loading_leaves_everybodys_random_numbers_alone(name: str, tmp_path: Path) -> None:
    _, path = save(name, tmp_path)
    for set_seed in (torch.manual_seed, np.random.seed, random.seed):  # which the model's own seed would undo
        set_seed(5)
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # type: ignore[index]
    load_teacher(str(path), algo_of(name))
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # type: ignore[index]
    assert random.getstate() == before[2]


@pytest.mark.parametrize("name", ["SAC", "DQN", "RecurrentTD3"])
def test_a_teacher_keeps_no_memory_for_a_replay_buffer(name: str, tmp_path: Path) -> None:
    _, path = save(name, tmp_path, buffer_size=500_000)
    assert load_teacher(str(path), algo_of(name)).replay_buffer.observations.nbytes < 10_000


class Goals(gym.Env[Any, Any]):
    """An environment with goals, for a model with hindsight."""

    def __init__(self) -> None:
        part = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        keys = ("observation", "achieved_goal", "desired_goal")
        self.observation_space = gym.spaces.Dict(dict.fromkeys(keys, part))
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)


def test_a_model_with_hindsight_is_loaded_without_its_environment(tmp_path: Path) -> None:
    made = {"replay_buffer_class": HerReplayBuffer, "learning_starts": 10, "buffer_size": 1000}
    model = SAC("MultiInputPolicy", Goals(), policy_kwargs={"net_arch": [8]}, device="cpu", **made)  # type: ignore[arg-type]
    model.save(tmp_path / "reach.zip")
    seen = {key: np.full((2, 2), 0.5, dtype=np.float32) for key in model.observation_space.spaces}  # type: ignore[attr-defined]
    teacher = load_teacher(str(tmp_path / "reach.zip"), "SAC")
    assert np.array_equal(teacher.predict(seen, deterministic=True)[0], model.predict(seen, deterministic=True)[0])


def test_a_layer_of_ones_own_is_found_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from torch import nn\n\nclass Softer(nn.Softplus):\n    pass\n"
    (tmp_path / "own_layers.py").write_text(text)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    from own_layers import Softer  # type: ignore[import-not-found]

    monkeypatch.setitem(MODELS["PPO"][3], "activation_fn", Softer)
    _, path = save("PPO", tmp_path)
    sys.path.remove(str(tmp_path))
    forget_modules_in(tmp_path)
    with pytest.raises(ValueError, match=r"there is no module 'own_layers': run this in the folder of own_layers\.py"):
        load_teacher(str(path), "PPO")
    monkeypatch.chdir(tmp_path)
    assert load_teacher(str(path), "PPO").policy.activation_fn.__name__ == "Softer"
    forget_modules_in(tmp_path)


def test_the_statistics_of_a_teachers_observations_stay_as_they_are(tmp_path: Path) -> None:
    model, path = save("PPO", tmp_path, normalizes=True)
    wrapper = load_teacher(str(path), "PPO", tmp_path / "vecnormalize.pkl").get_vec_normalize_env()
    assert isinstance(wrapper, VecNormalize)
    assert (wrapper.training, wrapper.norm_reward, wrapper.norm_obs) == (False, False, True)
    assert np.array_equal(wrapper.obs_rms.mean, model.get_vec_normalize_env().obs_rms.mean)  # type: ignore[union-attr]


@pytest.mark.parametrize("env", ["CartPole-v1", "MountainCarContinuous-v0"])
def test_normalisation_of_other_observations_is_refused(env: str, tmp_path: Path) -> None:
    _, path = save("PPO", tmp_path)
    VecNormalize(DummyVecEnv([lambda: gym.make(env)])).save(str(tmp_path / "other.pkl"))
    with pytest.raises(ValueError, match=r"other\.pkl does not fit .*PPO\.zip, whose observations .*shape.*: name"):
        load_teacher(str(path), "PPO", tmp_path / "other.pkl")


def test_normalisation_of_observations_within_other_bounds_is_refused(tmp_path: Path) -> None:
    _, path = save("PPO", tmp_path)
    model = model_of("PPO")
    wide = Spaces(model)
    wide.observation_space = gym.spaces.Box(-99.0, 99.0, (3,), np.float32)
    VecNormalize(DummyVecEnv([lambda: wide])).save(str(tmp_path / "wide.pkl"))
    with pytest.raises(ValueError, match=r"wide\.pkl does not fit .*PPO\.zip, whose observations are others"):
        load_teacher(str(path), "PPO", tmp_path / "wide.pkl")


@pytest.mark.parametrize("content", [b"", b"no pickle", pickle.dumps({"mean": 0.0})])
def test_what_is_no_vecnormalize_is_refused(content: bytes, tmp_path: Path) -> None:
    _, path = save("PPO", tmp_path)
    (tmp_path / "odd.pkl").write_bytes(content)
    with pytest.raises(ValueError, match=r"odd\.pkl cannot be loaded as a VecNormalize \(.+\): name the file that its"):
        load_teacher(str(path), "PPO", tmp_path / "odd.pkl")


def test_a_file_that_is_missing_or_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.zip").mkdir()
    for name in ("missing.zip", "folder.zip"):
        with pytest.raises(FileNotFoundError, match=f"there is no model at .*{name}"):
            load_teacher(str(tmp_path / name), "PPO")


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_file_that_was_cut_short_is_refused(share: float, tmp_path: Path) -> None:
    _, path = save("PPO", tmp_path)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(
        ValueError, match=r"PPO\.zip is no file that .*, or was cut short \(.+\): name such a file, or copy"
    ):
        load_teacher(str(path), "PPO")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"data": None},
            r"PPO\.zip is no file that a model of Stable-Baselines3 was saved in, .* \(it has no data\): name",
        ),
        ({"policy.pth": None}, r"PPO\.zip is no file that .* was saved in, or was cut short \(it has no policy\.pth\)"),
        ({"data": b"[]"}, r"PPO\.zip is no file that .* was saved in, or was cut short \(its data are no settings\)"),
        ({"data": b"not JSON"}, r"PPO\.zip is no file that .* was saved in, or was cut short"),
        ({"data": b"{}"}, r"PPO\.zip cannot be loaded as a model of PPO, or is damaged \(.+\): save it again with"),
        ({"policy.pth": b"no tensors"}, r"PPO\.zip cannot be loaded as a model of PPO, or is damaged"),
    ],
)
def test_a_zip_without_a_model_is_refused(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    _, path = save("PPO", tmp_path)
    with_members(path, changes)
    with pytest.raises(ValueError, match=reason):
        load_teacher(str(path), "PPO")


def test_a_byte_that_was_changed_is_noticed(tmp_path: Path) -> None:
    _, path = save("PPO", tmp_path)
    with zipfile.ZipFile(path) as archive:
        place = archive.getinfo("policy.pth").header_offset + 2000
    content = bytearray(path.read_bytes())
    content[place] ^= 255
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"PPO\.zip cannot be loaded as a model of PPO, or is damaged"):
        load_teacher(str(path), "PPO")
