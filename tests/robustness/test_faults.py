"""What goes wrong around a run (a full disk, another process, numbers that are none) costs a sentence, not the work."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import helpers.odd_environments as odd_environments
from helpers.children import Child, run_in_child, wait_for
from helpers.long_commands import (
    collect_words,
    fit_words,
    same_dataset,
    same_fit,
    same_training,
    train_words,
)  # fmt: skip
from helpers.odd_environments import ID
from helpers.oscillators import oscillators
from ncp_control.cli import main
from ncp_control.data import collect
from ncp_control.data.environments import spec_of
from ncp_control.data.sources import write_trace
from ncp_control.storage.run_folder import LOCK, RECORD, Hold

pytest.importorskip("sb3_contrib")

RECIPE = """
env: {env}
algo: {algo}
n_timesteps: 96
env_kwargs: {{{kwargs}}}
normalize: {normalize}
policy_kwargs: {{wiring: "AutoNCP(7, 2)"}}
"""
ON_POLICY = "n_steps: 16\nbatch_size: 16\nn_epochs: 1\n"
OFF_POLICY = "learning_starts: 8\nbatch_size: 8\nsequence: 4\nburn_in: 2\nbuffer_size: 64\n"


def refused(capfd: pytest.CaptureFixture[str], *words: str | Path) -> str:
    """The one line on stderr of a command that must be refused with exit code 2, but for the line of its progress."""
    assert main([str(word) for word in words]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    return complaint(err)


def complaint(output: str) -> str:
    """The one line of an output that is no line of progress."""
    progress = ("training: ", "fitting: ", "collecting rollouts: ", "recording: ")
    (line,) = [line for line in output.splitlines() if not line.startswith(progress)]
    assert line.startswith("ncp-control: ")
    return line


def odd_recipe(folder: Path, algo: str = "RecurrentPPO", normalize: str = "true", **kwargs: Any) -> Path:
    """A recipe for an odd environment."""
    path = folder / "recipe.yml"
    written = ", ".join(f"{key}: {value}" for key, value in kwargs.items())
    text = RECIPE.format(env=ID, algo=algo, kwargs=written, normalize=normalize)
    path.write_text(text + (OFF_POLICY if algo == "RecurrentSAC" else ON_POLICY))
    return path


# Two at once


def compare_words(folder: Path) -> list[str]:
    (folder / "data").mkdir()
    for k, rollout in enumerate(oscillators(steps=40)):
        write_trace(rollout, folder / "data" / f"{k}.npz")
    return ["compare", str(folder / "data"), "--seeds", "1", "--epochs", "1", "--rows", "GRU", "--workers", "1"]


COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "train": lambda folder: train_words(folder, "RecurrentPPO"),
    "fit": fit_words,
    "collect": collect_words,
    "compare": compare_words,
}


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such lock on Windows")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_is_one_processs_alone(command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words, out = COMMANDS[command](tmp_path), tmp_path / "out"
    held = tmp_path / ".out.unfinished" if command == "collect" else out
    held.mkdir()

    def hold() -> None:
        with Hold(held):
            (tmp_path / "held").touch()
            time.sleep(600)

    other = Child(hold, tmp_path)
    assert wait_for((tmp_path / "held").exists)
    for more in ([], ["--resume"]):
        line = refused(capfd, *words, "--out", out, *more)
        assert f"{held} is in use by another process ({other.process}): wait for it" in line
    assert [path.name for path in held.iterdir()] == [LOCK]
    other.kill()
    other.wait()
    if command != "compare":  # which takes longer, and holds its folder by the same function
        assert main([*words, "--out", str(out), "--resume"]) == 0


def test_two_trainings_at_once(tmp_path: Path) -> None:
    words = train_words(tmp_path, "RecurrentPPO")
    assert main([*words, "--out", str(tmp_path / "whole")]) == 0
    both = [Child(lambda: main([*words, "--out", str(tmp_path / "out")]), tmp_path) for _ in range(2)]
    ended = sorted((child.wait() for child in both), key=lambda one: int(one.value))
    assert [one.value for one in ended] == [0, 2]
    line = complaint(ended[1].output)
    assert "is in use by another process" in line or "holds a run already" in line
    same_training(tmp_path / "whole", tmp_path / "out")


def test_a_hold_ends_with_its_block_and_sweeps(tmp_path: Path) -> None:
    (tmp_path / f".{RECORD}.123.tmp").write_text("half")
    (tmp_path / ".hidden.tmp").write_text("mine")
    with Hold(tmp_path), pytest.raises(BlockingIOError, match=rf"is in use by another process \({os.getpid()}\)"):
        Hold(tmp_path)
    Hold(tmp_path).release()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hidden.tmp", LOCK]


# Disks


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A small disk in memory, whose options can be changed."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = False

    def mount(options: str) -> Path:
        nonlocal mounted
        how = ["-o", f"remount,{options}"] if mounted else ["-t", "tmpfs", "-o", options, "tmpfs"]
        if not sys.platform.startswith("linux") or os.geteuid() != 0:
            pytest.skip("only root may mount a small disk")
        done = subprocess.run(["mount", *how, str(place)], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
        mounted = True
        return place

    yield mount
    if mounted:
        subprocess.run(["umount", "-l", str(place)], check=True)


SAME: dict[str, Callable[[Path, Path], None]] = {"train": same_training, "fit": same_fit, "collect": same_dataset}


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


MORE = [pytest.param(share / 20, marks=pytest.mark.slow) for share in range(1, 41) if share not in (6, 16)]


@pytest.mark.parametrize("share", [0.3, 0.8, *MORE])
@pytest.mark.parametrize("command", SAME)
def test_a_full_disk_and_then_a_larger_one(
    command: str,
    share: float,
    tmp_path: Path,
    disk: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NCP_CONTROL_FIT_SECONDS", "0")
    words = COMMANDS[command](tmp_path)
    assert main([*words, "--out", str(tmp_path / "whole")]) == 0
    place = disk(f"size={max(8192, int(share * size_of(tmp_path / 'whole')))}")
    ended = run_in_child(lambda: main([*words, "--out", str(place / "out")]), tmp_path)
    assert ended.code == 0, ended.output
    if share < 1 or ended.value != 0:  # temporary files need room, too
        assert ended.value == 2
        assert "No space left on device" in complaint(ended.output)
    assert not [path for path in place.rglob("*.tmp")]
    disk("size=50m")
    assert main([*words, "--out", str(place / "out"), "--resume"]) == 0
    SAME[command](tmp_path / "whole", place / "out")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="files are limited in a process of its own")
@pytest.mark.parametrize("command", ["train", "fit"])
def test_files_that_must_not_grow_so_large(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a full disk, for whoever may not mount one."""
    monkeypatch.setenv("NCP_CONTROL_FIT_SECONDS", "0")
    words = COMMANDS[command](tmp_path)
    assert main([*words, "--out", str(tmp_path / "whole")]) == 0
    limit = (tmp_path / "whole" / "state.safetensors").stat().st_size - 1

    def limited() -> int:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        return main([*words, "--out", str(tmp_path / "out")])  # Python ignores the signal that would end it

    ended = run_in_child(limited, tmp_path)
    assert (ended.code, ended.value) == (0, 2), ended.output
    assert "state.safetensors: File too large" in complaint(ended.output)
    assert main([*words, "--out", str(tmp_path / "out"), "--resume"]) == 0
    SAME[command](tmp_path / "whole", tmp_path / "out")


