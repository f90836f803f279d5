"""Every page is carried out as a reader would: in one folder, its files, commands and Python in the page's order.

The package is installed from a wheel of the sources; `checkpoints` and `scripts` are those of the project's folder.

FULL_LENGTH=1 runs every command as it stands, which takes hours; without it some are made smaller, as `SMALLER` says.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from helpers.docs_pages import ROOT, SHELL, all_blocks, commands, name_of
from helpers.wheels import build_wheel, install_wheel

PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "extending.md",
    ROOT / "docs" / "installing.md",
    *sorted((ROOT / "docs" / "guides").glob("*.md")),
]
FULL_LENGTH = os.environ.get("FULL_LENGTH", "0") not in ("", "0")

# What a reader cannot run here, by the beginning of the line, with the reason.
SKIPPED = {
    "make ": "builds or tests the whole project",
    "pip install": "changes the environment",
    "ncp-control convert ": "a model of the reader's own",
    "ncp-control train slow.yml": "a recipe of the reader's own",
    "ncp-control lab checkpoints/halfcheetah-positions.safetensors --wasm": "a file from another machine",
    "python scripts/make_datasets.py --expert best.safetensors": "policies of the reader's own",
    "python scripts/microcontroller/run.py": "needs a cross-compiler and an emulator",
    "ncp-control collect --policy checkpoints/halfcheetah-teacher.safetensors --episodes 1000 --on auto":
        "needs a cluster that runs",
}  # fmt: skip

# The teachers' episodes have 1,000 steps, and one of them must end in the first half.
FEW_BATCHES = "--steps 8000 --demonstrations 0.5 --envs 2 --iterations 2 --batches 20 --eval-episodes 2"
# What takes minutes, as patterns of a line and what they become; the first pattern that matches the line counts.
SMALLER = {
    r"^ncp-control train cartpole-positions .*": r"\g<0>",  # the datasets of its agent need episodes of some length
    r"^(ncp-control train (?!list|show).*)--steps \d+ --eval-every \d+(.*)": r"\1--steps 4096 --eval-every 1024\2",
    r"^(ncp-control train halfcheetah-(?:robust-)?teacher.*)": r"\1 --steps 2000 --eval-every 1000",
    r"^(ncp-control train (?!list|show).*--algo RecurrentSAC.*)": r"\1 --steps 600 --eval-every 300",
    r"^(ncp-control train .*--in .*)": r"\1 --steps 20000 --eval-every 10000",
    r"^(ncp-control train (?!list|show).*)": r"\1 --steps 8192 --eval-every 4096",
    r"^(ncp-control distil .*)--finetune \d+(.*)":
        rf"\1--finetune 6000\2 {FEW_BATCHES}",
    r"^(ncp-control distil .*--prune.*)":
        rf"\1 {FEW_BATCHES} --prune-rounds 1",
    r"^(ncp-control distil \./.*)": r"\1 --iterations 2 --batches 20 --eval-episodes 2",
    r"^(ncp-control distil .*)": rf"\1 {FEW_BATCHES}",
    r"^(ncp-control collect .*)--episodes \d{4}(.*)": r"\1--episodes 12\2",
    r"^(ncp-control collect .*)": r"\1 --episodes 5",
    r"^((?:ncp-control|torchrun .* ncp_control.cli) fit .*)": r"\1 --epochs 2",
    r"^(ncp-control compare (?!.*list).*)": r"\1 --seeds 1 --epochs 1",
    r"^(ncp-control sweep .* --kind fit .*)epochs=50(.*)": r"\1epochs=1\2",
    r"^(ncp-control sweep .* --kind distil .*--set)(.*)":
        r"\1 steps=8000 demonstrations=0.5 envs=2 iterations=2 batches=20 eval_episodes=2\2",
    r"^(ncp-control sweep .*)--search 40(.*)": r"\1--search 3\2 --steps 1024 --eval-every 512",
    r"^(ncp-control sweep .*)": r"\1 --steps 1024 --eval-every 512",
    r"^(ncp-control evaluate .* --in .*)": r"\1 --episodes 2",
    r"^(ncp-control evaluate (?!.*--data).*)": r"\1 --episodes 2",
    r"^(ncp-control ablate .*)": r"\1 --episodes 1 --neurons inter3 command1",
    r"^(ncp-control plan .*)--steps 200(.*)": r"\1--steps 10\2",
    r"^(ncp-control demo)$": r"\1 --distil-steps 24000 --episodes 5 --epochs 2 --video-steps 20",
    r"^(ncp-control bench)$": r"\1 --repeats 1 --batch 4 --time 16",
    r"^(python scripts/make_datasets.py .*)": r"\1 --rollouts 10 --reference-episodes 2",
    r"^(python scripts/irregular_series.py .*)": r"\1 --epochs 2 --seeds 1",
    r"^(python scripts/benchmark_export.py) .*": r"\1 --steps 20 --repeats 2",
}  # fmt: skip

# Reads a block in each line, runs it among the names of those before, and answers with an error or nothing. It has no
# names beside those of the blocks, so that a block that lacks an import fails.
SESSION = """
def _session(names):
    import json, os, sys, traceback

    names.pop("_session")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        place, code = json.loads(line)
        error = ""
        try:
            exec(compile(code, place, "exec"), names)
        except BaseException:
            error = traceback.format_exc()
        sys.stdout.flush()
        print(json.dumps(error), file=answers, flush=True)


