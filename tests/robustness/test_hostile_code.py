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
