"""The program around the C code: observations as lines of text, actions as lines of text, and the check of a build."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from helpers.c_programs import STRICT, BareController, compiled, exported, needs_compiler, written
from helpers.cells import build
from ncp_control.export.c.write import texts_of
from ncp_control.rl.monitor import Monitor

pytestmark = needs_compiler
TEXT = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="module")
def controller() -> BareController:
    cell = build("ltc-sparse")
    ends = np.full(cell.state_size, 3.0)
    return BareController(cell, timed=False, monitor=Monitor([-9.0] * 3, [9.0] * 3, -ends, ends, 0.5, 2.0))


@pytest.fixture(scope="module")
def folder(controller: BareController, tmp_path_factory: Any) -> Path:
    """The program, which stops at the first access beyond an array."""
    made = written(texts_of(controller), tmp_path_factory.mktemp("program"))
    compiled(["gcc", *STRICT, *TEXT, "-o", "program", "controller.c", "main.c", "-lm"], made)
    return made


def ran(folder: Path, given: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["./program", *arguments], cwd=folder, input=given, capture_output=True, text=True, timeout=60
    )


def rows(text: str) -> list[list[float]]:
    return [[float(word) for word in line.split(" ")] for line in text.splitlines()]


@pytest.mark.system
def test_every_line_is_a_step_and_reset_begins_an_episode(
    folder: Path, controller: BareController, tmp_path: Path
) -> None:
    seen = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
    lines = [" ".join(map(str, row)) for row in seen.tolist()]
    lines.insert(3, "reset")
    done = ran(folder, "\n".join(lines))
    assert done.returncode == 0
    stepper = exported(controller, tmp_path, double=False)
    wanted = []
    for place, row in enumerate(seen):
        if place == 3:
            stepper.reset()
        stepper.step(row)
        wanted.append(stepper.action.copy())
    np.testing.assert_array_equal(np.array(rows(done.stdout), dtype=np.float32), wanted)


def test_commas_tabs_and_windows_ends_of_lines_separate_as_spaces_do(folder: Path) -> None:
    plain = ran(folder, "1 2 -3e-1\nreset\n0 0 1\n").stdout
    assert plain.count("\n") == 2
    assert ran(folder, "1,2,\t-0.3 \r\nreset\r\n  0, 0, 0x1p0").stdout == plain


def test_the_elapsed_time_comes_last_where_it_is_asked_for(folder: Path, controller: BareController) -> None:
    assert ran(folder, "1 2 3 1\n1 2 3 1\n", "--elapsed").stdout == ran(folder, "1 2 3\n1 2 3\n").stdout
    assert ran(folder, "1 2 3 2\n", "--elapsed").stdout != ran(folder, "1 2 3\n").stdout


@pytest.mark.system
def test_an_agent_that_knows_the_elapsed_time_always_reads_it(tmp_path: Path) -> None:
    timed = written(texts_of(BareController(build("cfc-chain"))), tmp_path)
    compiled(["gcc", *STRICT, *TEXT, "-o", "program", "controller.c", "main.c", "-lm"], timed)
    assert ran(timed, "1 0.5\n").stdout == ran(timed, "1 0.5\n", "--elapsed").stdout != ""
    assert "line 1 has 1 numbers, and this controller needs 2" in ran(timed, "1\n").stderr


def test_flags_are_sentences_on_stderr(folder: Path) -> None:
    done = ran(folder, "0 0 0 1\n0 0 99 1\nnan 0 0 1\n0 0 0 9\n", "--elapsed")
    assert done.returncode == 0
    actions = rows(done.stdout)
    assert actions[2] == actions[1]
    told = done.stderr.splitlines()
    assert "line 2: an observation lies outside the certified range" in told
    assert "line 3: not finite, or a negative elapsed time; nothing was changed" in told
    assert "line 4: the elapsed time lies outside the certified range" in told
    assert not any(line.startswith("line 1:") for line in told)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("1 2\n", "line 1 has 2 numbers, and this controller needs 3"),
        ("1 2 3\n1 2 3 4\n", "line 2 has 4 numbers, and this controller needs 3"),
        ("1 2 three\n", 'line 1 holds "three", which is not a number'),
        ("1 2 3x\n", 'line 1 holds "3x", which is not a number'),
        ("1 2 3\n\n", "line 2 has 0 numbers, and this controller needs 3"),
        ("resets\n", 'line 1 holds "resets", which is not a number'),
        ("1 2 3" * 1000, "line 1 is too long, or holds a character 0"),
        ("1 2 3\n1 2\0 3\n", "line 2 is too long, or holds a character 0"),
        ("%n%s%n " * 3, 'line 1 holds "%n%s%n", which is not a number'),
    ],
)
def test_a_line_that_is_no_observation_is_refused_in_one_sentence(folder: Path, given: str, message: str) -> None:
    done = ran(folder, given)
    assert done.returncode == 1
    assert done.stderr == message + "\n"


@pytest.mark.system
def test_random_bytes_are_steps_or_refused_in_one_sentence(folder: Path) -> None:
    draw = np.random.default_rng(0)
    words = [
        b"1",
        b"-2.5e3",
        b"nan",
        b"inf",
        b"reset",
        b"\n",
        b"\n",
        b"\n",
        b",",
        b" ",
        b"\0",
        b"1e999",
        b"x",
        b"\xff",
        b"9" * 90,
    ]
    for _ in range(40):
        text = b" ".join(words[k] for k in draw.integers(len(words), size=60)) + draw.bytes(20)
        done = subprocess.run(["./program"], cwd=folder, input=text, capture_output=True, timeout=60)
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        assert done.returncode in (0, 1)
        assert (
            done.returncode == 0
            or "which is not a number" in last[0]
            or " numbers, and" in last[0]
            or "long" in last[0]
        )


def test_the_check_says_the_greatest_difference(folder: Path) -> None:
    done = ran(folder, "", "--check", "vectors.csv")
    assert done.returncode == 0
    assert done.stdout.startswith("200 steps: the greatest difference is ")


@pytest.mark.parametrize("column", [4, 5, -1])
def test_the_check_finds_one_wrong_number(folder: Path, column: int, tmp_path: Path) -> None:
    lines = (folder / "vectors.csv").read_text().splitlines()
    words = lines[77].split(",")
    words[column] = str(float(words[column]) + (1 if column == 4 else 1e-2))
    lines[77] = ",".join(words)
    (tmp_path / "wrong.csv").write_text("\n".join(lines))
    done = ran(folder, "", "--check", str(tmp_path / "wrong.csv"))
    assert done.returncode == 1
    assert "this is more than rounding: the greatest allowed difference is 0.001" in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, " cannot be opened"),
        ("", " has no steps"),
        ("reset,elapsed\n", " has no steps"),
        ("reset,elapsed\n1,1,2\n", "line 2 has 3 numbers, and this controller needs 14"),
        ("reset,elapsed\n" + "nan," * 13 + "nan\n", "this is more than rounding"),
    ],
)
def test_the_check_refuses_what_holds_no_test_vectors(
    folder: Path, text: str | None, message: str, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / "vectors.csv").write_text(text)
    done = ran(folder, "", "--check", str(tmp_path / "vectors.csv"))
    assert done.returncode == 1
    assert message in done.stderr


def test_other_arguments_are_answered_with_the_usage(folder: Path) -> None:
    for arguments in (["--help"], ["--check"], ["vectors.csv"], ["--elapsed", "x"]):
        done = ran(folder, "", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("usage: ./program [--elapsed] < observations > actions, or ./program --check")


def test_a_full_disk_is_an_error(folder: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(["./program"], cwd=folder, input="1 2 3\n" * 9, stdout=full, stderr=-1, text=True)
    assert done.returncode == 1
    assert "the actions cannot be written" in done.stderr


def test_choices_are_whole_numbers(tmp_path: Path) -> None:
    layer = torch.nn.Linear(2, 2, bias=False)
    torch.nn.init.eye_(layer.weight)
    chooses = BareController(None, layer, sensors=2, chooses=True, first=3, timed=False)
    made = written(texts_of(chooses), tmp_path)
    compiled(["gcc", *STRICT, *TEXT, "-o", "program", "controller.c", "main.c", "-lm"], made)
    assert ran(made, "0 1\n1 0\n").stdout == "4\n3\n"
    assert ran(made, "", "--check", "vectors.csv").returncode == 0
