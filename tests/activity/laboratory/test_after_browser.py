"""A laboratory that begins where recordings ended."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.bench import rows
from helpers.browser_page import Page
from helpers.laboratories import exhibit_of, opened, write
from ncp_control.activity import record
from ncp_control.activity.recording.ends import end_of

pytestmark = pytest.mark.browser


def test_each_seed_begins_where_its_recording_ended(browser: Any, tmp_path: Path) -> None:
    exhibit = exhibit_of()
    paths = [tmp_path / "first.npz", tmp_path / "second.npz"]
    ends = [record(exhibit.agent, exhibit.env, path, 10 + 30 * k, progress=False) for k, path in enumerate(paths)]
    exhibit.starts = {str(path): end_of(end) for path, end in zip(paths, ends, strict=True)}
    page = opened(Page(browser, write(tmp_path, exhibit)), address="#seed=1")
    for seed in (1, 0, 3):
        page.ask(f"(ncp.runLine('seed={seed} 0:random=0'), ncp.advance(7))")
        then = record(exhibit.agent, exhibit.env, tmp_path / "then.npz", 8, after=ends[seed % 2], progress=False)
        np.testing.assert_allclose(rows(page, "observations", 8), then.observations, atol=1e-4)
        np.testing.assert_allclose(rows(page, "neurons", 8), then.neurons, atol=1e-4)
    assert f"--after {paths[1]}" in page.ask("ncp.command().command")
    assert "seed 1 where" in page.ask("document.getElementById('facts').textContent")
    assert page.errors() == []