_session(globals())
"""
IGNORED = ("checkpoints", "scripts", "__pycache__")

State = dict[Path, tuple[int, int, int]]


class PageRun(NamedTuple):
    """What was done on a page: the number of its commands and of its blocks of Python, the seconds, what failed."""

    page: str
    commands: int
    blocks: int
    seconds: float
    failed: list[str]


def state_of(folder: Path) -> State:
    """What identifies the content of every file that the page has made."""
    found = {}
    for path in folder.rglob("*"):
        inside = path.relative_to(folder)
        if inside.parts[0] in IGNORED or "__pycache__" in inside.parts or any(part[0] == "." for part in inside.parts):
            continue
        if path.is_file():
            about = path.stat()
            found[inside] = (about.st_mtime_ns, about.st_size, about.st_ino)
    return found


@contextmanager
def session(python: Path, folder: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """One process for all Python of a page."""
    with (folder.parent / "session.txt").open("w") as log:
        process = subprocess.Popen(
            [python, "-c", SESSION], cwd=folder, env=environment, text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
        )  # fmt: skip
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def paste(process: subprocess.Popen[str], place: str, code: str, log: Path) -> str:
    """Runs a block in the page's process; returns the error that the reader would see, or nothing."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):  # a block may have ended the process
        process.stdin.write(json.dumps([place, code]) + "\n")
        process.stdin.flush()
    answer = process.stdout.readline()
    return str(json.loads(answer)) if answer else f"Python has ended\n{log.read_text(errors='replace')[-3000:]}"


def shell(line: str, folder: Path, environment: dict[str, str]) -> str:
    """Runs a line in a shell; returns the error that the reader would see, or nothing."""
    process = subprocess.Popen(
        ["bash", "-c", line], cwd=folder, env=environment, text=True, start_new_session=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
    )  # fmt: skip
    try:
        output, _ = process.communicate()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return f"it ended with {process.returncode}\n{output[-3000:]}" if process.returncode else ""


def smaller(line: str) -> str:
    """The line with less work in it, and without the comment at its end."""
    line = re.sub(r"\s+# .*", "", line)
    for pattern, other in () if FULL_LENGTH else SMALLER.items():
        if re.match(pattern, line):
            return re.sub(pattern, other, line)
    return line


def is_skipped(line: str) -> bool:
    """Whether a reader cannot run a line here."""
    return any(line.startswith(beginning) for beginning in SKIPPED)


