"""`ncp-control --help` and the help page of every command."""

import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated

import pytest
import tyro

import ncp_control as nc
from helpers.command_line import ROOT, printed
from ncp_control import cli
from ncp_control.cli import main
from ncp_control.cli.arguments import help_text, options_of, read


def helped(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as leaving:
        main(list(words))
    assert leaving.value.code == 0
    return capsys.readouterr().out


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys) == printed(capsys, "--help") == printed(capsys, "-h")
    text = printed(capsys, "--help")
    assert all(f"  {name} " in text and does in text for name, does in cli.COMMANDS.items())


def test_every_command_explains_its_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    for name in cli.COMMANDS:
        with pytest.raises(SystemExit) as leaving:
            main([name, "--help"])
        assert leaving.value.code == 0
        assert f"ncp-control {name}" in capsys.readouterr().out


@pytest.mark.parametrize("columns", ["0", "1", "20", "-3", "text", ""])
def test_no_width_of_a_terminal_ends_in_an_error(
    columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("TERM", "dumb")
    for name in cli.COMMANDS:
        assert f"ncp-control {name}" in helped(capsys, name, "--help-all")
    assert "pendulum-positions" in printed(capsys, "train", "list")
    assert "neurons" in printed(capsys, "describe", "AutoNCP(12, 2)", "--inputs", "4")


def test_help_needs_no_numerical_library() -> None:
    seen = "import sys; from ncp_control.cli import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    result = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, cwd=ROOT, check=True)
    assert "usage: ncp-control" in result.stdout
    loaded = set(result.stderr.split())
    assert "ncp_control.cli" in loaded
    assert loaded.isdisjoint({"torch", "numpy", "scipy", "gymnasium", "tyro", "rich"})


@pytest.mark.system
def test_no_help_page_needs_torch() -> None:
    code = f"""
import contextlib, sys
from ncp_control.cli import main
for name in {list(cli.COMMANDS)}:
    with contextlib.suppress(SystemExit):
        main([name, "--help"])
    if "torch" in sys.modules:
        sys.exit(name)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 0, result.stderr  # whose last line names the command


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "--version") == f"ncp-control {nc.__version__}\n"


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_fits_a_screen(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    page = helped(capsys, name, "--help")
    lines = page.splitlines()
    assert len(lines) <= 35
    assert max(len(line) for line in lines if not line.startswith("  ncp-control ")) <= 80
    assert any(line.startswith(f"  ncp-control {name}") for line in lines), "an example to copy"
    kind = import_module(f"ncp_control.cli.{name}").Arguments
    everything = helped(capsys, name, "--help-all")
    for option in options_of(kind):
        assert f"  {option.word}" in everything
        assert option.text, f"{option.word} is not explained"
        assert option.word in page


def test_the_page_of_distil_explains_what_its_guide_uses(capsys: pytest.CaptureFixture[str]) -> None:
    assert "\n  --set KEY=VALUE ...  Settings of the cell" in helped(capsys, "distil", "--help")


@dataclass
class Arguments:
    """Do something.

    Example: ncp-control something here
    """

    place: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PLACE")]
    """Where."""

    episodes: int = 20
    """How many episodes."""

    env: Annotated[str | None, tyro.conf.arg(metavar="ID")] = None
    """The environment."""

    seldom: float = 0.5
    """A number."""

    json: bool = False
    """Print JSON."""


def test_help_shows_defaults_and_placeholders() -> None:
    page = help_text(Arguments, "ncp-control something", ("seldom",))
    assert page.splitlines() == [
        "usage: ncp-control something PLACE [OPTIONS]",
        "",
        "Do something.",
        "",
        "  ncp-control something here",
        "",
        "  PLACE         Where.",
        "  --episodes N  How many episodes. [20]",
        "  --env ID      The environment.",
        "  --json        Print JSON.",
        "  --help        Show this page; --help-all explains every option.",
        "",
        "Seldom needed: --seldom.",
    ]
    assert "  --seldom X    A number. [0.5]" in help_text(Arguments, "ncp-control something").splitlines()


def test_arguments_are_read_and_a_missing_one_is_named_with_its_text() -> None:
    words = ["here", "--episodes=3", "--seldom", "-1.5", "--json"]
    assert read(Arguments, "ncp-control something", words) == Arguments(Path("here"), 3, None, -1.5, True)
    with pytest.raises(ValueError, match=r"^PLACE is missing: where \(see `ncp-control something --help`\)$"):
        read(Arguments, "ncp-control something", [])
