"""An interrupted collection continues from its folder, and only by the plan that it was begun with."""

import errno
import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.children import Child
from helpers.collecting import same, short, steering, still
from helpers.gates import Gate, heed
from ncp_control.base import files
from ncp_control.data import collect
from ncp_control.data.collection import count_finished
from ncp_control.runs.folder import LOCK


@pytest.mark.system
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_collection_continues(tmp_path: Path, how: signal.Signals, workers: int) -> None:
    keep, gate = tmp_path / "keep", Gate(tmp_path / "gate", "rollout_*.npz", passes=4 // workers)

    def collect_until_the_gate() -> None:
        heed(gate.folder)
        collect(steering, short(), 12, seed=4, group=2, workers=workers, keep=keep, progress=False)

    child = Child(collect_until_the_gate, tmp_path)
    gate.wait_for(workers)
    os.kill(child.process, how)
    assert child.wait().code != 0
    child.wait_for_group()  # workers end with their parent
    assert count_finished(keep) == 4
    before = {path: path.stat().st_mtime_ns for path in keep.glob("rollout_*.npz")}
    resumed = collect(steering, short(), 12, seed=4, group=2, keep=keep, resume=True, progress=False)
    assert all(path.stat().st_mtime_ns == then for path, then in before.items())
    assert same(resumed, collect(steering, short(), 12, seed=4, group=2, progress=False))


def begun(folder: Path) -> None:
    """Leaves a collection in which one rollout is missing."""
    collect(steering, short(), 4, group=2, keep=folder, progress=False)
    (folder / "rollout_00003.npz").unlink()


@pytest.mark.parametrize("damage", ["empty", "cut short", "another rollout", "an archive of other things"])
def test_a_damaged_rollout_is_collected_again(tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str) -> None:
    begun(tmp_path)
    path = tmp_path / "rollout_00001.npz"
    whole = path.read_bytes()
    if damage == "another rollout":
        path.write_bytes((tmp_path / "rollout_00002.npz").read_bytes())
    elif damage == "an archive of other things":
        np.savez(path, other=np.ones(3))
    else:
        path.write_bytes(whole[: len(whole) // 2] if damage == "cut short" else b"")
    capsys.readouterr()
    resumed = collect(steering, short(), 4, group=2, keep=tmp_path, resume=True, progress=False)
    assert same(resumed, collect(steering, short(), 4, group=2, progress=False))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "rollout_00001.npz" in lines[0]
    assert lines[0].endswith("this rollout is collected again")
    assert path.read_bytes() == whole


def test_a_collection_does_not_continue_by_another_plan(tmp_path: Path) -> None:
    begun(tmp_path)
    with pytest.raises(ValueError, match="begun with another group and seed: use the same, or another folder"):
        collect(steering, short(), 4, seed=1, group=4, keep=tmp_path, resume=True, progress=False)
    with pytest.raises(ValueError, match="begun with another controller"):
        collect(still, short(), 4, group=2, keep=tmp_path, resume=True, progress=False)
    with pytest.raises(ValueError, match="begun with another deterministic"):
        collect(steering, short(), 4, group=2, deterministic=False, keep=tmp_path, resume=True, progress=False)


def test_a_collection_does_not_continue_with_another_function(tmp_path: Path) -> None:
    def pushing(force: float) -> Any:
        return lambda seen: np.full((len(seen), 1), force)

    class Pushing:
        def __call__(self, seen: Any) -> Any:
            return np.zeros((len(seen), 1))

    for one, other, words in (
        (pushing(0.0), pushing(1.0), "begun with another sha256"),
        (lambda seen: seen[:, :1] * 0, lambda seen: seen[:, :1] * 1, "begun with another sha256"),
        (Pushing(), Pushing(), "cannot be resumed, because Pushing is not a plain function"),
    ):
        keep = tmp_path / str(id(one))
        collect(one, short(), 4, group=2, keep=keep, progress=False)
        (keep / "rollout_00003.npz").unlink()
        with pytest.raises(ValueError, match=words):
            collect(other, short(), 4, group=2, keep=keep, resume=True, progress=False)
    keep = tmp_path / "same"
    collect(pushing(0.5), short(), 4, group=2, keep=keep, progress=False)
    (keep / "rollout_00003.npz").unlink()
    assert len(collect(pushing(0.5), short(), 4, group=2, keep=keep, resume=True, progress=False)) == 4


def test_a_task_that_an_earlier_version_wrote_with_its_wrapper_is_the_same_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)

    def collected(resume: bool) -> Any:
        spec = short("ncp_envs:ncp/HalfCheetahNoVel-v0", 5)
        return collect("random", spec, 4, group=2, keep=tmp_path / "keep", resume=resume, progress=False)

    whole = collected(False)
    record = tmp_path / "keep" / "plan.json"
    plan = json.loads(record.read_text())
    keep = {
        "name": "KeepObservations",
        "entry_point": "ncp_envs.observations:KeepObservations",
        "kwargs": {"indices": list(range(8)), "size": 17},
    }
    about = json.loads(plan["env"])
    before = {"entry_point": "ncp_envs.half_cheetah:HalfCheetah", "vector_entry_point": None}
    record.write_text(json.dumps(plan | {"env": json.dumps(about | before | {"additional_wrappers": [keep]})}))
    (tmp_path / "keep" / "rollout_00002.npz").unlink()
    assert same(collected(True), whole)
    noise = {"name": "PreviousAction", "entry_point": "ncp_envs.previous:PreviousAction", "kwargs": {}}
    record.write_text(json.dumps(plan | {"env": json.dumps(about | before | {"additional_wrappers": [keep, noise]})}))
    with pytest.raises(ValueError, match="was begun with another env"):
        collected(True)


def test_an_unfinished_collection_is_not_overwritten(tmp_path: Path) -> None:
    begun(tmp_path)
    with pytest.raises(FileExistsError, match="unfinished collection"):
        collect(steering, short(), 4, group=2, keep=tmp_path, progress=False)


def test_a_plan_without_rollouts_is_replaced(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="gave nan"):
        collect(lambda seen: np.full((len(seen), 1), np.nan), short(), 2, keep=tmp_path, progress=False)
    assert len(collect(steering, short(), 2, keep=tmp_path, progress=False)) == 2


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = 0

    def full(handle: int) -> None:
        nonlocal written
        written += 1
        if written > 3:  # the plan and two rollouts
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(files, "lock", full)  # the first thing done with a new file
        with pytest.raises(OSError, match="No space left"):
            collect(steering, short(), 4, group=2, keep=tmp_path, progress=False)
    left = sorted(path.name for path in tmp_path.iterdir() if path.name != LOCK)
    assert left == ["plan.json", "rollout_00000.npz", "rollout_00001.npz"]
    resumed = collect(steering, short(), 4, group=2, keep=tmp_path, resume=True, progress=False)
    assert same(resumed, collect(steering, short(), 4, group=2, progress=False))
