"""Rounds of interval arithmetic shrink the bounds of a circuit's states as far as they can, and every round holds."""

import numpy as np
import pytest
import torch

from helpers.audited_cells import KNOWN, TIMES, box, grown, outside
from helpers.cells import CHAIN, build
from ncp_control.audit import examining as module
from ncp_control.audit.examining import reachable
from ncp_control.base import intervals
from ncp_control.base.intervals import between
from ncp_control.neurons import CTRNN, NeuralODE
from ncp_control.neurons.ranges import Elapsed, known_of
from ncp_control.ops import scan

ONCE = Elapsed(1.0, 1.0)


@pytest.mark.parametrize("name", KNOWN)
def test_the_bounds_contain_zero_and_lie_within_the_cells_own(name: str) -> None:
    for seed, elapsed in enumerate(TIMES):
        cell = grown(name, 1.0, seed)
        known = known_of(cell, elapsed)
        states, outer = reachable(known, box(cell.inputs, np.random.default_rng(seed))), known.outer()
        assert states.contains(np.zeros(known.size)).all()
        assert (states.low >= outer.low).all()
        assert (states.high <= outer.high).all()


@pytest.mark.parametrize("name", KNOWN)
def test_a_smaller_box_has_smaller_bounds(name: str) -> None:
    cell = grown(name, 1.0, 0)
    found = [reachable(known_of(cell, ONCE), between(-end, end, cell.inputs)) for end in (0.1, 1.0)]
    slack = 1e-6 * (1 + found[1].size)
    assert (found[0].low >= found[1].low - slack).all()
    assert (found[0].high <= found[1].high + slack).all()


def test_every_round_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    cell, features = grown("ltc-gaps", 1.0, 0), between(-1.0, 1.0, 3)
    inputs = torch.rand(256, 20, 3) * 2 - 1
    reached, widths = scan(cell, inputs), []
    for rounds in (1, 2, 5, 1000):
        monkeypatch.setattr(module, "MOST_ROUNDS", rounds)
        states = reachable(known_of(cell, ONCE), features)
        assert outside(states, reached) == []
        widths.append(states.width.sum())
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.9 * widths[0]


def test_a_chain_settles_although_only_one_end_of_a_state_has_a_bound() -> None:
    cell = NeuralODE(1, CHAIN, solver="euler").requires_grad_(False)
    cell.gamma.fill_(1.0)
    cell.gamma_r.fill_(1.0)
    cell.mu.fill_(0.1)
    states = reachable(known_of(cell, ONCE), between(0.5, 1.0, 1))
    assert states.low.tolist() == [0, 0]


@pytest.mark.system
def test_what_a_circuit_does_in_float32_escapes_without_the_widening(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "SLACK", 0.0)
    monkeypatch.setattr(intervals, "LEAST", 0.0)
    escaped = []
    for name in ("ctrnn-fused", "gru", "cfc-default", "ltc-dense"):
        for seed in range(8):
            cell = grown(name, 5.0, seed)
            corners = torch.randint(0, 2, (512, 1, cell.inputs)).float() * 2 - 1
            reached = scan(cell, corners.expand(512, 60, cell.inputs))
            escaped += outside(reachable(known_of(cell, ONCE), between(-1.0, 1.0, cell.inputs)), reached)
    assert escaped


def test_a_cell_without_inputs_that_matter_stays_at_zero() -> None:
    cell = CTRNN(1, CHAIN, solver="fused").requires_grad_(False)
    cell.gamma.zero_()
    cell.mu.zero_()
    states = reachable(known_of(cell, ONCE), between(-100.0, 100.0, 1))
    assert (states.size < 1e-4).all()


@pytest.mark.system
def test_the_named_cells_have_finite_bounds_but_for_those_that_say_why() -> None:
    for name in KNOWN:
        known = known_of(build(name), ONCE)
        states = reachable(known, between(-1.0, 1.0, known.features))
        assert np.isfinite(states.width).all() == (known.gap is None)


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_inputs_and_times_without_an_end_raise_no_warning(name: str) -> None:
    for scale in (1.0, 5.0):
        cell = grown(name, scale, 0)
        for elapsed in (ONCE, Elapsed(0.0, 0.0), Elapsed(0.0, np.inf)):
            known = known_of(cell, elapsed)
            for features in (between(-np.inf, np.inf, cell.inputs), between(-np.inf, 1.0, cell.inputs)):
                states = reachable(known, features)
                assert states.contains(np.zeros(known.size)).all()
                found = [known.after(states, features), known.outputs(states), known.time_constants(states, features)]
                slopes = known.slopes(states, features)
                found += [] if slopes is None else list(slopes)
                assert not any(np.isnan(end).any() for interval in found for end in interval)
                assert all((low <= high).all() for low, high in found)
