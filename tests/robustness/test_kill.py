"""Commands that are killed at any moment and resumed end with the same results.

A first run without a kill counts the moments at which it is about to change a file. Then the same command runs again
and again in a process that is killed at one of these moments, sometimes with half of a file still missing before its
rename. It is resumed with --resume, perhaps killed once more, and compared with the first run: tensors bit for bit,
curves, datasets, tables. At most one checkpoint interval is lost.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from numpy.testing import assert_array_equal

from helpers.children import Child, in_child, run_in_child, wait_for_group
from helpers.forgeries import policy_file
from helpers.gates import Gate, heed
from helpers.level_datasets import run_script
from helpers.level_runs import level_run
from helpers.long_commands import (
    EVERY,
    RECIPES,
    Words,
    collect_words,
    distil_further_words,
    distil_recorded_words,
    distil_stock_words,
    distil_words,
    fit_words,
    same_dataset,
    same_distillation,
    same_distillation_further,
    same_fit,
    same_tensors,
    same_training,
    train_words,
    write_data,
)
from helpers.moments import Moments, spread
from helpers.waiting import wait_until
from ncp_control.base.tensors import read_tensors
from ncp_control.cli import main
from ncp_control.data import Rollouts
from ncp_control.dynamics import comparison
from ncp_control.dynamics.comparison import Comparison, choose_rows, compare
from ncp_control.dynamics.fit_loop import FORMAT, VERSION
from ncp_control.rl.files.run_state import read_about
from ncp_control.runs.run import STATE

pytest.importorskip("sb3_contrib")
pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system"),
]

KILLS = 50  # in the slow tests; trainings are killed 15 times with each algorithm


def clean(folder: Path) -> list[str]:
    """Lists the files that should be gone once the work is done."""
    return [str(path) for path in folder.rglob("*") if path.name.endswith((".tmp", ".unfinished"))]


def kept_of_training(out: Path) -> int:
    """Counts the checkpoints of a training that are on disk."""
    return int(read_about(out / STATE)["steps"]) // EVERY if (out / STATE).exists() else 0


def kept_of_fit(out: Path) -> int:
    """Counts the epochs of a fit that are on disk."""
    if not (out / STATE).exists():
        return 0
    metadata, _ = read_tensors(out / STATE, FORMAT, VERSION, ("state",), "ncp-control fit")
    return len(json.loads(metadata["state"])["curve"])


def kept_of_collection(out: Path) -> int:
    """Counts the rollouts of a collection that are on disk."""
    return 5 if out.exists() else len(list(out.parent.glob(".out.unfinished/rollout_*.npz")))


def command(words: Words, out: Path, kill_at: int | None = None, half: bool = False) -> tuple[int, list[Any]]:
    """Runs a command in this process, which may be killed; returns the number of moments and the renames."""
    out.parent.mkdir(exist_ok=True)
    moments = Moments(out.parent, kill_at, half)
    code = main([*words, "--out", str(out), "--json"])
    assert code == 0
    return moments.count, moments.renamed


def killed_and_resumed(
    words: Words,
    folder: Path,
    kills: int,
    same: Callable[[Path, Path], None],
    kept: Callable[[Path], int] | None,
    monkeypatch: pytest.MonkeyPatch,
    seed: int = 0,
) -> None:
    """Kills and resumes a command at `kills` moments that are drawn from the seed.

    :param words: the command
    :param folder: an empty folder
    :param kills: how many moments
    :param same: asserts that two folders hold the same results
    :param kept: counts how much of the work is on disk
    """
    random = Random(seed)
    monkeypatch.setenv("NCP_CONTROL_FIT_SECONDS", "0")  # a checkpoint after each epoch
    assert main([*words, "--out", str(folder / "whole" / "out")]) == 0
    moments, renamed = in_child(lambda: command(words, folder / "counted" / "out"), folder)
    assert renamed
    same(folder / "whole" / "out", folder / "counted" / "out")
    for kill, moment in enumerate(spread(moments, kills, random)):
        place = folder / f"killed-{kill}"
        out = place / "out"
        half = bool(kill % 2)
        ended = run_in_child(lambda: command(words, out, moment, half), folder)  # noqa: B023 (called here and now)
        assert ended.code == -signal.SIGKILL, ended.output
        if kept is not None:
            done = [name for when, name in renamed if when < moment and name.startswith((STATE, "rollout_"))]
            assert kept(out) == len(done), f"killed at moment {moment} of {moments}"
        if kill % 3 == 2:  # and once more
            again = 1 + random.randrange(moments)
            ended = run_in_child(lambda: command([*words, "--resume"], out, again), folder)  # noqa: B023
            assert ended.code in (0, -signal.SIGKILL), ended.output
        in_child(lambda: command([*words, "--resume"], out), folder)  # noqa: B023
        same(folder / "whole" / "out", out)
        assert not clean(place), f"killed at moment {moment} of {moments}"


@pytest.mark.parametrize(("algorithm", "kills"), [("RecurrentPPO", 5), ("RecurrentSAC", 2), ("DQN", 2)])
def test_a_training(algorithm: str, kills: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_and_resumed(train_words(tmp_path, algorithm), tmp_path, kills, same_training, kept_of_training, monkeypatch)


def test_a_distillation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_and_resumed(distil_words(tmp_path), tmp_path, 4, same_distillation, None, monkeypatch)


@pytest.mark.slow
def test_a_distillation_that_is_pruned_and_fine_tuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = distil_further_words(tmp_path)
    killed_and_resumed(words, tmp_path, 5, same_distillation_further, None, monkeypatch)


def test_a_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_and_resumed(fit_words(tmp_path), tmp_path, 8, same_fit, kept_of_fit, monkeypatch)


def test_a_collection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_and_resumed(collect_words(tmp_path), tmp_path, 8, same_dataset, kept_of_collection, monkeypatch)


def test_an_ensemble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def same(one: Path, other: Path) -> None:
        same_tensors(one, other, ("best.safetensors", "member-0/state.safetensors", "member-1/state.safetensors"))

    killed_and_resumed([*fit_words(tmp_path), "--members", "2"], tmp_path, 2, same, None, monkeypatch)


def test_a_killed_command_line(tmp_path: Path) -> None:
    words, gate = train_words(tmp_path, "RecurrentPPO"), Gate(tmp_path / "gate", STATE, passes=2)
    process = gate.start([*words, "--out", str(tmp_path / "out")])
    assert gate.wait_for() == [process.pid]
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert kept_of_training(tmp_path / "out") == 2
    assert main([*words, "--out", str(tmp_path / "out"), "--resume"]) == 0
    assert main([*words, "--out", str(tmp_path / "whole")]) == 0
    same_training(tmp_path / "whole", tmp_path / "out")


def test_a_killed_recording_is_gone_after_the_next_one(tmp_path: Path) -> None:
    policy, place = policy_file(tmp_path / "policy.safetensors"), tmp_path / "place"
    place.mkdir()
    words = ["record", str(policy), "--env", "Pendulum-v1"]
    child = Child(lambda: main([*words, "--steps", "100000000", "--out", str(place / "one.npz")]), tmp_path)
    wait_until(lambda: any(path.is_dir() and any(path.iterdir()) for path in place.iterdir()), "a recording's rows")
    child.kill()
    assert child.wait().code == -signal.SIGKILL
    assert [path.name for path in place.iterdir()] != []
    assert main([*words, "--steps", "5", "--out", str(place / "two.npz")]) == 0
    assert [path.name for path in place.iterdir()] == ["two.npz"]


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found as Linux shows them")


@linux
def test_a_collection_whose_parent_or_worker_is_killed(tmp_path: Path) -> None:
    words = ["collect", "--env", "CartPole-v1", "--episodes", "5", "--group", "1", "--seed", "3"]
    keep = tmp_path / ".out.unfinished"

    def start(gate: Gate, *more: str) -> Child:
        def run() -> int:
            heed(gate.folder)
            return main([*words, "--out", str(tmp_path / "out"), "--workers", "2", *more])

        return Child(run, tmp_path)

    gate = Gate(tmp_path / "gate", "rollout_*.npz")
    parent = start(gate)
    gate.wait_for(2)  # each has finished one rollout
    parent.kill()
    assert parent.wait().code == -signal.SIGKILL
    parent.wait_for_group()  # workers end with their parent
    assert len(list(keep.glob("rollout_*.npz"))) == 2

    gate = Gate(tmp_path / "gate of the resumed one", "rollout_*.npz", passes=0)
    parent = start(gate, "--resume")
    worker, _ = gate.wait_for(2)
    os.kill(worker, signal.SIGKILL)
    ended = parent.wait()
    assert (ended.code, ended.value) == (0, 2)
    assert "a worker process ended with code -9" in ended.output.splitlines()[-1]
    parent.wait_for_group()
    assert len(list(keep.glob("rollout_*.npz"))) == 2

    assert main([*words, "--out", str(tmp_path / "out"), "--resume"]) == 0
    assert main([*words, "--out", str(tmp_path / "whole")]) == 0
    same_dataset(tmp_path / "whole", tmp_path / "out")
    assert not keep.exists()


@pytest.mark.slow
@linux
def test_a_comparison_whose_parent_or_worker_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCP_CONTROL_FIT_SECONDS", "0")
    write_data(tmp_path / "data")
    out, row = tmp_path / "out", choose_rows(("GRU",))
    what = Comparison(str(tmp_path / "data"), seeds=1, epochs=5)
    settings = ["--seeds", "1", "--epochs", "5", "--rows", "GRU", "--workers", "1"]
    words = ["compare", what.source, *settings, "--out", str(out)]
    fit = out / "fits" / "gru-s0"

    gate = Gate(tmp_path / "gate", STATE, passes=2)
    parent = gate.start(words)
    (worker,) = gate.wait_for()
    os.kill(worker, signal.SIGKILL)
    _, told = parent.communicate()
    assert parent.returncode == 2, told
    assert "\nncp-control: its process was ended by SIGKILL" in f"\n{told}"
    assert "Traceback" not in told
    assert kept_of_fit(fit) == 2

    gate = Gate(tmp_path / "gate of the resumed one", STATE)
    parent = gate.start([*words, "--resume"])
    gate.wait_for()
    parent.kill()
    parent.communicate()
    assert parent.returncode == -signal.SIGKILL
    wait_for_group(parent.pid)
    assert kept_of_fit(fit) == 3

    compare(what, out, row, workers=1, resume=True, progress=False)
    whole = tmp_path / "whole" / "gru-s0"
    comparison.fit_row(row[0], 0, what, lambda *told: None, fits=str(whole.parent))  # never stopped, in this process
    same_fit(whole, fit)
    one, other = (json.loads((folder / "result.json").read_text()) for folder in (whole, fit))
    assert one["error"] == other["error"] > 0
    assert f"{other['error']:.4g}" in (out / "table.txt").read_text()


DISTILLATIONS = {
    "distil": (distil_words, same_distillation),
    "distil a stock agent": (distil_stock_words, same_distillation),
    "distil recorded episodes": (distil_recorded_words, same_distillation),
    "distil further": (distil_further_words, same_distillation_further),
}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", [*RECIPES, *DISTILLATIONS, "fit", "collect"])
def test_many_moments(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "fit":
        killed_and_resumed(fit_words(tmp_path), tmp_path, KILLS, same_fit, kept_of_fit, monkeypatch, seed=1)
    elif kind == "collect":
        words = collect_words(tmp_path)
        killed_and_resumed(words, tmp_path, KILLS, same_dataset, kept_of_collection, monkeypatch, seed=1)
    elif kind in DISTILLATIONS:
        words_of, same = DISTILLATIONS[kind]
        killed_and_resumed(words_of(tmp_path), tmp_path, KILLS, same, None, monkeypatch, seed=1)
    else:
        words, kills = train_words(tmp_path, kind), KILLS if kind == "masks" else 15
        killed_and_resumed(words, tmp_path, kills, same_training, kept_of_training, monkeypatch, seed=1)


@pytest.mark.slow
def test_levels_of_data_are_made_on_after_kills(tmp_path: Path) -> None:
    run = level_run(tmp_path / "run")
    words = [run, "--rollouts", "3", "--reference-episodes", "4", "--random", "0.05"]
    levels = ("random", "medium", "expert")

    def make(out: Path, kill_at: int | None = None) -> int:
        out.mkdir(exist_ok=True)
        moments = Moments(out, kill_at)
        assert run_script(*words, "--out", out) == 0
        return moments.count

    moments = in_child(lambda: make(tmp_path / "whole"), tmp_path)
    for kill, moment in enumerate(spread(moments, KILLS, Random(1))):
        out = tmp_path / f"killed-{kill}"
        ended = run_in_child(lambda: make(out, moment), tmp_path)  # noqa: B023 (called here and now)
        assert ended.code == -signal.SIGKILL, ended.output
        in_child(lambda: make(out), tmp_path)  # noqa: B023
        for level in levels:
            whole, found = (
                Rollouts.load(f / "ncp" / "pendulum" / f"{level}-r05-v0") for f in (tmp_path / "whole", out)
            )
            assert len(whole) == len(found) == 3
            for one, other in zip(whole, found, strict=True):
                assert_array_equal(one.observations, other.observations)
                assert_array_equal(one.actions, other.actions)
        assert not clean(out), f"killed at moment {moment} of {moments}"
