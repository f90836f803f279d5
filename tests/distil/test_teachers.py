"""Teachers that a word names: they act as the models that were saved, and what is no teacher is refused."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from helpers.teachers import MODELS, WITH_MEMORY, algo_of, forget_modules_in, model_of, observations_of, save, starts_of
from ncp_control.data.policy_hashes import hash_of_weights
from ncp_control.distil.collecting import Actor
from ncp_control.distil.teachers import about_teacher, load_teacher
from ncp_control.rl import load_policy, save_policy

STEPS, PLACES = 10, 3


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder, whose modules are forgotten after the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place not in ("", str(tmp_path))])
    yield tmp_path
    forget_modules_in(tmp_path)


def actions_of(teacher: Any, name: str, observations: Any, starts: Any) -> Any:
    """The actions of an actor."""
    actor = Actor(teacher, gym.make(MODELS[name][1]).action_space)
    actor.begin()
    return np.stack([actor.act(seen, begins) for seen, begins in zip(observations, starts, strict=True)])


def normalized(model: Any, observations: Any) -> Any:
    """Observations as the model was trained to read them."""
    wrapper = model.get_vec_normalize_env()
    if wrapper is None:
        return observations
    scaled = (observations - wrapper.obs_rms.mean) / np.sqrt(wrapper.obs_rms.var + wrapper.epsilon)
    return np.clip(scaled, -wrapper.clip_obs, wrapper.clip_obs).astype(np.float32)


def predicted(model: Any, observations: Any, starts: Any) -> Any:
    """The actions of the model's own `predict`, the state passed on by hand."""
    state, actions = None, []
    for seen, begins in zip(normalized(model, observations), starts, strict=True):
        action, state = model.predict(seen, state, begins, deterministic=True)
        actions.append(action)
    return np.stack(actions)


def predicted_alone(model: Any, observations: Any, starts: Any) -> Any:
    """The actions of the model's own `predict` in each place alone, every episode begun without a state."""
    found = []
    for place in range(PLACES):
        state, actions = None, []
        for seen, begins in zip(normalized(model, observations)[:, place], starts[:, place], strict=True):
            action, state = model.predict(seen, None if begins else state, np.array([begins]), deterministic=True)
            actions.append(action)
        found.append(np.stack(actions))
    return np.stack(found, axis=1)


@pytest.mark.parametrize("normalizes", [False, True], ids=["", "normalised"])
@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_acts_as_the_model_that_was_saved(name: str, normalizes: bool, tmp_path: Path) -> None:
    model, path = save(name, tmp_path, normalizes)
    teacher = load_teacher(str(path), algo_of(name), tmp_path / "vecnormalize.pkl" if normalizes else None)
    assert type(teacher) is type(model)
    observations, starts = observations_of(name, STEPS, PLACES), starts_of(STEPS, PLACES)
    actions = actions_of(teacher, name, observations, starts)
    assert len(np.unique(actions)) > 1
    assert_array_equal(actions, predicted(model, observations, starts))
    assert_allclose(actions, predicted_alone(model, observations, starts), atol=1e-5)
    without_starts = actions_of(teacher, name, observations, starts & (np.arange(STEPS) == 0)[:, None])
    assert np.array_equal(actions, without_starts) == (name not in WITH_MEMORY)


@pytest.mark.parametrize("name", ["PPO", "SAC", "RecurrentPPO", "RecurrentSAC"])
def test_a_policy_file_acts_as_the_model_that_was_saved(name: str, tmp_path: Path) -> None:
    model = model_of(name, normalizes=True)
    save_policy(model, tmp_path / "teacher.safetensors", {"algo": name, "env": MODELS[name][1]})
    teacher = load_teacher(str(tmp_path / "teacher.safetensors"))
    observations, starts = observations_of(name, STEPS, PLACES), starts_of(STEPS, PLACES)
    actions = actions_of(teacher, name, observations, starts)
    assert_allclose(actions, predicted(model, observations, starts), atol=1e-5)
    assert_allclose(actions, predicted_alone(model, observations, starts), atol=1e-5)


def test_a_function_of_a_module_in_the_working_folder_is_a_teacher(working_folder: Path) -> None:
    text = "class Group:\n    @staticmethod\n    def half(seen):\n        return seen[:, :1] / 2\n\n"
    text += "double = lambda seen: 2 * seen"
    (working_folder / "rules_of_thumb.py").write_text(text)
    teacher = load_teacher("rules_of_thumb:Group.half")
    observations, starts = observations_of("PPO", STEPS, PLACES), starts_of(STEPS, PLACES)
    assert_array_equal(actions_of(teacher, "PPO", observations, starts), np.clip(observations[..., :1] / 2, -2, 2))
    found = about_teacher(teacher)
    assert len(found["sha256"]) == 64
    about = {"name": "rules_of_thumb:Group.half", "kind": "function", "algorithm": None, "env": None}
    assert found == about | {"sha256": found["sha256"]}
    assert load_teacher(found["name"]) is teacher
    assert about_teacher(load_teacher("rules_of_thumb:double"))["name"] == "lambda"


class Remembering:
    """A teacher of one's own, with `predict` alone."""

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> Any:
        return np.zeros((len(observation), 1)), state


