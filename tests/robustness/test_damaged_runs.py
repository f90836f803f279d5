"""A damaged folder, damaged data, or a finished run: what `--resume` and the commands answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.command_line import refused_after_progress as refused
from helpers.long_commands import collect_words, fit_words, train_words
from ncp_control.base.kinds import RECORD
from ncp_control.cli import main
from ncp_control.data import collect

pytest.importorskip("sb3_contrib")


def test_a_damaged_run_is_not_resumed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words, out = train_words(tmp_path, "RecurrentPPO"), tmp_path / "out"
    assert main([*words, "--out", str(out)]) == 0
    capfd.readouterr()
    for name in ("state.safetensors", RECORD):
        whole = (out / name).read_bytes()
        for content in (b"", whole[: len(whole) // 2], b"[1]", b"\x80\x04cos\nsystem\n(S'true'\ntR."):
            (out / name).write_bytes(content)
            assert str(out / name) in refused(capfd, *words, "--out", out, "--resume")
        (out / name).write_bytes(whole)
    assert main([*words, "--out", str(out), "--resume"]) == 0


def test_rollouts_without_their_plan_are_not_resumed(tmp_path: Path) -> None:
    """They might have another seed or another controller."""
    collect("random", "CartPole-v1", 2, keep=tmp_path, progress=False)
    (tmp_path / "plan.json").unlink()
    with pytest.raises(ValueError, match=r"holds rollouts, but no plan\.json to continue them by: remove the folder"):
        collect("random", "CartPole-v1", 2, seed=1, keep=tmp_path, resume=True, progress=False)


def test_a_finished_collection_prints_its_result_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words, out = collect_words(tmp_path), tmp_path / "out"
    assert main([*words, "--out", str(out), "--json"]) == 0
    told = capfd.readouterr().out
    assert main([*words, "--out", str(out), "--json", "--resume", "--workers", "2"]) == 0
    assert capfd.readouterr().out == told
    assert "exists already" in refused(capfd, *words, "--out", out)
    assert "exists already" in refused(capfd, *words[:-1], "9", "--out", out, "--resume")  # another seed


def test_a_fit_refuses_damaged_data(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words, out = fit_words(tmp_path), tmp_path / "out"
    values = np.ones((40, 2))
    values[3, 1] = np.nan
    np.savez(tmp_path / "data" / "trace9.npz", observations=values)
    assert "trace9.npz: observations[3, 1] is nan" in refused(capfd, *words, "--out", out)
    assert not out.exists()
