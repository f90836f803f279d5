"""The script that teaches calm students: its table and its figure."""

from pathlib import Path

import pytest

pytest.importorskip("mujoco")

from ncp_control.loop.exponents import MeanInterval
from scripts.calm_frontier import Calm, draw, table


def test_a_table_and_a_figure_show_returns_shares_and_exponents(tmp_path: Path) -> None:
    students = [
        Calm(0.0, [9000.0, 9200.0], [3000.0, 3100.0], MeanInterval(0.35, 0.34, 0.36)),
        Calm(0.1, [8000.0, 8200.0], [6000.0, 6150.0], MeanInterval(0.2, 0.19, 0.21)),
    ]
    rows = table(students, 0.03).splitlines()
    assert rows[0] == "| calm | undisturbed | noise of 0.03 | of that | exponent a step |"
    assert rows[2] == "| 0 | 9,100 ± 141 (9,000) | 3,050 ± 71 (3,000) | 34% | +0.350 (+0.340 to +0.360) |"
    assert rows[3].startswith("| 0.1 | 8,100")
    draw(students, 0.03, tmp_path / "frontier.svg")
    assert "largest exponent" in (tmp_path / "frontier.svg").read_text(encoding="utf-8")
