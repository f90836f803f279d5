"""This version takes every command line of the pages: commands, scripts and options exist, and values can be read."""

import re
import runpy
import sys
from importlib import import_module
from pathlib import Path

import pytest

from helpers.docs_pages import CARDS, PAGES, ROOT, all_blocks, block_lines, inline_lines, name_of, with_checkpoints
from ncp_control.cli import COMMANDS, OK, main
from ncp_control.cli.arguments import FORMER

# What stands for a value on the pages.
PLACEHOLDERS = {"N": "0"}
QUICK = (
    ["ncp-control", "doctor"],
    ["ncp-control", "train", "list"],
    ["ncp-control", "describe", "AutoNCP(40, 16)", "--inputs", "8"],
    ["ncp-control", "compare", "./cheetah-v0", "--rows", "list"],
)


def options_in(words: list[str]) -> set[str]:
    return {word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)}


def run(target: list[str]) -> int:
    """Runs a command or a script in this process, where torch is loaded already."""
    if target[0] == "ncp-control":
        return main(target[1:])
    if target[1] == "-m":
        runpy.run_module(target[2], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(str(ROOT / target[1]), run_name="__main__")
    return OK


def options_shown(target: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The options that a command or script names in its help."""
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", [target[-1], "--help"])
    monkeypatch.syspath_prepend((ROOT / target[-1]).parent)  # as when Python runs a script
    with pytest.raises(SystemExit) as left:
        run(target)
    assert left.value.code == OK
    return set(re.findall(r"--[a-z][a-z-]*", capsys.readouterr().out))


def lines_of(kind: str) -> list[list[str]]:
    """All command lines of all pages and cards that begin with this word."""
    found = [words for page in [*PAGES, *CARDS] for lines in (block_lines(page), inline_lines(page)) for words in lines]
    return [words for words in found if words[0] == kind]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_ncp_control_takes_every_line(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in block_lines(page):
        if words[0] != "ncp-control" or words[1] not in COMMANDS:
            continue
        seen: list[object] = []
        command = import_module(f"ncp_control.cli.{words[1]}")
        monkeypatch.setattr(command, "run", lambda arguments, seen=seen: seen.append(arguments) or OK)
        code = main([PLACEHOLDERS.get(word, word) for word in words[1:]])
        assert code == OK, f"{' '.join(words)}: {capsys.readouterr().err}"
        assert len(seen) == 1


def test_the_pages_name_every_command_and_no_other() -> None:
    said = {words[1] for words in lines_of("ncp-control") if len(words) > 1 and not words[1].isupper()}
    assert {word for word in said if not word.startswith("-")} == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_a_command_exists(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = options_shown(["ncp-control", command, "--help-all"], capsys, monkeypatch)
    said = {option for words in lines_of("ncp-control") if words[1] == command for option in options_in(words)}
    # The cards have the commands that made the files, with the options' names of that time.
    former = {old for old, new in FORMER.items() if new in shown}
    assert said - {"--traceback"} - former <= shown


def scripts() -> dict[str, set[str]]:
    """Every script and module of the project that the pages run, with the options that they name."""
    found: dict[str, set[str]] = {}
    shown = {block.file for page in PAGES for block in all_blocks(page)}
    for words in lines_of("python"):
        if words[1] in shown:
            continue
        target = " ".join(words[1:3] if words[1] == "-m" else words[1:2])
        elsewhere = target.startswith("-m ncp_control.integrations.")  # their options are those of other libraries
        if target.endswith(".py") or (target.startswith("-m ") and not target.endswith(".NAME") and not elsewhere):
            found.setdefault(target, set()).update(options_in(words))
    return found


@pytest.mark.parametrize("script", scripts())
def test_every_script_and_its_options_exist(
    script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert scripts()[script] <= options_shown(["python", *script.split()], capsys, monkeypatch)


def test_the_pages_run_every_study_of_the_papers() -> None:
    studies = {path.parent.name for path in (ROOT / "scripts" / "paper").glob("*/__main__.py")}
    assert {f"-m scripts.paper.{study}" for study in studies} <= set(scripts())


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    said = {word for words in lines_of("make") for word in words[1:2]}
    assert {"demo", "test", "docs"} <= said <= targets


@pytest.mark.parametrize("line", QUICK, ids=" ".join)
def test_quick_lines_run(
    line: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert line in lines_of("ncp-control"), "no page has this line any more"
    with_checkpoints(tmp_path, monkeypatch)
    assert main(line[1:]) == OK
    assert capsys.readouterr().out