def test_a_recording_on_a_full_disk(
    tmp_path: Path, disk: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    policy = trained(tmp_path)
    capfd.readouterr()
    place = disk("size=16k")
    assert "No space left on device" in refused(capfd, "record", policy, "--steps", "500", "--out", place / "run.npz")
    assert not list(place.iterdir())


@pytest.mark.parametrize("command", SAME)
def test_a_folder_that_cannot_be_written(
    command: str, tmp_path: Path, disk: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    words = COMMANDS[command](tmp_path)
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "out"):
        line = refused(capfd, *words, "--out", out)
        assert "Not a directory" in line or "exists already" in line
    assert (tmp_path / "file").read_text() == "mine"
    place = disk("ro")
    assert "Read-only file system" in refused(capfd, *words, "--out", place / "out")


# Numbers that are none


def trained(folder: Path) -> Path:
    """An agent of the odd environment."""
    assert main(["train", str(odd_recipe(folder)), "--out", str(folder / "trained"), "--eval-episodes", "1"]) == 0
    return folder / "trained" / "best.safetensors"


@pytest.mark.parametrize("algo", ["RecurrentPPO", "RecurrentSAC"])
@pytest.mark.parametrize(
    ("bad", "value", "words"),
    [
        ("observation", "nan", "gave the observation [1] = nan at step 7 of an episode"),
        ("observation", "-inf", "gave the observation [1] = -inf at step 7 of an episode"),
        ("reward", "nan", "gave the reward nan at step 7 of an episode"),
        ("reward", "null", "gave the reward None at step 7 of an episode"),
    ],
)
def test_training_ends_at_the_first_number_that_is_none(
    algo: str, bad: str, value: str, words: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    recipe = odd_recipe(tmp_path, algo, bad=bad, at=71, value=value)
    settings = ["--checkpoint-every", "32", "--eval-every", "32", "--eval-episodes", "1"]
    assert main(["train", str(recipe), "--out", str(tmp_path / "run"), *settings]) == 2
    assert f"the environment {ID} {words}" in complaint(capfd.readouterr().err)
    # what was learnt before is there
    from ncp_control.rl import load_policy
    from ncp_control.rl.files.run_state import read_about

    assert read_about(tmp_path / "run" / "state.safetensors")["steps"] == 64
    weights = load_policy(tmp_path / "run" / "best.safetensors").policy.state_dict()
    assert all(bool(value.isfinite().all()) for value in weights.values())


def test_evaluating_recording_and_collecting_end_there(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from ncp_control.rl import load_policy
    from ncp_control.rl.files.policy_file import with_note

    policy = trained(tmp_path)
    capfd.readouterr()
    note = load_policy(policy).note
    for bad, at in (("observation", 0), ("observation", 3), ("reward", 3)):
        when = f"step {at} of an episode" if at else "the beginning of an episode"
        with_note(policy, tmp_path / "bad.safetensors", {**note, "env_kwargs": {"bad": bad, "at": at}})
        evaluated = refused(capfd, "evaluate", tmp_path / "bad.safetensors", "--json")
        assert f"the environment {ID} gave the {bad}" in evaluated
        assert when in evaluated
        recorded = refused(capfd, "record", tmp_path / "bad.safetensors", "--out", tmp_path / "run.npz")
        assert when in recorded
        assert not (tmp_path / "run.npz").exists()
        spec = copy.deepcopy(spec_of(ID))
        spec.kwargs = {"bad": bad, "at": at}
        with pytest.raises(ValueError, match=f"{ID} gave the {bad}.* at {when}"):
            collect("random", spec, 3, keep=tmp_path / f"keep-{bad}-{at}", progress=False)
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".run")]


def test_finished_rollouts_are_kept_when_a_later_one_fails(tmp_path: Path) -> None:
    spec = copy.deepcopy(spec_of(ID))
    spec.kwargs = {"bad": "reward", "at": 25}  # in the third episode of a process
    with pytest.raises(ValueError, match="gave the reward nan at step 5 of an episode"):
        collect("random", spec, 4, group=1, keep=tmp_path, progress=False)
    assert len(list(tmp_path.glob("rollout_*.npz"))) == 2


# Spaces


@pytest.mark.parametrize("algo", ["RecurrentPPO", "RecurrentSAC"])
@pytest.mark.parametrize("space", ["image", "tuple", "text", "nested", "empty", "number", "sequence"])
def test_observations_that_no_circuit_reads(
    algo: str, space: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    recipe = odd_recipe(tmp_path, algo, "false", observations=space)
    line = refused(capfd, "train", recipe, "--out", tmp_path / "run")
    assert "which no circuit reads" in line or "a circuit reads features, not images" in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("algo", "space"),
    [
        ("RecurrentPPO", "dict"), ("RecurrentPPO", "tuple"), ("RecurrentPPO", "unbounded"), ("RecurrentPPO", "empty"),
        ("RecurrentSAC", "discrete"), ("RecurrentSAC", "dict"), ("RecurrentSAC", "unbounded"),
    ],
)  # fmt: skip
def test_actions_that_no_circuit_gives(
    algo: str, space: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    line = refused(capfd, "train", odd_recipe(tmp_path, algo, actions=space), "--out", tmp_path / "run")
    assert f"{algo} does not give actions of" in line or "have no bounds" in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("space", ["discrete", "choices", "dict"])
def test_observations_that_become_vectors_are_learnt_from(space: str, tmp_path: Path) -> None:
    recipe = odd_recipe(tmp_path, "RecurrentPPO", "false", observations=space)
    assert main(["train", str(recipe), "--out", str(tmp_path / "run"), "--eval-episodes", "1"]) == 0
    assert main(["evaluate", str(tmp_path / "run" / "best.safetensors"), "--episodes", "1"]) == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"normalize": "{norm_x: 1}"}, "normalize does not fit VecNormalize"),
        ({"normalize": "true", "observations": "discrete"}, "VecNormalize only supports"),
        ({"strange": 1}, "cannot be made"),
    ],
)
def test_recipes_that_cannot_be_built(
    change: dict[str, Any], words: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert words in refused(capfd, "train", odd_recipe(tmp_path, **change), "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


# What is resumed


def test_a_damaged_folder_is_not_gone_on_with(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words, out = train_words(tmp_path, "RecurrentPPO"), tmp_path / "out"
    assert main([*words, "--out", str(out)]) == 0
    capfd.readouterr()
    for name in ("state.safetensors", RECORD):
        whole = (out / name).read_bytes()
        for content in (b"", whole[: len(whole) // 2], b"[1]", b"\x80\x04cos\nsystem\n(S'true'\ntR."):
            (out / name).write_bytes(content)
            assert str(out / name) in refused(capfd, *words, "--out", out, "--resume")
        (out / name).write_bytes(whole)
    assert main([*words, "--out", str(out), "--resume"]) == 0


def test_rollouts_without_their_plan_are_not_gone_on_with(tmp_path: Path) -> None:
    """They could be of another seed or controller."""
    collect("random", "CartPole-v1", 2, keep=tmp_path, progress=False)
    (tmp_path / "plan.json").unlink()
    with pytest.raises(ValueError, match="holds rollouts, but not the plan of them: remove the folder"):
        collect("random", "CartPole-v1", 2, seed=1, keep=tmp_path, resume=True, progress=False)


def test_a_finished_collection_says_so_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words, out = collect_words(tmp_path), tmp_path / "out"
    assert main([*words, "--out", str(out), "--json"]) == 0
    told = capfd.readouterr().out
    assert main([*words, "--out", str(out), "--json", "--resume", "--workers", "2"]) == 0
    assert capfd.readouterr().out == told
    assert "exists already" in refused(capfd, *words, "--out", out)
    assert "exists already" in refused(capfd, *words[:-1], "9", "--out", out, "--resume")  # another seed


def test_a_fit_of_damaged_data(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words, out = fit_words(tmp_path), tmp_path / "out"
    values = np.ones((40, 2))
    values[3, 1] = np.nan
    np.savez(tmp_path / "data" / "trace9.npz", observations=values)
    assert "trace9.npz: observations[3, 1] is nan" in refused(capfd, *words, "--out", out)
    assert not out.exists()


assert odd_environments  # registers its environment