def test_an_object_with_predict_in_a_module_is_a_teacher(working_folder: Path) -> None:
    (working_folder / "made_elsewhere.py").write_text(
        "class Still:\n    predict = staticmethod(max)\n\nstill = Still()"
    )
    assert type(load_teacher("made_elsewhere:still")).__name__ == "Still"
    about = about_teacher(Remembering())
    assert about["kind"] == "object with predict"
    assert about["algorithm"].endswith("Remembering")
    assert about["sha256"] is None


def test_what_is_noted_about_a_model_says_what_it_is_and_tells_others_apart(tmp_path: Path) -> None:
    model, path = save("RecurrentPPO", tmp_path, normalizes=True)
    teacher = load_teacher(str(path), "RecurrentPPO", tmp_path / "vecnormalize.pkl")
    about = {"kind": "Stable-Baselines3", "algorithm": "ncp_control.RecurrentPPO", "sha256": hash_of_weights(model)}
    assert about_teacher(teacher) == about | {"name": "RecurrentPPO", "env": None}
    assert about_teacher(model) == about | {"name": "recurrentppo", "env": "Pendulum-v1"}
    unnormalized = about_teacher(load_teacher(str(path), "RecurrentPPO"))
    assert len({unnormalized["sha256"], about["sha256"]}) == 2
    _, other = save("contrib RecurrentPPO", tmp_path)
    assert about_teacher(load_teacher(str(other), "recurrentppo"))["algorithm"] == "sb3_contrib.RecurrentPPO"


def test_what_is_noted_about_a_policy_file_is_what_its_own_note_says(tmp_path: Path) -> None:
    path = tmp_path / "expert.safetensors"
    save_policy(model_of("SAC"), path, {"algo": "SAC", "env": "Pendulum-v1"})
    about = about_teacher(load_teacher(str(path)))
    sha256 = load_policy(path).sha256
    assert about == {
        "name": "expert", "kind": "policy file", "algorithm": "SAC", "sha256": sha256, "env": "Pendulum-v1"
    }  # fmt: skip
    assert json.loads(json.dumps(about)) == about
    save_policy(model_of("SAC"), path, {"algo": ["no", "text"]})
    assert about_teacher(load_teacher(str(path)))["algorithm"] is None


@pytest.mark.parametrize("teacher", [3, None, "teacher.zip", np.zeros(3)])
def test_what_cannot_act_is_no_teacher(teacher: Any) -> None:
    with pytest.raises(TypeError, match=r"a teacher is a model with predict or a function, not .*: load_teacher reads"):
        about_teacher(teacher)


@pytest.mark.parametrize("word", ["", "expert", "ncp/swing-v0", "data", "model.pth", "module:", ":function", "a:b.py"])
def test_a_word_that_names_no_teacher_is_refused_with_what_a_teacher_can_be(word: str, working_folder: Path) -> None:
    (working_folder / "data").mkdir()
    (working_folder / "a:b.py").touch()
    with pytest.raises(ValueError, match=r"is no teacher: give a policy's \.safetensors file, a \.zip of Stable-Base"):
        load_teacher(word)


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        (
            "nowhere_at_all:act",
            r"no teacher nowhere_at_all:act, because there is no module 'nowhere_at_all': run this",
        ),
        ("rules:walk", "there is no teacher rules:walk, because rules has no 'walk': correct the name"),
        ("rules:speed", "rules:speed is of the type float: name a function"),
        ("rules:Walker", "rules:Walker is a class: name a function"),
        (
            "lacking:act",
            "lacking, which has the teacher 'act', cannot be imported: No module named 'not_insta",
        ),
        ("empty_name:act", "empty_name, which has the teacher 'act', cannot be imported: cannot import name 'nothing'"),
        ("unfinished:act", "unfinished, which has the teacher 'act', cannot be imported: "),
        (".rules:act", r"\.rules, which has the teacher 'act', cannot be imported: "),
    ],
)
def test_a_function_that_cannot_be_had_is_refused(word: str, reason: str, working_folder: Path) -> None:
    for name, text in {
        "rules": "speed = 1.0\nclass Walker:\n    def predict(self): ...\n",
        "lacking": "import not_installed_here",
        "empty_name": "from json import nothing",
        "unfinished": "def act(",
    }.items():
        (working_folder / f"{name}.py").write_text(text)
    with pytest.raises(ValueError, match=reason):
        load_teacher(word)


def test_a_folder_of_a_run_is_refused_with_the_file_in_it(tmp_path: Path) -> None:
    (tmp_path / "best.safetensors").touch()
    with pytest.raises(ValueError, match=r"is a folder: name a file in it, such as .*best\.safetensors"):
        load_teacher(str(tmp_path))


def test_a_policy_file_that_is_missing_or_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "teacher.safetensors"
    with pytest.raises(FileNotFoundError, match="there is no checkpoint at"):
        load_teacher(str(path))
    save_policy(model_of("PPO"), path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ValueError, match=r"teacher\.safetensors"):
        load_teacher(str(path))


@pytest.mark.parametrize("word", ["teacher.safetensors", "math:cos"])
def test_options_of_a_zip_are_refused_without_one(word: str) -> None:
    with pytest.raises(ValueError, match=rf"--algo goes with a \.zip of Stable-Baselines3, and '{word}' is none: le"):
        load_teacher(word, algo="PPO")
    with pytest.raises(ValueError, match=r"--normalize goes with a \.zip"):
        load_teacher(word, normalize="vecnormalize.pkl")
