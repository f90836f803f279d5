"""`scripts/make_datasets.py` as a person runs it, and whether the episodes of a Minari dataset replay."""

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from numpy.testing import assert_array_equal

import ncp_envs

ROOT = Path(__file__).resolve().parents[2]


def run_script(*words: str | Path) -> int:
    """Runs the script in this process, where torch is loaded already; returns its exit code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        patch.setattr(sys, "argv", ["scripts/make_datasets.py", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            runpy.run_path(str(ROOT / "scripts" / "make_datasets.py"), run_name="__main__")
    assert isinstance(left.value.code, int)
    return left.value.code


def call(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    """Runs the script in this process; returns its exit code, output and errors."""
    capsys.readouterr()
    return run_script(*words), *capsys.readouterr()


def made(capsys: pytest.CaptureFixture[str], *words: str | Path) -> dict[str, Any]:
    """Returns the JSON object of a call that must succeed."""
    code, out, err = call(capsys, *words, "--json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def seeds_of(dataset: Any) -> list[int | None]:
    return [found.get("seed") for found in dataset.storage.get_episode_metadata(dataset.episode_indices)]


def assert_replays(dataset: Any, episodes: int | None = None) -> None:
    """Seed and stored actions give the stored observations and rewards, episode by episode."""
    with ncp_envs.without_mass_warning():
        env = dataset.recover_environment()
    for episode, seed in list(zip(dataset.iterate_episodes(), seeds_of(dataset), strict=True))[:episodes]:
        observation, _ = env.reset(seed=seed)
        assert_array_equal(observation, episode.observations[0])
        for step, action in enumerate(episode.actions):
            observation, reward, terminated, truncated, _ = env.step(action)
            assert_array_equal(observation, episode.observations[step + 1])
            assert reward == episode.rewards[step]
            assert (terminated, truncated) == (episode.terminations[step], episode.truncations[step])
        assert terminated or truncated
    env.close()
