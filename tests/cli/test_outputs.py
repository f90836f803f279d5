"""What took work to make is never overwritten; what is made from it in a moment is replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("sb3_contrib")
pytest.importorskip("mujoco")

from helpers.small_agents import small_agent
from ncp_control.cli import REFUSED, main

AGENT = "circuit.safetensors"
RECORD = ("record", AGENT, "--steps", "4", "--out", "episode.npz")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with an agent in it, which is the current one."""
    monkeypatch.chdir(tmp_path)
    small_agent("circuit", tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "words",
    [
        ("export", AGENT, "--to", "c", "--steps", "0"),
        ("collect", "--env", "Pendulum-v1", "--policy", "random", "--episodes", "1", "--max-steps", "5"),
        ("plan", "--simulator", "--steps", "1", "--horizon", "1", "--plans", "3", "--best", "1", "--iterations", "1"),
        ("train", "cartpole-positions", "--steps", "8", "--set", "n_envs=1", "n_steps=8", "batch_size=8"),
    ],
    ids=lambda words: words[0],
)
def test_what_took_work_is_never_overwritten(
    words: tuple[str, ...], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--out", "./made-v0"]) == 0
    before = contents(here)
    capsys.readouterr()
    assert main([*words, "--out", "./made-v0"]) == REFUSED
    assert "--out" in capsys.readouterr().err
    assert contents(here) == before


@pytest.mark.system
@pytest.mark.parametrize(
    ("words", "made"),
    [
        (RECORD, "episode.npz"),
        (("view", "episode.npz", "--html", "page.html"), "page.html"),
        (("view", "episode.npz", "--figures", "pictures"), "pictures/raster.png"),
        (("ablate", AGENT, "--episodes", "1", "--neurons", "inter0", "--out", "table.csv"), "table.csv"),
        (("audit", AGENT, "--box", "3", "--attack", "0", "--html", "proof.html"), "proof.html"),
        (("audit", AGENT, "--box", "3", "--attack", "0", "--monitor", "ranges.json"), "ranges.json"),
    ],
)
def test_what_is_made_in_a_moment_is_replaced(words: tuple[str, ...], made: str, here: Path) -> None:
    assert main(RECORD) == 0
    path = here / made
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    assert main(words) == 0
    written = path.stat().st_size
    path.write_bytes(b"of another time")
    assert main(words) == 0
    assert path.stat().st_size == pytest.approx(written, rel=0.1)
