"""Every command does its work, and ends with its exit code, where nothing can be printed: in daemons, under pythonw,
with `>&-` and `2>&-`; and where not every character can be printed.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.command_line import ROOT
from helpers.long_commands import DISTIL_FAST, collect_words, compare_words, fit_words, train_words
from ncp_control import cli
from ncp_control.base.progress import say, tracked, usable_streams

pytest.importorskip("sb3_contrib")
pytest.importorskip("minari")
pytest.importorskip("matplotlib")

Words = list[str]
AGENT = "train/best.safetensors"
# The arguments of every command, and a file that it writes into the folder in which all of them run; in this order.
COMMANDS: dict[str, tuple[Callable[[Path], Words], str]] = {
    "train": (lambda place: [*train_words(place, "RecurrentPPO"), "--out", "train"], AGENT),
    "distil": (lambda place: ["distil", AGENT, *DISTIL_FAST, "--out", "distil"], "distil/best.safetensors"),
    "collect": (lambda place: [*collect_words(place), "--out", "collect"], "collect/data/metadata.json"),
    "fit": (lambda place: [*fit_words(made(place / "traces")), "--out", "fit"], "fit/best.safetensors"),
    "compare": (lambda place: [*compare_words(made(place / "other")), "--out", "compare"], "compare/table.txt"),
    "sweep": (lambda place: ["sweep", "recipe.yml", "--workers", "1", "--out", "sweep"], "sweep/table.txt"),
    "describe": (lambda place: ["describe", "AutoNCP(12, 2)", "--inputs", "4"], ""),
    "evaluate": (lambda place: ["evaluate", AGENT, "--episodes", "1"], ""),
    "plan": (lambda place: ["plan", "--simulator", "--steps", "2", "--plans", "9", "--best", "3", "--out", "p"], "p"),
    "ablate": (lambda place: ["ablate", AGENT, "--neurons", "inter0", "--episodes", "1", "--out", "a.csv"], "a.csv"),
    "audit": (lambda place: ["audit", AGENT, "--box", "2", "--attack", "0", "--markdown", "a.md"], "a.md"),
    "export": (lambda place: ["export", AGENT, "--to", "pt2", "--out", "e", "--steps", "9"], "e/controller.pt2"),
    "record": (lambda place: ["record", AGENT, "--steps", "5", "--out", "e.npz"], "e.npz"),
    "view": (lambda place: ["view", "e.npz", "--html", "page.html"], "page.html"),
    "lab": (lambda place: ["lab", "--help"], ""),  # needs a MuJoCo body and the simulator
    "bench": (lambda place: ["bench", "--units", "4", "--batch", "2", "--time", "4", "--repeats", "1"], ""),
    "doctor": (lambda place: ["doctor"], ""),
    "demo": (lambda place: ["demo", "--help"], ""),
}
ASKED = """
import json, sys
before, lines = [sys.stdout, sys.stderr], json.loads(open("words.json").read())
kind = sys.argv[1]
if kind == "none":
    sys.stdout = sys.stderr = None
from ncp_control.cli import main
codes = {}
for words in lines if __name__ == "__main__" else []:  # the workers of `compare` import this file, too
    try:
        codes[" ".join(words)] = main(words)
    except BaseException as error:
        codes[" ".join(words)] = error.code if isinstance(error, SystemExit) else repr(error)
    open("codes.json", "w").write(json.dumps(codes))
"""


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.slow
@pytest.mark.timeout(900)  # eighteen commands one after the other
@pytest.mark.skipif(os.name != "posix", reason="it takes a shell")
@pytest.mark.parametrize(
    ("kind", "redirected"),
    [
        ("missing", ">&- 2>&-"),
        pytest.param("missing", ">&-", marks=pytest.mark.slow),
        pytest.param("missing", "2>&-", marks=pytest.mark.slow),
        pytest.param("none", "", marks=pytest.mark.slow),
    ],
)
def test_every_command_works_without_a_place_to_print(kind: str, redirected: str, tmp_path: Path) -> None:
    assert set(cli.COMMANDS) <= set(COMMANDS)
    asked = [(name, *COMMANDS[name]) for name in COMMANDS if name in cli.COMMANDS]
    lines = [words(tmp_path) for _, words, _ in asked] + [["describe", "missing.json"], ["--version"], ["no-command"]]
    (tmp_path / "words.json").write_text(json.dumps(lines))
    (tmp_path / "asked.py").write_text(ASKED)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "envs")])}
    command = f'exec "{sys.executable}" asked.py {kind} {redirected}'
    result = subprocess.run(command, shell=True, capture_output=True, cwd=tmp_path, env=environment)
    assert result.returncode == 0
    assert b"Traceback" not in result.stderr
    codes = json.loads((tmp_path / "codes.json").read_text())
    assert codes == {" ".join(words): 2 if words[-1] in ("missing.json", "no-command") else 0 for words in lines}
    for name, _, path in asked:
        assert (tmp_path / path).exists(), name


@pytest.mark.system
@pytest.mark.skipif(os.name != "posix", reason="it takes a shell")
@pytest.mark.parametrize(("words", "code"), [("describe 'AutoNCP(12, 2)' --inputs 4", 0), ("describe none.json", 2)])
def test_a_real_process_without_streams_has_the_right_exit_code(words: str, code: int) -> None:
    command = f'exec "{sys.executable}" -m ncp_control.cli {words} <&- >&- 2>&-'
    assert subprocess.run(command, shell=True, cwd=ROOT, timeout=120).returncode == code


@pytest.mark.parametrize("stream", [None, "closed", "broken"])
def test_progress_never_ends_the_work(stream: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Python calls it, without a command around it."""

    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    gone: io.StringIO | None = None if stream is None else Broken()
    if stream == "closed":
        gone = io.StringIO()
        gone.close()
    monkeypatch.setattr(sys, "stderr", gone)
    with tracked("training", 10) as tracker:
        tracker.advance(10)
    say("a line")
    assert tracker.line() == "training: 10 of 10"


@pytest.mark.slow
def test_characters_that_an_encoding_lacks_are_written_as_escapes(tmp_path: Path) -> None:
    name = "fl\u00fcgel-\u4e16.json"
    for words, code in ((["describe", name], 2), (["train", "list"], 0), (["doctor"], 0)):
        result = subprocess.run(
            [sys.executable, "-m", "ncp_control.cli", *words],
            capture_output=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONIOENCODING": "ascii", "LANG": "C", "TERM": "dumb"},
            timeout=120,
        )
        assert (result.returncode, b"Traceback" in result.stderr) == (code, False)
        if code:
            assert b"fl\\xfcgel-\\u4e16.json: No such file" in result.stderr


def test_streams_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with usable_streams():
        print("nothing reads this")
    assert sys.stdout is None
