"""Our datasets in d3rlpy, against the real package: `python scripts/clients.py d3rlpy`, which runs the page too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.docs_pages import ROOT, blocks
from ncp_control.data import Rollouts

pytestmark = pytest.mark.clients
pytest.importorskip("d3rlpy")


def test_the_buffer_of_the_page_has_every_step_of_the_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = blocks(ROOT / "docs" / "integrations" / "d3rlpy.md", "python")
    names: dict[str, object] = {}
    exec(block, names)
    rollouts, episodes = Rollouts.load("pendulum-v0"), names["buffer"].episodes  # type: ignore[attr-defined]
    assert len(episodes) == len(rollouts) == 4
    for episode, rollout in zip(episodes, rollouts, strict=True):
        assert not episode.terminated
        np.testing.assert_array_equal(episode.observations, np.asarray(rollout.observations[:-1], np.float32))
        np.testing.assert_array_equal(episode.actions, np.asarray(rollout.actions, np.float32))
