"""The gait without senses: its search finds what it looks for, and its agent looks at nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ncp_control.cli import main
from scripts import open_loop_gait
from scripts.open_loop_gait import GAIT, SIZE, Oscillators, Search

ROOT = Path(__file__).resolve().parents[2]


def test_the_search_finds_the_top_of_a_narrow_hill() -> None:
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    top = np.linspace(-2, 2, 6)
    found = Search(np.zeros(6), np.ones(6), 16, seed=0)
    for _ in range(200):
        candidates = found.ask()
        found.tell(-np.square((candidates - top) @ turn * np.geomspace(1, 30, 6)).sum(axis=1))
    np.testing.assert_allclose(found.mean, top, atol=1e-3)


def test_an_angle_goes_on_with_the_speed_of_its_half_and_begins_anew_with_an_episode() -> None:
    numbers = np.concatenate([np.ones(6), np.full(6, 0.1), np.full(6, 0.2), np.log([1.0, 2.0])])
    agent = Oscillators(numbers)
    torques, state = agent.predict(np.zeros((1, 17)))
    np.testing.assert_allclose(torques, np.full((1, 6), 0.2 + np.sin(0.1)), atol=1e-6)
    np.testing.assert_allclose(state, np.full((1, 6), 0.1 + 2 * np.pi * 0.05), atol=1e-12)
    later = np.full((2, 6), np.pi + 0.1)
    torques, state = agent.predict(np.ones((2, 17)), later, np.array([False, True]))
    np.testing.assert_allclose(torques[0], 0.2 - np.sin(0.1), atol=1e-6)
    np.testing.assert_allclose(state[0], np.pi + 0.1 + 2 * np.pi * 0.05 * 2, atol=1e-12)
    np.testing.assert_allclose(torques[1], 0.2 + np.sin(0.1), atol=1e-6)


def test_a_short_search_prints_a_gait(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--generations", "2", "--population", "4", "--episodes", "1", "--steps", "5"]
    open_loop_gait.main(words)
    first = capsys.readouterr().out
    open_loop_gait.main(words)
    assert capsys.readouterr().out == first
    assert first.startswith("GAIT = (")
    assert first.count(",") == SIZE - 1


def test_noise_means_nothing_to_the_shipped_gait(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(GAIT) == SIZE
    monkeypatch.chdir(ROOT)
    words = ["evaluate", "scripts.open_loop_gait:gait", "--env", "HalfCheetah-v5", "--episodes", "3", "--json"]
    assert main([*words, "--grid", "--levels", "noise=0.1", "dropout=0.5", "mass=1.1"]) == 0
    rows = json.loads(capsys.readouterr().out)["agents"][0]["rows"]
    returns = [row["mean_return"] for row in rows]
    assert returns[0] == returns[1] == returns[2] != returns[3]
    assert returns[0] > 1000
