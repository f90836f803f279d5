"""Two processes that want the same folder: one works, the other is refused."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from helpers.children import Child
from helpers.command_line import complaint
from helpers.command_line import refused_after_progress as refused
from helpers.long_commands import COMMANDS, same_training, train_words
from helpers.waiting import wait_until
from ncp_control.cli import main
from ncp_control.runs.folder import LOCK, Hold

pytest.importorskip("sb3_contrib")
pytestmark = pytest.mark.system


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such lock on Windows")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_is_one_processs_alone(command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words, out = COMMANDS[command](tmp_path), tmp_path / "out"
    held = tmp_path / ".out.unfinished" if command == "collect" else out
    held.mkdir()

    def hold() -> None:
        with Hold(held):
            (tmp_path / "held").touch()
            signal.pause()

    other = Child(hold, tmp_path)
    wait_until((tmp_path / "held").exists, "a process that holds the folder")
    for more in ([], ["--resume"]):
        line = refused(capfd, *words, "--out", out, *more)
        assert f"{held} is in use by another process ({other.process}): wait for it" in line
    assert [path.name for path in held.iterdir()] == [LOCK]
    other.kill()
    other.wait()
    if command != "compare":  # it takes longer, and locks its folder by the same function
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
