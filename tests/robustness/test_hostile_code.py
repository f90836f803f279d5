"""No file makes its reader import a module or run code."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers.command_line import refused_after_progress as refused
from helpers.forgeries import dataset, describe, forge, policy_file
from ncp_control.cli import main
from ncp_control.rl.recipes.recipe import load_recipe

pytest.importorskip("sb3_contrib")


def test_a_dataset_cannot_have_its_environment_made(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """For a dataset without its spaces, Minari makes the environment: by any function, with any arguments."""
    folder, mark = dataset(tmp_path / "data"), tmp_path / "ran"

    def change(metadata: dict[str, Any]) -> None:
        spec = json.loads(metadata["env_spec"])
        spec |= {"entry_point": "subprocess:check_output", "kwargs": {"args": ["touch", str(mark)]}}
        metadata["env_spec"] = json.dumps(spec)
        del metadata["observation_space"]

    describe(folder, change)
    assert "does not say its observation_space" in refused(capfd, "describe", folder)
    assert not mark.exists()


def test_a_policys_note_cannot_have_a_module_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Gymnasium imports the module before the colon of an id, which a user may choose, but not a file."""
    (tmp_path / "innocent.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.syspath_prepend(tmp_path)
    path = policy_file(tmp_path / "policy.safetensors")
    forge(path, lambda values: values["note"].update(env="innocent:Pendulum-v1"))
    for command in ("evaluate", "record", "ablate"):
        line = refused(capfd, command, path)
        assert "if importing innocent is safe, add --env innocent:Pendulum-v1" in line
    assert not (tmp_path / "ran").exists()
    assert main(["evaluate", str(path), "--env", "innocent:Pendulum-v1", "--episodes", "1", "--json"]) == 0
    assert (tmp_path / "ran").exists()
    sys.modules.pop("innocent")


def test_a_recipe_cannot_have_a_module_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Only a user may name the module, on the command line or in Python."""
    (tmp_path / "guileless.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    base, child, own = tmp_path / "base.yml", tmp_path / "child.yml", tmp_path / "own.yml"
    start = "algo: A2C\npolicy: MlpPolicy\nn_timesteps: 10\n"
    base.write_text(f"env: guileless:Pendulum-v1\n{start}")
    child.write_text(f"based_on: {base}\n")
    for path in (base, child):
        line = refused(capfd, "train", path, "--out", tmp_path / "run")
        assert "if importing guileless is safe, add --env guileless:Pendulum-v1" in line
        with pytest.raises(ValueError, match="if importing guileless is safe"):
            load_recipe(path, {"n_timesteps": 5})
    for key in ("policy", "algo", "env_wrapper", "normalize", "policy_kwargs", "learning_rate"):
        own.write_text(f"env: Pendulum-v1\n{start}")
        assert main(["train", str(own), "--set", f"{key}=guileless:x", "--out", str(tmp_path / "run")]) == 2
    for key in ("features_extractor_class", "optimizer_class", "activation_fn", "cell"):
        assert main(["train", str(own), "--set", f"policy_kwargs.{key}=guileless:x", "--out", "run"]) == 2
    own.write_text(f"env: GymV21Environment-v0\nenv_kwargs: {{env_id: guileless:x}}\n{start}")
    assert main(["train", str(own), "--out", str(tmp_path / "run")]) == 2
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "run").exists()
    words = ["train", str(child), "--set", "env=guileless:Pendulum-v1", "--out", str(tmp_path / "run")]
    assert main([*words, "--eval-episodes", "1"]) == 0
    assert (tmp_path / "ran").exists()
    sys.modules.pop("guileless")


def test_notes_of_the_wrong_kind(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = policy_file(tmp_path / "policy.safetensors")
    for note, words in (
        ({"env": 5}, "does not say which environment"),
        ({"env": "Pendulum-v1", "env_wrapper": 3}, "note on its environment"),
        ({"env": "Pendulum-v1", "env_kwargs": [1]}, "note on its environment"),
        ({"env": "Pendulum-v1", "env_kwargs": {"x": 1}}, "cannot be made"),
        ({"env": "Pendulum-v1", "env_wrapper": [{"History": {"x": 1}}]}, "cannot be made"),
        ({"env": "Pendulum-v1", "env_wrapper": [[1]]}, "there is no wrapper [1]"),
        ([1], "there should be a JSON object"),
    ):
        forge(path, lambda values, note=note: values.update(note=note))  # type: ignore[misc]
        assert words in refused(capfd, "evaluate", path)