def environment_of(programs: Path) -> dict[str, str]:
    """The variables of a shell in which a virtual environment is active, and which finds nothing in the sources."""
    without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**without, "PATH": os.pathsep.join([str(programs), os.environ["PATH"]])}


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment in which this project is installed from a wheel."""
    folder = tmp_path_factory.mktemp("installed")
    found = install_wheel(build_wheel(folder), folder / "environment")
    where = [found / "python", "-c", "import ncp_control, ncp_envs; print(ncp_control.__file__, ncp_envs.__file__)"]
    imported = subprocess.check_output(where, cwd=folder, env=environment_of(found), text=True).split()
    assert [path for path in imported if not Path(path).is_relative_to(folder / "environment")] == []
    return found


def carry_out(page: Path, folder: Path, programs: Path) -> PageRun:
    """Does what a page says, in an empty folder."""
    shutil.copytree(ROOT / "checkpoints", folder / "checkpoints")
    (folder / "scripts").symlink_to(ROOT / "scripts")
    environment = {**environment_of(programs), "MINARI_DATASETS_PATH": str(folder / "minari")}
    start, ran, pasted, failed = time.monotonic(), 0, 0, []

    def note(number: int, what: str, begun: float, before: State, error: str) -> None:
        seconds = time.monotonic() - begun
        print(f"{seconds:6.1f} s  {name_of(page)}, line {number}: {what}{' FAILED' * bool(error)}", flush=True)
        lost = "" if error or "--resume" in what.split() else replaced(before, state_of(folder))
        if error or lost:
            print(error or lost, flush=True)
            failed.append(f"{name_of(page)}, line {number}: {what}\n{error or lost}")

    with session(programs / "python", folder, environment) as process:
        for block in all_blocks(page):
            begun, before = time.monotonic(), state_of(folder)
            if block.file:
                error = f"{block.file} is there already" if (folder / block.file).exists() else ""
                (folder / block.file).write_text(block.code)
                note(block.line, f"the file {block.file}", begun, before, error)
            elif block.language == "python":
                error = paste(process, name_of(page), block.code, folder.parent / "session.txt")
                note(block.line, "the block of Python", begun, before, error)
                pasted += 1
            elif block.language in SHELL:
                for number, line in commands(block):
                    if is_skipped(line):
                        continue
                    begun, before, line = time.monotonic(), state_of(folder), smaller(line)
                    note(number, line, begun, before, shell(line, folder, environment))
                    ran += 1
    return PageRun(name_of(page), ran, pasted, time.monotonic() - start, failed)


def replaced(before: State, after: State) -> str:
    """Names the files that something later on the page has replaced or removed; empty for none."""
    lost = sorted(str(path) for path, about in before.items() if after.get(path) != about)
    return f"it replaced what the page had made before: {', '.join(lost)}" if lost else ""


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> Iterator[list[PageRun]]:
    """The pages that were carried out, which are printed at the end."""
    rows: list[PageRun] = []
    yield rows
    width = max((len(row.page) for row in rows), default=4)
    lines = [f"{row.page:<{width}}  {row.commands:>8}  {row.blocks:>6}  {row.seconds:>7.0f}" for row in rows]
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("", f"{'page':<{width}}  commands  blocks  seconds", *lines, sep="\n")


@pytest.mark.slow
@pytest.mark.timeout(12 * 3600 if FULL_LENGTH else 1800)
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_does_what_it_says(page: Path, tmp_path: Path, programs: Path, table: list[PageRun]) -> None:
    folder = tmp_path / "reader"
    folder.mkdir()
    done = carry_out(page, folder, programs)
    table.append(done)
    assert not done.failed, "\n\n".join(done.failed)


def lines() -> list[str]:
    """Every command line of the pages."""
    blocks = [block for page in PAGES for block in all_blocks(page) if block.language in SHELL and not block.file]
    return [line for block in blocks for _, line in commands(block)]


def test_what_is_skipped_or_made_smaller_is_on_a_page() -> None:
    every = lines()
    assert [beginning for beginning in SKIPPED if not any(line.startswith(beginning) for line in every)] == []
    ran = [line for line in every if not is_skipped(line)]
    first = {next((pattern for pattern in SMALLER if re.match(pattern, line)), None) for line in ran}
    assert set(SMALLER) - first == set()
