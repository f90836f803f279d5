"""Predictions without a network, on the traces of the LTC paper."""

from pathlib import Path

import pytest

from ncp_control.data import Rollouts, Windows
from ncp_control.data.linear import linear_error, mean_error, persistence_error

CHEETAH = Path(__file__).resolve().parents[3] / "shared" / "data" / "cheetah"


@pytest.mark.skipif(not CHEETAH.is_dir(), reason="the paper's traces are not on this machine")
def test_the_errors_on_the_papers_traces() -> None:
    split = Rollouts.load(CHEETAH).split()
    assert [part[0].name for part in split] == ["trace_0015.npy", "trace_0000.npy", "trace_0005.npy"]
    train, test = Windows(split.train, 32, 10), Windows(split.test, 32, 10)
    assert persistence_error(test) == pytest.approx(62.87, abs=0.005)
    assert mean_error(train, test) == pytest.approx(17.47, abs=0.005)
    assert linear_error(split.train, split.test, lags=1) == pytest.approx(3.438, abs=0.0005)
    assert linear_error(split.train, split.test, lags=5) == pytest.approx(3.075, abs=0.0005)
