"""How far an error moves an action along a recording: in every step, in each episode, at the times that it was made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import ncp_control as nc
from helpers.small_agents import agent_of, small_agent
from ncp_control.audit import audit
from ncp_control.audit.recorded import RecordedPath
from ncp_control.neurons.parameters import raw_of
from ncp_control.wiring import Wiring

ONE = Wiring.from_edges(1, motor=1, sensory=[(0, 0)], synapses=[(0, 0)])


def neuron(tau: float = 0.1, excites: float = 0.0) -> Any:
    """A neuron that answers steeply to an observation near 0, or a state near 0, and hardly to others."""
    cell = nc.CTRNN(1, ONE, solver="fused", unfolds=1).requires_grad_(False)
    cell.tau_raw.copy_(raw_of(torch.tensor([tau])))
    for name, value in (("gamma", 5.0), ("gamma_r", excites), ("mu", 0.0)):
        getattr(cell, name).fill_(value)
    agent = agent_of(cell, box=4.0)
    head = agent.policy.action_net.requires_grad_(False)
    head.weight.fill_(0.1)
    head.bias.zero_()
    return agent


def moved(agent: Any, recording: Any, **more: Any) -> float:
    found = audit(agent, recording=recording, attack=0, progress=False, **more).actions[0].moved_on_path
    assert found is not None
    return found


@pytest.mark.system
def test_every_step_of_a_long_recording_counts() -> None:
    agent, rows = neuron(), np.full((20_001, 1), 3.0)
    quiet = moved(agent, rows[:100])
    rows[19_999] = 0.0
    assert moved(agent, rows) > 1000 * quiet


def test_the_state_begins_anew_with_each_episode() -> None:
    agent = neuron(tau=5.0, excites=4.0)
    first, second = np.full((30, 1), 3.0), np.full((5, 1), 0.01)
    alone = max(moved(agent, first), moved(agent, second))
    both, starts = np.concatenate([first, second]), np.arange(35) == 30
    assert moved(agent, both) < 0.1 * alone  # as one episode, in which the neuron is saturated by then
    assert moved(agent, RecordedPath(both, starts=starts)) == alone


def test_the_times_are_those_of_the_recording() -> None:
    agent, rows = neuron(tau=5.0, excites=1.0), np.random.default_rng(0).normal(0, 0.3, (20, 1))
    ends = [moved(agent, rows, elapsed=(time, time)) for time in (0.5, 2.0)]
    assert ends[0] < ends[1]
    for time, end in zip((0.5, 2.0), ends, strict=True):
        made = RecordedPath(rows, elapsed=np.full(20, time))
        assert moved(agent, made, elapsed=(0.5, 2.0)) == pytest.approx(end, rel=1e-9)
    mixed = RecordedPath(rows, elapsed=np.where(np.arange(20) % 2, 0.5, 2.0))
    assert ends[0] < moved(agent, mixed, elapsed=(0.5, 2.0)) < 2 * ends[1]


def test_an_agent_that_knows_no_time_needs_none(tmp_path: Any) -> None:
    agent = small_agent("plain", tmp_path)
    rows = np.zeros((5, 3))
    assert moved(agent, rows, elapsed=(0.5, 2.0)) == moved(agent, rows)


@pytest.mark.parametrize(
    ("recording", "elapsed", "match"),
    [
        (np.zeros((4, 1)), (0.5, 2.0), "does not say when it was made, and the audit is of times from 0.5 to 2"),
        (RecordedPath(np.zeros((4, 1)), np.array([1.0, 1.0, 3.0, 2.0])), None, "are from 1 to 3, and .* from 1 to 1"),
        (RecordedPath(np.zeros((4, 1)), np.array([1.0, np.nan, 1.0, 1.0])), (0.0, 9.0), "from nan to nan"),
        (RecordedPath(np.zeros((4, 1)), np.ones(3)), None, r"elapsed times of shape \(3,\), and must have \(4,\)"),
        (RecordedPath(np.zeros((4, 1)), starts=np.ones(5, bool)), None, r"starts of episodes of shape \(5,\)"),
    ],
)
def test_a_recording_that_does_not_fit_is_refused(recording: Any, elapsed: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        moved(neuron(), recording, elapsed=elapsed)


def test_a_state_that_is_no_number_is_moved_by_anything() -> None:
    agent = neuron(excites=0.0)
    agent.policy.lstm_actor.cell.gamma.fill_(float("inf"))
    with np.errstate(invalid="ignore"):
        assert not np.isfinite(moved(agent, np.zeros((3, 1))))
