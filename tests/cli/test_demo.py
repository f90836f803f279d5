"""`ncp-control demo`: a tour for people who have nothing but the installed package."""

import shlex
from importlib import import_module
from pathlib import Path

import pytest

from helpers.command_line import ROOT, printed, refused
from ncp_control.cli import demo
from ncp_control.cli.arguments import read
from ncp_control.cli.packages import PACKAGES


def test_it_copies_the_checkpoints_and_keeps_those_that_are_there(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    changed = tmp_path / "out" / "checkpoints" / "halfcheetah.md"
    changed.parent.mkdir(parents=True)
    changed.write_text("mine")
    out = printed(capsys, "demo", "--only-checkpoints", "--out", str(tmp_path / "out"))
    assert out == f"the checkpoints are in {changed.parent}\n"
    for path in (ROOT / "checkpoints").iterdir():
        assert (changed.parent / path.name).read_bytes() == (
            b"mine" if path.name == changed.name else path.read_bytes()
        )
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["checkpoints"]


@pytest.mark.system
def test_every_step_is_a_command_that_this_version_takes(tmp_path: Path) -> None:
    steps = demo.steps(demo.Arguments(out=tmp_path), demo.shipped_checkpoints())
    assert [words[0] for _, _, words in steps] == [
        "record", "view", "view", "distil", "collect", "fit", "record", "view",
    ]  # fmt: skip
    assert steps[0][0].startswith("A circuit of 64 neurons runs")  # as the card of its file says
    assert "64 neurons" in (ROOT / "checkpoints" / "halfcheetah-positions.md").read_text(encoding="utf-8")
    last = demo.laboratory(demo.Arguments(out=tmp_path), demo.shipped_checkpoints())
    for _, result, words in [*steps, last]:
        assert result.parent == tmp_path
        assert str(result) in words
        read(import_module(f"ncp_control.cli.{words[0]}").Arguments, f"ncp-control {words[0]}", words[1:])


def test_what_it_advises_at_its_end_is_taken_too(tmp_path: Path) -> None:
    text = demo.closing_words(tmp_path, tmp_path / "rollouts", tmp_path / "model.safetensors", 61.4)
    lines = [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ncp-control ")]
    assert len(lines) == 5
    for line in lines:
        command, *words = shlex.split(line, comments=True)[1:]
        read(import_module(f"ncp_control.cli.{command}").Arguments, f"ncp-control {command}", words)
    assert "Done in 61 s" in text


def test_without_a_package_it_says_how_to_install_it_before_the_first_step(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = PACKAGES[0]._replace(distribution="no-such", module="no_such_module")
    monkeypatch.setattr("ncp_control.cli.packages.PACKAGES", (*PACKAGES, absent))
    line = refused(capsys, "demo", "--out", str(tmp_path / "out"))
    assert line.endswith('the demo needs what is not installed here (no-such): pip install "ncp-control[all]"')
    assert list(tmp_path.iterdir()) == []


def test_it_asks_for_nothing_that_the_extra_all_does_not_install(monkeypatch: pytest.MonkeyPatch) -> None:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no reader of TOML")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    (line,) = extras["all"]  # of the form ncp-control[envs,rl]
    installed = line.partition("[")[2].rstrip("]").split(",")
    there = [one for one in PACKAGES if one.extra is None or one.extra in installed]
    absent = [one._replace(module="no_such_module") for one in PACKAGES if one not in there]
    assert "ray" in [one.distribution for one in absent]
    monkeypatch.setattr("ncp_control.cli.packages.PACKAGES", (*there, *absent))
    demo.require_packages()


@pytest.mark.slow
def test_the_whole_tour(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sizes = {"episodes": "5", "epochs": "1", "video-steps": "5", "distil-steps": "20000"}
    words = ["--out", str(tmp_path), *(word for name, size in sizes.items() for word in (f"--{name}", size))]
    out = capsys_out(capsys, words)
    for name in ("episode.npz", "episode.html", "episode.mp4", "rollouts", "predicted.html"):
        assert (tmp_path / name).exists()
    for name in ("student", "model"):
        assert (tmp_path / name / "best.safetensors").exists()
    assert "LTC, 24 neurons" in out
    assert "persistence" in out
    again = capsys_out(capsys, words)
    # The laboratory is there only where npm could fetch the simulator.
    assert again.count("exists already") == 6 + (tmp_path / "laboratory.html").exists()


def capsys_out(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    from ncp_control.cli import main

    assert main(["demo", *words]) == 0
    return capsys.readouterr().out
