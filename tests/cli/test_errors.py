"""What a command answers when something is wrong: one line, an exit code, and a traceback on request."""

import os
import subprocess
import sys

import pytest

import ncp_control as nc
from helpers.command_line import ROOT, refused, run
from ncp_control import cli
from ncp_control.cli import main


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("docter", "did you mean doctor?"),
        ("desc", "did you mean describe?"),
        ("zzz", f"the commands are {', '.join(cli.COMMANDS)}"),
    ],
)
def test_an_unknown_command_names_the_near_ones(capsys: pytest.CaptureFixture[str], word: str, advice: str) -> None:
    line = refused(capsys, word)
    assert f"no command {word!r}" in line
    assert advice in line


def test_a_wrong_argument_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "doctor has no option --jsno; did you mean --json?" in refused(capsys, "doctor", "--jsno")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("fit", "--bogus", "3"), "fit has no option --bogus"),
        (("fit", "./x", "--epoch=3"), "fit has no option --epoch; did you mean --epochs?"),
        (("compare", "./x", "./y"), "compare does not know what to do with ./y (see `ncp-control compare --help`)"),
        (("train",), "the recipe default is for any environment: name one, such as --env InvertedPendulum-v5"),
        (("evaluate",), "CHECKPOINT is missing: "),
        (("train", "x", "--seed", "y"), "--seed takes a whole number, not 'y'"),
        (("train", "x", "--steps", "1.5"), "--steps takes a whole number, not '1.5'"),
        (("train", "x", "-q"), "train does not know what to do with -q"),
        (("train", "x", "--seed", "-1"), "--seed takes a whole number from 0 to 9223372036854775807, not -1"),
        (("record", "x", "--seed=-1"), "--seed takes a whole number from 0 to"),
        (("fit", "x", "--seed", "9" * 20), "--seed takes a whole number from 0 to"),
        (("evaluate", "x", "--noise=much"), "--noise takes a number, not 'much'"),
        (("evaluate", "x", "--noise"), "--noise takes a number, and got nothing"),
        (("collect", "--env"), "--env takes a value, and got nothing"),
        (("doctor", "--json", "3"), "doctor does not know what to do with 3"),
        (("view",), "EPISODE ... is missing: "),
        (("export", "x", "--out", "y"), "--to is missing: what to write: c (C99, "),
    ],
)
def test_wrong_words_are_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str
) -> None:
    assert sentence in refused(capsys, *words)


def test_an_error_is_one_line_in_a_real_process() -> None:
    result = run("describe", "missing.json")
    assert (result.returncode, result.stdout) == (2, "")
    assert ours(result.stderr) == ["ncp-control: missing.json: No such file or directory"]


@pytest.mark.system
@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (("describe", "missing.json", "--traceback"), {}),
        pytest.param(("--traceback", "describe", "missing.json"), {}, marks=pytest.mark.slow),
        (("describe", "missing.json"), {"NCP_CONTROL_TRACEBACK": "1"}),
    ],
)
def test_a_traceback_is_shown_on_request(words: tuple[str, ...], environment: dict[str, str]) -> None:
    result = run(*words, **environment)
    assert result.returncode == 1
    assert "Traceback (most recent call last)" in result.stderr
    assert "FileNotFoundError" in result.stderr


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(name: str, words: object) -> int:
        raise error

    monkeypatch.setattr(cli, "run_command", fail)


def test_control_c_ends_with_its_exit_code(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, KeyboardInterrupt())
    assert main(["doctor"]) == 130
    assert capsys.readouterr().err == "ncp-control: interrupted\n"


def test_a_long_message_becomes_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, nc.WiringError("first\n  second"))
    assert refused(capsys, "doctor") == "ncp-control: first second"


def test_a_missing_package_names_its_extra(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, ModuleNotFoundError("No module named 'minari'", name="minari.dataset"))
    assert 'minari, which is missing: pip install "ncp-control[data]"' in refused(capsys, "doctor")


@pytest.mark.parametrize("error", [KeyError("gone"), ModuleNotFoundError("No module named 'ours'", name="ours")])
def test_errors_of_our_own_code_keep_their_traceback(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    raising(monkeypatch, error)
    with pytest.raises(type(error)):
        main(["doctor"])


@pytest.mark.skipif(os.name != "posix", reason="pipes end otherwise elsewhere")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["--help"], ["describe", "AutoNCP(12, 2)", "--inputs", "4"]])
def test_a_closed_pipe_causes_no_message(words: list[str], unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(
        [sys.executable, "-m", "ncp_control.cli", *words],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        timeout=120,
    )
    os.close(writer)
    assert ours(result.stderr) == []


def ours(stderr: str) -> list[str]:
    """The lines of a real process that this package or a traceback wrote, and not what a machine's Python warns of."""
    told = ("ncp-control", "Traceback", "Exception ignored", "BrokenPipeError")
    return [line for line in stderr.splitlines() if line.startswith(told)]
