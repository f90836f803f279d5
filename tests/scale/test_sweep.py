"""Sweeps in processes of this machine: what they find, what a failure does, and what a resumption repeats."""

from __future__ import annotations

import csv
import json
from collections.abc import Generator, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.job_places import Deadly, Here
from helpers.long_commands import DISTIL_FAST, distil_words, fit_words
from helpers.sweeping import contents, small_sweep
from ncp_control.base.processes import Event, Job, Processes
from ncp_control.rl.files.run_state import read_about
from ncp_control.runs.curve import read_curve
from ncp_control.scale import Sweep, sweep
from ncp_control.scale.sweep import commands_of

pytest.importorskip("sb3_contrib")
RUNS = [f"small-learning_rate={rate}-s{seed}" for seed in (0, 1) for rate in ("lin_3e-3", "1e-3")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a sweep that ran without an interruption, in this process."""
    folder = tmp_path_factory.mktemp("whole")
    found = sweep(small_sweep(folder), folder / "out", Here(), command="a command", progress=False)
    assert found.failed == {}
    return folder / "out"


def test_a_sweep_leaves_its_runs_their_table_and_their_curves(whole: Path) -> None:
    assert sorted(path.name for path in (whole / "runs").iterdir()) == sorted(RUNS)
    rows = list(csv.DictReader((whole / "table.csv").open(newline="")))
    assert [row["setting"] for row in rows] == ["small learning_rate=lin_3e-3", "small learning_rate=1e-3"]
    for row, rate in zip(rows, ("lin_3e-3", "1e-3"), strict=True):
        best = [
            max(point["mean_return"] for point in read_curve(whole / "runs" / f"small-learning_rate={rate}-s{seed}"))
            for seed in (0, 1)
        ]
        assert float(row["best_return_mean"]) == pytest.approx(np.mean(best))
        assert float(row["best_return_std"]) == pytest.approx(abs(best[0] - best[1]) / np.sqrt(2))
        assert (row["seeds"], row["finished"], float(row["steps_mean"])) == ("2", "2", 192)
    assert (whole / "curves.png").stat().st_size > 5000
    assert json.loads((whole / "run.json").read_text())["command"] == "a command"
    record = json.loads((whole / "runs" / RUNS[0] / "run.json").read_text())
    assert record["command"].startswith("ncp-control train inputs/small.yml --seed 0 --set learning_rate=lin_3e-3 ")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_processes_find_what_this_process_finds(whole: Path, tmp_path: Path) -> None:
    found = sweep(small_sweep(tmp_path), tmp_path / "out", Processes(2), progress=False)
    assert found.failed == {}
    assert contents(tmp_path / "out") == contents(whole)


@pytest.mark.system
def test_an_interrupted_sweep_runs_only_what_is_missing(whole: Path, tmp_path: Path) -> None:
    what, out = small_sweep(tmp_path), tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        sweep(what, out, Here(stop_before=3), progress=False)
    rows = list(csv.DictReader((out / "table.csv").open(newline="")))
    assert [row["finished"] for row in rows] == ["2", "1"], "the table of what is finished is there"
    with pytest.raises(FileExistsError, match="holds a run already: resume it"):
        sweep(what, out, Here(), progress=False)
    place = Here()
    sweep(what, out, place, resume=True, progress=False)
    assert place.ran == RUNS[3:]
    assert contents(out) == contents(whole)
    again = Here()
    sweep(what, out, again, resume=True, progress=False)
    assert again.ran == []
    assert contents(out) == contents(whole)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_that_was_cut_short_continues_from_its_checkpoint(whole: Path, tmp_path: Path) -> None:
    """Every process is killed when it is about to write its second checkpoint."""
    what, out = small_sweep(tmp_path), tmp_path / "out"
    cut = sweep(what, out, Deadly("state.safetensors", 1), progress=False)
    assert sorted(cut.failed) == sorted(RUNS)
    assert all("ended by SIGKILL" in reason for reason in cut.failed.values())
    assert [read_about(out / "runs" / name / "state.safetensors")["steps"] for name in RUNS] == [64] * len(RUNS)
    assert sweep(what, out, Here(), resume=True, progress=False).failed == {}
    assert contents(out) == contents(whole)


@pytest.mark.system
def test_a_failed_run_does_not_stop_the_others_and_is_tried_again(whole: Path, tmp_path: Path) -> None:
    what, out = small_sweep(tmp_path), tmp_path / "out"
    blocked = out / "runs" / RUNS[1]

    class Blocking(Here):
        def run(self, jobs: Iterable[Job], root: Path) -> Generator[Event, None, None]:
            blocked.mkdir(parents=True)
            (blocked / "thesis.txt").write_text("years of work")
            return super().run(jobs, root)

    found = sweep(what, out, Blocking(), progress=False)
    assert list(found.failed) == [RUNS[1]]
    assert "is not empty, and holds no run: choose another folder" in found.failed[RUNS[1]]
    assert "is not empty" in (out / "logs" / f"{RUNS[1]}.txt").read_text()
    assert [len(row.results) for row in found.rows] == [2, 1]
    (blocked / "thesis.txt").unlink()
    place = Here()
    assert sweep(what, out, place, resume=True, progress=False).failed == {}
    assert place.ran == [RUNS[1]]
    assert contents(out) == contents(whole)


def test_another_sweep_in_the_same_folder_is_refused(whole: Path, tmp_path: Path) -> None:
    what = small_sweep(tmp_path)
    for other in (
        replace(what, seeds=(0, 1, 2)),
        replace(what, values={"learning_rate": ["1e-2"]}),
        replace(what, options=("--steps", "384")),
    ):
        with pytest.raises(ValueError, match="holds a run with another sweep"):
            sweep(other, whole, Here(), resume=True, progress=False)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.txt").write_text("years of work")
    with pytest.raises(FileExistsError, match="is not empty, and holds no run"):
        sweep(what, tmp_path / "foreign", Here(), resume=True, progress=False)
    assert [path.name for path in (tmp_path / "foreign").iterdir()] == ["thesis.txt"]


@pytest.mark.system
def test_a_recipe_stays_what_it_was(tmp_path: Path) -> None:
    """A recipe that is changed between two parts of a sweep would make half of a table from each version."""
    base = tmp_path / "base.yml"
    small_sweep(tmp_path)
    (tmp_path / "small.yml").rename(base)
    recipe = tmp_path / "small.yml"
    recipe.write_text(f"based_on: {base}\nn_steps: 32\nbatch_size: 32\n")
    what, out = Sweep([str(recipe)], (0, 1), options=("--steps", "64")), tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        sweep(what, out, Here(stop_before=1), progress=False)
    before = base.read_text()
    base.write_text(before.replace("lin_3e-3", "1e-2"))
    with pytest.raises(ValueError, match="is not what it was when this sweep began"):
        sweep(what, out, Here(), resume=True, progress=False)
    base.write_text(before)
    assert sweep(what, out, Here(), resume=True, progress=False).failed == {}
    runs = [json.loads((out / "runs" / f"small-s{seed}" / "run.json").read_text())["recipe"] for seed in (0, 1)]
    assert runs[0] == runs[1]
    assert (runs[0]["n_steps"], runs[0]["n_timesteps"], runs[0]["learning_rate"]) == (32, 64, "lin_3e-3")


@pytest.mark.system
def test_a_sweep_that_could_not_begin_leaves_no_trace_that_stops_the_next(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        sweep(small_sweep(tmp_path), tmp_path / "out", Here(stop_before=0), progress=False)
    other = replace(small_sweep(tmp_path, steps=32), values={}, seeds=(5,))
    (tmp_path / "small.yml").write_text((tmp_path / "small.yml").read_text().replace("lin_3e-3", "1e-2"))
    assert sweep(other, tmp_path / "out", Here(), progress=False).failed == {}


@pytest.mark.system
def test_fits_are_swept(tmp_path: Path) -> None:
    data = fit_words(tmp_path)[1]
    what = Sweep([data], (0, 1), {"cell": ["gru", "cfc"], "units": ["3"], "epochs": ["2"], "length": ["8"]}, "fit")
    found = sweep(what, tmp_path / "out", Here(), progress=False)
    assert found.failed == {}
    assert [row.label for row in found.rows] == ["data cell=gru", "data cell=cfc"]
    for row in found.rows:
        assert len(row.results) == 2
        assert all(0 < result["test_mse"] < 10 and result["epochs"] == 2 for result in row.results)
    assert (tmp_path / "out" / "curves.png").exists()


@pytest.mark.system
def test_distillations_are_swept(tmp_path: Path) -> None:
    teacher = distil_words(tmp_path)[1]
    what = Sweep([teacher], (0,), {"cell": ["cfc", "ctrnn"]}, "distil", DISTIL_FAST)
    found = sweep(what, tmp_path / "out", Here(), progress=False)
    assert found.failed == {}
    assert [len(row.results) for row in found.rows] == [1, 1]
    assert all(result["share"] <= 1.5 and result["steps"] == 200 for row in found.rows for result in row.results)


def test_the_commands_of_a_sweep_can_be_typed() -> None:
    what = Sweep(["pendulum-positions"], (3,), {"policy_kwargs.wiring": ["AutoNCP(9, 3)"]})
    assert commands_of(what, Path("some where")) == [
        "ncp-control train pendulum-positions --seed 3 --set 'policy_kwargs.wiring=AutoNCP(9, 3)' "
        "--out 'some where/runs/pendulum-positions-s3' --resume --json"
    ]
