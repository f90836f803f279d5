"""Reports of the studies: tables, findings and figures, for a terminal and as files."""

import csv
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from ncp_control.base.pages import new_figure
from scripts.paper.common.report import Finding, Report, Settings, drawing, run_report

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]
STUDIES = sorted(path.parent.name for path in (ROOT / "scripts" / "paper").glob("*/__main__.py"))


def make(settings: Settings) -> Report:
    figure = new_figure(3, 2)
    figure.subplots().plot([1, 2, 4 + settings.seed], label="a | b")
    findings = [
        Finding("Observation I", "it grows", True, "4 times"),
        Finding("Observation II", "it falls", False, "it does not"),
        Finding("Observation III", "it rains", None, "nobody looked"),
    ]
    rows = [("one", 1.23456789, "1 ± 2"), ("two | three", None, 3000), ("four", math.nan, None)]
    return Report("A table", ("who", "ours", "published"), rows, findings, ["A note."], {"curve": figure})


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["report.py", *map(str, words)])
    return run_report("report", "About it.", Settings, make)


def test_the_terminal_shows_table_findings_and_notes(monkeypatch, tmp_path, capsys) -> None:
    assert run(monkeypatch, "--out", tmp_path / "new" / "folder") == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[2].split() == ["who", "ours", "published"]
    assert shown[4].split() == ["one", "1.235", "1", "±", "2"]
    assert shown[5].endswith("3,000")
    assert "Observation I holds: it grows" in shown
    assert "Observation II does not hold: it falls" in shown
    assert "Observation III open: it rains" in shown
    assert "- A note." in shown
    assert str(tmp_path / "new" / "folder") in shown[-1]


def test_the_files_of_a_report(monkeypatch, tmp_path) -> None:
    assert run(monkeypatch, "--out", tmp_path, "--seed", 3) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "curve.png", "curve.svg", "report.json", "report.md", "table.csv",
    ]  # fmt: skip
    kept = json.loads((tmp_path / "report.json").read_text())
    assert kept["rows"][0] == {"who": "one", "ours": 1.23456789, "published": "1 ± 2"}
    assert kept["rows"][2]["ours"] is None  # JSON has no NaN
    assert kept["about"]["seed"] == 3
    assert "torch" in kept["versions"]
    assert [item["holds"] for item in kept["findings"]] == [True, False, None]
    with (tmp_path / "table.csv").open(newline="") as file:
        assert list(csv.reader(file))[1] == ["one", "1.23456789", "1 ± 2"]
    page = (tmp_path / "report.md").read_text()
    assert "| two \\| three |  | 3,000 |" in page
    assert "![curve](curve.svg)" in page


def test_the_same_seed_gives_the_same_files(monkeypatch, tmp_path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run(monkeypatch, "--out", tmp_path / name, "--seed", seed)
    for file in ("curve.svg", "curve.png", "report.json", "report.md", "table.csv"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert (tmp_path / "a" / "curve.svg").read_bytes() != (tmp_path / "c" / "curve.svg").read_bytes()


def test_a_style_restyles_and_an_unknown_one_is_refused(monkeypatch, tmp_path, capsys) -> None:
    sheet = tmp_path / "loud.mplstyle"
    sheet.write_text("axes.prop_cycle: cycler(color=['ff00ff'])\n")
    assert run(monkeypatch, "--out", tmp_path / "ours") == 0
    assert run(monkeypatch, "--out", tmp_path / "theirs", "--style", sheet) == 0
    assert "#ff00ff" in (tmp_path / "theirs" / "curve.svg").read_text()
    assert "#0072b2" in (tmp_path / "ours" / "curve.svg").read_text()
    capsys.readouterr()
    assert run(monkeypatch, "--out", tmp_path / "none", "--style", "loudest") == 2
    assert "'loudest' is neither a style of matplotlib nor the file of one" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_the_report_as_one_json_object(monkeypatch, tmp_path, capsys) -> None:
    assert run(monkeypatch, "--out", tmp_path, "--json") == 0
    assert json.loads(capsys.readouterr().out)["title"] == "A table"


def test_an_interruption_writes_nothing(monkeypatch, tmp_path, capsys) -> None:
    def interrupted(settings: Settings) -> Report:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["report.py", "--out", str(tmp_path / "out")])
    assert run_report("report", "About it.", Settings, interrupted) == 130
    assert not (tmp_path / "out").exists()


def test_a_row_that_does_not_fit_its_head_is_refused() -> None:
    with pytest.raises(ValueError, match="a row of 1 values under a head of 2"):
        Report("A table", ("a", "b"), [(1,)])


def test_drawing_leaves_the_style_as_it_was() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    with drawing("ggplot"):
        assert matplotlib.rcParams["axes.prop_cycle"] != before["axes.prop_cycle"]
    assert dict(matplotlib.rcParams) == before


@pytest.mark.slow
@pytest.mark.parametrize("study", STUDIES)
def test_every_study_explains_itself(study: str) -> None:
    words = [sys.executable, "-m", f"scripts.paper.{study}", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True, cwd=ROOT)
    assert f"usage: python -m scripts.paper.{study} " in done.stdout
    assert f"Example: python -m scripts.paper.{study} " in done.stdout
    assert "--full" in done.stdout
    assert len(done.stdout.splitlines()) <= 50
