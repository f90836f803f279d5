"""Commands that write their results at once: killed at any moment, on a full disk or after a Ctrl-C, they leave them
whole or not there at all, and the same command writes them the next time.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from helpers.children import in_child, run_in_child
from helpers.forgeries import policy_file
from helpers.moments import Moments, spread
from helpers.recordings import WORM, make_recording, write_recording
from ncp_control.cli import main

pytest.importorskip("sb3_contrib")
pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system"),
]

SHIPPED = Path(__file__).parents[2] / "checkpoints" / "halfcheetah-positions.safetensors"
# {agent} is an agent of Pendulum-v1, {recording} a recording, {out} the folder that the results are in
COMMANDS = {
    "export to C": "export {agent} --to c --steps 20 --out {out}/c",
    "export to torch": "export {agent} --to pt2 --steps 20 --out {out}/torch",
    "export to ONNX": "export {agent} --to onnx --steps 20 --out {out}/onnx",
    "lab": "lab {shipped} --html {out}/lab.html",
    "audit": "audit {agent} --attack 0 --html {out}/a.html --markdown {out}/a.md --monitor {out}/a.json",
    "ablate": "ablate {agent} --env Pendulum-v1 --episodes 1 --out {out}/ablation.csv",
    "view": "view {recording} --html {out}/run.html --figures {out}/figures --formats png",
    "view as a film": "view {recording} --video {out}/run.gif",
    "record": "record {agent} --env Pendulum-v1 --steps 20 --out {out}/run.npz",
}


def every(quick: str) -> pytest.MarkDecorator:
    """Runs a test for all commands, for all but one of them in the slow tier."""
    marked = [pytest.param(name, marks=[pytest.mark.slow] if name != quick else []) for name in COMMANDS]
    return pytest.mark.parametrize("command", marked)


def contents(folder: Path) -> dict[str, bytes]:
    """Returns the bytes of all files below a folder, without how long an audit took."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(folder)): re.sub(rb"audited in [\d.]+ s", b"audited", path.read_bytes()) for path in files
    }


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Path]:
    """What the commands read."""
    agent = policy_file(tmp_path / "agent.safetensors")
    return {
        "agent": agent,
        "shipped": SHIPPED,
        "recording": write_recording(make_recording(WORM, 6), tmp_path / "run.npz"),
    }


def run(command: str, given: dict[str, Path], out: Path) -> int:
    """Runs a command, and returns its exit code."""
    return main([word.format(**given, out=out) for word in COMMANDS[command].split()])


@pytest.mark.parametrize("kills", [2, pytest.param(50, marks=pytest.mark.slow)])
@every("export to C")
def test_a_killed_command(command: str, kills: int, given: dict[str, Path], tmp_path: Path) -> None:
    def work(out: Path, kill_at: int | None = None, half: bool = False) -> int:
        out.mkdir(exist_ok=True)
        moments = Moments(out, kill_at, half)
        assert run(command, given, out) == 0
        return moments.count

    moments = in_child(lambda: work(tmp_path / "whole"), tmp_path)
    whole = contents(tmp_path / "whole")
    assert whole
    for kill, moment in enumerate(spread(moments, min(kills, moments), Random(0))):
        out = tmp_path / f"killed-{kill}"
        ended = run_in_child(lambda: work(out, moment, bool(kill % 2)), tmp_path)  # noqa: B023 (called here and now)
        assert ended.code == -signal.SIGKILL, ended.output
        assert_partly(contents(out), whole)
        if contents(out) != whole:  # else a folder with files in it is refused
            in_child(lambda: work(out), tmp_path)  # noqa: B023
        assert contents(out) == whole, f"killed at moment {moment} of {moments}"


@pytest.mark.parametrize(
    "share", [0.5, *(pytest.param(k / 12, marks=pytest.mark.slow) for k in range(1, 12) if k != 6)]
)
@every("export to torch")
def test_a_full_disk(
    command: str, share: float, given: dict[str, Path], tmp_path: Path, disk: Callable[[str], Path]
) -> None:
    (tmp_path / "whole").mkdir()
    assert in_child(lambda: run(command, given, tmp_path / "whole"), tmp_path) == 0
    whole = contents(tmp_path / "whole")
    place = disk(f"size={max(4096, int(share * sum(map(len, whole.values()))))}")
    ended = run_in_child(lambda: run(command, given, place), tmp_path)
    assert (ended.code, ended.value) == (0, 2), ended.output
    assert re.search("^ncp-control: .*No space left on device$", ended.output, re.MULTILINE), ended.output
    assert "Traceback" not in ended.output
    assert contents(place).keys() <= whole.keys()
    assert_partly(contents(place), whole)
    disk("size=50m")
    assert in_child(lambda: run(command, given, place), tmp_path) == 0
    assert contents(place) == whole
    (place / "empty").mkdir()
    disk("ro")
    ended = run_in_child(lambda: run(command, given, place / "empty"), tmp_path)
    assert (ended.code, ended.value) == (0, 2), ended.output
    assert re.search("^ncp-control: .*Read-only file system$", ended.output, re.MULTILINE), ended.output


@every("lab")
def test_ctrl_c(command: str, given: dict[str, Path], tmp_path: Path) -> None:
    """It is pressed when the first file is about to be made."""

    def work(out: Path) -> tuple[int, bool]:
        out.mkdir()
        pressed = False

        def hear(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal pressed
            if not pressed and event in ("open", "os.mkdir") and str(arguments[0]).startswith(str(out)):
                pressed = True
                os.kill(os.getpid(), signal.SIGINT)

        sys.addaudithook(hear)
        return run(command, given, out), pressed

    ended = run_in_child(lambda: work(tmp_path / "out"), tmp_path)
    assert (ended.code, ended.value) == (0, (130, True)), ended.output
    assert "Traceback" not in ended.output
    assert "interrupted" in ended.output.splitlines()[-1]
    assert not contents(tmp_path / "out")


def assert_partly(found: dict[str, bytes], whole: dict[str, bytes]) -> None:
    """Asserts that every result that is there is whole; a table grows line by line."""
    for name in found.keys() & whole.keys():
        lines = [one[name].splitlines() for one in (found, whole)]
        assert found[name] == whole[name] or (name.endswith(".csv") and set(lines[0]) < set(lines[1])), name
