"""Names and notes that somebody else wrote: a terminal, a page, a card and a spreadsheet show them and obey nothing."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

import ncp_control as nc
from helpers.command_line import refused_after_progress as refused
from helpers.forgeries import forge, policy_file
from helpers.recordings import ONE, make_recording, write_recording
from ncp_control.activity.page import write_page
from ncp_control.activity.recording.interventions import Ablation, write_ablations
from ncp_control.base.progress import Tracker
from ncp_control.cli import main
from ncp_control.rl.files.policy_file import with_note
from scripts.cards import policy_card

pytest.importorskip("sb3_contrib")

EVIL = "\x1b[2J\x1b]0;owned\x07\u202eabc\r\nsecond | line <script>alert(1)</script> [link](x) `id`"
OBEYED = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]")


def test_describe_shows_a_policys_note_and_obeys_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = policy_file(tmp_path / "policy.safetensors")
    with_note(path, path, {"env": EVIL, EVIL: {EVIL: EVIL}})
    assert main(["describe", str(path)]) == 0
    out = capsys.readouterr().out
    assert r"\x1b" in out
    assert not OBEYED.search(out)
    assert not [line for line in out.splitlines() if line.startswith("second")]


def test_describe_shows_a_recordings_names_and_obeys_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    about = {"env": EVIL, "controller": EVIL, "note": {"x": EVIL}, "observation_names": [EVIL]}
    path = write_recording(make_recording(ONE, 3, about=about), tmp_path / "run.npz")
    assert main(["describe", str(path)]) == 0
    assert not OBEYED.search(capsys.readouterr().out)


def test_an_error_shows_a_name_and_obeys_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    line = refused(capfd, "describe", tmp_path / "a\x1b[31m\u202eb.npz")
    assert not OBEYED.search(line)
    path = policy_file(tmp_path / "policy.safetensors")
    with_note(path, path, {"env": "No\x1b[31mSuch-v0"})
    assert not OBEYED.search(refused(capfd, "record", path, "--out", tmp_path / "run.npz"))


def test_progress_shows_a_name_and_obeys_nothing() -> None:
    tracker = Tracker("silencing", 3, 0, "episodes")
    tracker.advance(1, 1, f"without {EVIL}")
    assert not OBEYED.search(tracker.line())


def test_a_page_shows_names_and_obeys_nothing(tmp_path: Path) -> None:
    write_page(make_recording(ONE, 3, about={"env": EVIL, "note": {"steps": EVIL}}), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    title = re.findall(r"<title>(.*)</title>", page)
    assert len(title) == 1
    assert "<" not in title[0]
    (data,) = re.findall(r'<script type="application/json" id="data">(.*)</script>', page)
    for text in (title[0], *map(str, json.loads(data)["activities"][0]["facts"])):
        assert not OBEYED.search(text)
    assert page.count("<script") == page.count("</script>") == 2


def test_a_card_shows_names_and_obeys_nothing(tmp_path: Path) -> None:
    note = {
        "env": EVIL, "seed": 0, "steps": 10, "command": EVIL, "seconds": 1, "versions": {EVIL: EVIL}, "return": 1.0,
        "return_std": 0.0, "return_min": 1.0, "episodes": 1, "episodes_seed": 0, "curve": [[1, 1.0]],
    }  # fmt: skip
    path = policy_file(tmp_path / "policy.safetensors")
    with_note(path, path, note)
    card = policy_card(path, "A policy.")
    assert not OBEYED.search(card)
    (row,) = [line for line in card.splitlines() if line.startswith("| environment")]
    assert len(re.findall(r"(?<!\\)\|", row)) == 3
    assert r"\<script>" in row.replace(r"\>", ">")
    (command,) = [line for line in card.splitlines() if line.startswith("| made by")]
    assert len(re.findall(r"(?<!\\)\|", command)) == 3
    assert "`` " in command


def test_a_table_of_neurons_calculates_nothing(tmp_path: Path) -> None:
    names = ["=HYPERLINK(1)", "+1", "-1", "@x", "hip\n"]
    write_ablations([-3.0], [Ablation(name, "motor", [-2.5]) for name in names], tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert [row[0] for row in rows[2:]] == ["'=HYPERLINK(1)", "'+1", "'-1", "'@x", r"hip\n"]
    assert rows[2][2:] == ["-2.5", "-2.5"]


def test_a_policys_note_is_bounded(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path, words = policy_file(tmp_path / "policy.safetensors"), "its note has 5,000,015 characters"
    forge(path, lambda values: values.update(note={"command": "x" * 5_000_000}))
    with pytest.raises(nc.CheckpointError, match=re.escape(words)):
        nc.load(path)
    for command in ("describe", "evaluate", "record", "ablate"):
        line = refused(capfd, command, path)
        assert words in line
        assert len(line) < 500
