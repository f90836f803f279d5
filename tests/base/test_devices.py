"""Devices by name, and torch's threads."""

import pytest
import torch

from ncp_control.base.machine import pick_device, use_threads
from ncp_control.cli.bench import medians


def test_a_device_that_is_not_there_is_refused() -> None:
    assert pick_device("cpu") == torch.device("cpu")
    assert pick_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(ValueError, match="there is no device 'gpu': choose cpu, cuda or auto"):
        pick_device("gpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="there is no GPU that torch can use here"):
            pick_device("cuda")


def test_what_runs_nothing_here_and_a_gpu_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="nothing here runs on mps: choose cpu, cuda or auto"):
        pick_device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert pick_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(ValueError, match="there is no device cuda:2: the last one is cuda:1"):
        pick_device("cuda:2")


def test_threads() -> None:
    with pytest.raises(ValueError, match="threads must be at least 1, got 0"):
        use_threads(0)


def test_timing_runs_everything_in_turn_and_leaves_the_threads_as_they_were() -> None:
    before, seen = torch.get_num_threads(), []
    runs = {name: lambda name=name: seen.append((name, torch.get_num_threads())) for name in ("a", "b")}
    found = medians(runs, 2, threads={"b": 2})  # type: ignore[arg-type]
    assert seen == [("a", 1), ("a", 1), ("b", 2), ("b", 2)] * 2
    assert found.keys() == {"a", "b"}
    assert all(milliseconds >= 0 for milliseconds in found.values())
    assert torch.get_num_threads() == before
