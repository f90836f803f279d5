"""What float32 would lose of data far from zero is refused, and all else is left as it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from ncp_control.cli import main
from ncp_control.data import Rollout, Rollouts
from ncp_control.data.digits import check_columns, check_digits
from ncp_control.dynamics import DynamicsModel, FitSettings, fit, one_step_error


def walks(offset: float, dtype: type = np.float64) -> Rollouts:
    """Random walks in steps of .1, of which nobody foretells the next step with an error below .01."""
    random = np.random.default_rng(0)
    found = (offset + np.cumsum(random.normal(scale=0.1, size=(200, 1)), axis=0) for _ in range(5))
    return Rollouts(tuple(Rollout(rows.astype(dtype)) for rows in found), ("height",))


@pytest.mark.parametrize("offset", [1e6, 1e7, 1e8, -1e8])
def test_a_fit_refuses_a_walk_far_from_zero(offset: float, tmp_path: Path) -> None:
    parts = walks(offset).split()
    model = DynamicsModel.of(parts.train, "ctrnn", 2)
    with pytest.raises(ValueError, match=r"height lies too far from zero: .* float32.* subtract a constant such as"):
        fit(model, parts, FitSettings(epochs=1), out=tmp_path / "fit", progress=False)
    assert not (tmp_path / "fit").exists()


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e5])
def test_a_walk_that_float32_can_hold_has_its_own_error(offset: float) -> None:
    parts = walks(offset).split()
    torch.manual_seed(0)
    model = DynamicsModel.of(parts.train, "ctrnn", 2, residual=True)  # which at first predicts no change
    fit(model, parts, FitSettings(epochs=1, learning_rate=1e-9), progress=False)
    steps = np.concatenate([np.diff(one.observations, axis=0) for one in parts.test])
    assert one_step_error(model, parts.test) == pytest.approx(np.square(steps).mean(), rel=0.05)


def test_numbers_that_float32_holds_exactly_stay_flat_or_are_stored_as_float32_are_taken() -> None:
    random = np.random.default_rng(0)
    whole = 1e7 + random.integers(0, 5, size=(100, 1))
    flat = np.full((100, 1), 1e8 + 0.1)
    for rows in (whole, flat, np.full((100, 1), 0.1) + random.normal(scale=1e-18, size=(100, 1))):
        check_digits(Rollouts((Rollout(rows),)), ["x"])
    check_digits(walks(1e8, np.float32), ["x"])
    goals = [np.full((50, 1), goal) for goal in (0.1, 0.7, 0.3)]  # which change between episodes only
    check_digits(Rollouts(tuple(map(Rollout, goals))), ["goal"])


def test_actions_and_slow_clocks_are_looked_at_too() -> None:
    far = 1e8 + np.random.default_rng(0).normal(size=(100, 2))
    rollouts = Rollouts((Rollout(np.zeros((101, 1)), far),))
    with pytest.raises(ValueError, match="push lies too far"):
        check_digits(rollouts, ["push", "pull"], "actions")
    clock = 1.7e9 + 60.0 * np.arange(100_000)[:, None]
    with pytest.raises(ValueError, match="clock lies too far"):
        check_digits(Rollouts((Rollout(clock),)), ["clock"])


def test_missing_values_lose_nothing() -> None:
    rows = np.random.default_rng(0).normal(size=(100, 2))
    rows[::3, 0] = np.nan
    check_columns(rows, ["x", "y"])
    with pytest.raises(ValueError, match="x lies too far from zero"):
        check_columns(rows + np.array([1e8, 0.0]), ["x", "y"])


@pytest.mark.parametrize("task", ["predict=y,read=x", "label=kind,read=y+x", "value=x,read=y"])
def test_fit_refuses_a_table_and_names_the_column(task: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    random = np.random.default_rng(0)
    lines = ["g,x,y,kind"]
    for group in range(5):
        lines += [f"{group},{1e8 + random.normal():.3f},{random.normal():.3f},{'ab'[k % 2]}" for k in range(40)]
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    words = ["fit", f"{tmp_path}/table.csv:{task},group=g", "--epochs", "1", "--units", "2", "--actions"]
    words = words if task.startswith("predict") else words[:-1]
    assert main([*words, "--out", str(tmp_path / "fit")]) == 2
    assert "lies too far from zero" in capsys.readouterr().err
