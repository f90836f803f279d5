"""`ncp-control sweep` as a person meets it."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from helpers.command_line import printed, refused
from helpers.long_commands import PPO_RECIPE, fit_words
from ncp_control.cli import main
from ncp_control.scale.search import Trial
from ncp_control.scale.sweep import Sweep, Swept
from ncp_control.scale.table import SettingRow

pytest.importorskip("sb3_contrib")
FAST = ("--steps", "64", "--eval-every", "32")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a recipe."""
    (tmp_path / "small.yml").write_text(PPO_RECIPE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("", "RECIPE ... is missing: recipes"),
        ("pendulum-position", "there is no recipe 'pendulum-position': did you mean pendulum-positions"),
        ("pendulum-positions nope", "there is no recipe 'nope'"),
        ("Hopper-v5", "there is no recipe 'Hopper-v5': name an environment with `train --env Hopper-v5`, or with"),
        ("missing.yml", "there is no recipe at missing.yml"),
        ("small.yml --set learning_rat=1", "it has no 'learning_rat': did you mean learning_rate?"),
        ("small.yml --set learning_rate=1e-3,much", "learning_rate must be a number of at least 0"),
        ("small.yml --set policy_kwargs.wirin=3", "NCPPolicy has no argument 'wirin': did you mean wiring?"),
        ("small.yml --set 'policy_kwargs.wiring=AutoNCP(9, 3),AutoNCP(2, 9)'", "2 neurons cannot have 9 motor neurons"),
        ("small.yml --set env=No-v0", "No-v0"),
        ("small.yml --set learning_rate", "--set takes KEY=VALUE,VALUE with at least one value"),
        ("small.yml --set n_steps=8 n_steps=16", "--set names n_steps twice"),
        ("small.yml --set seed=1,2", "--set cannot set seed"),
        ("small.yml --seeds 1 1", "a sweep runs each seed once: 1 1"),
        ("small.yml --seeds 0 -1", "a seed is a whole number from 0 to 4294967295, not -1"),
        ("small.yml --seeds one", "--seeds takes a whole number, not 'one'"),
        ("small.yml small.yml", "two runs of this sweep would have the folder small-s0"),
        ("small.yml --steps 0", "n_timesteps must be a whole number of at least 1, not 0"),
        ("small.yml --eval-every 0", "--eval-every must be at least 1, got 0"),
        ("small.yml --workers 0", "workers must be at least 1, got 0"),
        ("small.yml --on mars", "there is no place 'mars' to run on: choose local, ray, auto"),
        ("small.yml --shared", "processes of this machine share its disk"),
        ("small.yml --kind tain", "a sweep cannot run 'tain': choose one of train, distil, fit"),
        ("./nothing --kind fit", "there is no file and no folder ./nothing"),
        ("./nothing --kind fit --steps 3", "--steps and --eval-every are for trainings"),
        ("small.yml --kind fit --set epoch=3", "fit has no option --epoch; did you mean --epochs?"),
        ("small.yml --kind fit --set epochs=3,many", "--epochs takes a whole number, not 'many'"),
        ("small.yml --kind distil --set cells=cfc", "distil has no option --cells; did you mean --cell?"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(
    words: str, sentence: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for more in ([], ["--dry-run"]):
        assert sentence in refused(capsys, "sweep", *shlex.split(words), *more)
    assert [path.name for path in here.iterdir()] == ["small.yml"]


def test_a_folder_that_holds_something_else_is_left_alone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "thesis").mkdir()
    (here / "thesis" / "chapter.txt").write_text("years of work")
    for more in ((), ("--resume",)):
        line = refused(capsys, "sweep", "small.yml", *FAST, "--out", "thesis", *more)
        assert "thesis is not empty, and holds no run: choose another folder" in line
    assert [path.name for path in (here / "thesis").iterdir()] == ["chapter.txt"]


def test_a_dry_run_prints_commands_that_can_be_typed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sweep", "small.yml", *FAST, "--set", "policy_kwargs.wiring=AutoNCP(9, 3),8", "--seeds", "0", "4"]
    lines = printed(capsys, *words, "--dry-run").splitlines()
    assert [path.name for path in here.iterdir()] == ["small.yml"]
    assert len(lines) == 4
    assert lines[0] == (
        "ncp-control train small.yml --seed 0 --set 'policy_kwargs.wiring=AutoNCP(9, 3)' --steps 64 --eval-every 32 "
        "--out runs/sweep-small/runs/small-wiring=AutoNCP_9_3-s0 --resume --json"
    )
    assert main(shlex.split(lines[0])[1:]) == 0
    assert (here / "runs/sweep-small/runs/small-wiring=AutoNCP_9_3-s0/best.safetensors").exists()


@pytest.mark.system
def test_a_sweep_prints_its_table_and_says_where_it_is(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["sweep", "small.yml", *FAST, "--seeds", "0", "1", "--workers", "1"]
    assert main(words) == 0
    out, err = capfd.readouterr()
    lines = out.splitlines()
    assert lines[0].split() == ["seeds", "best", "return", "worst", "last", "return", "steps", "seconds"]
    assert lines[1].startswith("small  2 of 2  ")
    assert lines[-1] == "written to runs/sweep-small"
    assert (here / "runs" / "sweep-small" / "table.txt").read_text().splitlines() == lines[:2]
    assert "Traceback" not in err
    told = [line for line in err.splitlines() if not line.startswith("percent of 2 runs: ")]
    assert [line.split(":")[0] for line in told] == ["small-s0", "small-s1"]
    assert "holds a run already: resume it (--resume), or choose another folder (--out)" in refused(capfd, *words)

    assert main([*words, "--resume", "--json"]) == 0
    found = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert (found["out"], found["failed"], len(found["rows"])) == ("runs/sweep-small", {}, 1)
    assert found["rows"][0]["setting"] == "small"
    assert found["rows"][0]["steps"] == [64, 64]
    assert len(found["rows"][0]["best_return"]) == 2


@pytest.mark.slow
def test_a_run_that_fails_is_named_with_its_log(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Data that are no rollouts are noticed by the fit itself."""
    (here / "data").mkdir()
    (here / "data" / "notes.npz").write_text("not an archive")
    good = shlex.split("--kind fit --set cell=gru units=3 epochs=2 length=8 --workers 1")
    fit_words(make(here / "good"))
    assert main(["sweep", "./data", "./good/data", *good]) == 2
    assert "would have the folder data-s0" in capfd.readouterr().err
    (here / "good" / "data").rename(here / "traces")
    assert main(["sweep", "./data", "./traces", *good, "--json"]) == 2
    out, err = capfd.readouterr()
    found = json.loads(out.splitlines()[-1])
    assert list(found["failed"]) == ["data-s0"]
    assert [len(row["test_mse"]) for row in found["rows"]] == [0, 1]
    last = err.splitlines()[-1]
    assert last.startswith("ncp-control: data-s0 failed: ")
    assert last.endswith("(its log is runs/sweep-data/logs/data-s0.txt; --resume tries again)")
    assert found["failed"]["data-s0"] in (here / "runs/sweep-data/logs/data-s0.txt").read_text()


def make(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_a_sweep_of_which_nothing_is_left_says_so_with_the_first_reason(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def diverged(what: Sweep, out: Path, *_: object, **__: object) -> Swept:
        return Swept(out, [SettingRow("small", 2, [])], {"small-s0": "it diverged", "small-s1": "it, too"})

    monkeypatch.setattr(sys.modules["ncp_control.scale.sweep"], "sweep", diverged)  # the package has a function so
    assert main(["sweep", "small.yml", "--seeds", "0", "1"]) == 2
    assert "all runs failed; small-s0 failed, and 1 more: it diverged" in capsys.readouterr().err


def test_a_search_without_a_finished_trial_says_why(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = SimpleNamespace(trials=[Trial(0, {}, "ended early"), Trial(1, {}, "failed", reason="it diverged")])
    found.best = lambda: None
    monkeypatch.setattr(sys.modules["ncp_control.scale.search"], "search", lambda *_, **__: found)
    (here / "ranges.yml").write_text("learning_rate: {low: 1e-4, high: 1e-2}\n")
    assert main(["sweep", "small.yml", "--search", "2", "--ranges", "ranges.yml"]) == 2
    assert "no trial was finished; trial 1 failed: it diverged (" in capsys.readouterr().err
