"""Progress is counted, and shown as lines in a log."""

from types import SimpleNamespace

import pytest

from ncp_control.base import progress
from ncp_control.base.progress import tracked


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which stands still unless a test changes it."""
    seconds = [1000.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    return seconds


def test_a_log_gets_a_line_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    with tracked("training", 10, done=2, unit="steps") as tracker:
        tracker.advance(3, note="first")
        tracker.advance(5)
    out, err = capsys.readouterr()
    assert (out, err) == ("", "training: 10 of 10  first\n")


def test_a_log_gets_no_more_than_a_line_each_half_minute(capsys: pytest.CaptureFixture[str], now: list[float]) -> None:
    with tracked("fitting", 100, unit="steps") as tracker:
        for _ in range(100):
            now[0] += 1
            tracker.advance(1, work=20)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "fitting: 31 of 100  20 steps/s"
    assert len(lines) == 4
    assert lines[-1] == "fitting: 100 of 100  20 steps/s"


def test_progress_that_is_not_shown_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    with tracked("recording", 3, shown=False) as tracker:
        tracker.advance(2)
    assert tracker.line() == "recording: 2 of 3"
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "120")
    with tracked("training", 4) as tracker:
        tracker.advance(4, work=4, note="done")
    shown = capsys.readouterr().err
    assert "training" in shown
    assert "4 of 4" in shown
    assert "done" in shown
