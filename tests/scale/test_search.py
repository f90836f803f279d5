"""A search: Optuna proposes, every trial is an ordinary run, and the search can be resumed."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

from helpers.job_places import Here
from ncp_control.base.processes import Event, Job
from ncp_control.runs.run import seed_of
from ncp_control.scale.ranges import SearchRange
from ncp_control.scale.search import TRIALS, search
from ncp_control.scale.sweep import Sweep

optuna = pytest.importorskip("optuna")
RANGES = {"learning_rate": SearchRange(None, 1e-4, 1e-2, True), "n_epochs": SearchRange(None, 1, 3)}
OPTIONS = ("--steps", "512", "--eval-every", "256")


class Scripted:
    """A place whose jobs return what a function of their values says, and evaluate to it on the way."""

    count = 1

    def __init__(self, result: Any, curve: Any = None, stop_after: int | None = None) -> None:
        self.result, self.curve, self.stop_after = result, curve, stop_after
        self.ran: list[dict[str, str]] = []
        self.cancelled: list[str] = []

    def run(self, jobs: Iterable[Job], root: Path) -> Generator[Event, None, None]:
        for job in jobs:
            words = job.arguments["words"]
            values = dict(word.split("=") for word in words if "=" in word)
            if self.stop_after is not None and len(self.ran) >= self.stop_after:
                raise KeyboardInterrupt
            self.ran.append(values)
            folder = root / words[words.index("--out") + 1]
            folder.mkdir(parents=True, exist_ok=True)
            rows = ["steps,mean_return"]
            for step, value in enumerate(self.curve(values) if self.curve else []):
                rows.append(f"{step + 1},{value}")
                (folder / "curve.csv").write_text("\n".join(rows) + "\n")
                yield Event(job.name, "progress", progress=(step, 4))
                if job.name in self.cancelled:
                    break
            if job.name in self.cancelled:
                continue
            value = self.result(values)
            kind = "failed" if isinstance(value, Exception) else "done"
            yield Event(job.name, kind, value if kind == "failed" else {"best_return": value})

    def cancel(self, name: str) -> None:
        self.cancelled.append(name)


def far(values: dict[str, str]) -> float:
    return -abs(float(values["learning_rate"]) - 3e-3) - abs(int(values["n_epochs"]) - 2)


def run(out: Path, place: Any, trials: int = 25, **more: Any) -> Any:
    return search(Sweep(["cartpole-positions"], [3]), RANGES, trials, out, place, progress=False, **more)


def test_it_proposes_as_optuna_does_and_finds_the_best(tmp_path: Path) -> None:
    place = Scripted(far)
    found = run(tmp_path / "a", place)
    study = optuna.create_study(direction="maximize")
    for number, values in enumerate(place.ran):
        study.sampler = optuna.samplers.TPESampler(seed=seed_of(3, number))
        trial = study.ask({key: own.distribution() for key, own in RANGES.items()})
        assert {key: f"{value:.6g}" for key, value in trial.params.items()} == values
        study.tell(trial, far(values))
    best = found.best()
    assert best is not None
    assert best.value == max(map(far, place.ran)) == study.best_value > -0.01
    assert (tmp_path / "a" / "table.txt").read_text().startswith(f"trial {best.number}: finished")


def test_a_search_that_stopped_goes_on_with_what_it_knew(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "a", Scripted(far, stop_after=12))
    before = json.loads((tmp_path / "a" / TRIALS).read_text())["trials"]
    assert [trial["state"] for trial in before] == ["finished"] * 12 + ["running"]
    place = Scripted(far)
    found = run(tmp_path / "a", place, resume=True)
    assert len(found.trials) == 25
    assert len(place.ran) == 13
    assert place.ran[0] == {key: f"{value:.6g}" for key, value in before[12]["values"].items()}
    assert all(trial.state == "finished" for trial in found.trials)


@pytest.mark.parametrize("stop", [3, 14])
def test_a_search_that_stopped_tries_what_it_would_have_tried(stop: int, tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", Scripted(far))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "stopped", Scripted(far, stop_after=stop))
    assert run(tmp_path / "stopped", Scripted(far), resume=True).trials == whole.trials


def test_bad_trials_end_early_and_failed_ones_are_tried_again(tmp_path: Path) -> None:
    def result(values: dict[str, str]) -> Any:
        return ValueError("it fell over") if values["n_epochs"] == "3" and not again else far(values)

    again = False
    place = Scripted(result, curve=lambda values: [far(values)] * 4)
    found = run(tmp_path / "a", place)
    states = {trial.state for trial in found.trials}
    assert states == {"finished", "failed", "ended early"}
    for trial in found.trials:
        if trial.state == "ended early":
            assert trial.value is not None
            assert trial.value < max(other.value for other in found.trials if other.state == "finished")
        if trial.state == "failed":
            assert (trial.values["n_epochs"], trial.reason) == (3, "it fell over")
    again, failed = True, sum(trial.state == "failed" for trial in found.trials)
    place = Scripted(result)
    found = run(tmp_path / "a", place, resume=True)
    assert len(place.ran) == failed > 0
    assert {trial.state for trial in found.trials} == {"finished", "ended early"}


@pytest.mark.system
def test_every_trial_is_an_ordinary_run(tmp_path: Path) -> None:
    what = Sweep(["cartpole-positions"], [0], {"n_envs": ["2"], "n_steps": ["64"]}, options=OPTIONS)
    found = search(what, {"policy_kwargs.cell": SearchRange(("cfc", "ltc"))}, 2, tmp_path / "a", Here(), progress=False)
    assert [trial.state for trial in found.trials] == ["finished", "finished"]
    for trial in found.trials:
        folder = tmp_path / "a" / found.run_of(trial).folder
        record = json.loads((folder / "run.json").read_text())
        assert record["recipe"]["policy_kwargs"]["cell"] == trial.values["policy_kwargs.cell"]
        assert record["recipe"]["n_envs"] == 2
        assert (folder / "best.safetensors").exists()


@pytest.mark.parametrize(
    ("what", "trials", "message"),
    [
        (Sweep(["cartpole-positions"], [0, 1]), 2, "one subject, one seed"),
        (Sweep(["cartpole-positions", "pendulum-positions"], [0]), 2, "one subject, one seed"),
        (Sweep(["cartpole-positions"], [0], {"gamma": ["0.9", "0.99"]}), 2, "one value for each key"),
        (Sweep(["cartpole-positions"], [0], {"n_epochs": ["3"]}), 2, "n_epochs has a range and a value"),
        (Sweep(["cartpole-positions"], [0]), 0, "at least one trial, got 0"),
    ],
)
def test_what_cannot_work_is_refused(what: Sweep, trials: int, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        search(what, RANGES, trials, tmp_path / "a", Here())
    assert not (tmp_path / "a").exists()
