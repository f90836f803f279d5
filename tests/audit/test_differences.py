"""The system of distances: what it proves for circuits small enough to know the answer, and for real ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import ncp_control as nc
from helpers.audited_cells import grown
from helpers.cells import names
from ncp_control.audit.differences import Differences, shrinking
from ncp_control.audit.examining import reachable
from ncp_control.base.intervals import Interval, between, point
from ncp_control.neurons.ranges import Elapsed, Slopes, known_of

LTCS = [name for name in names() if name.startswith(("ltc", "neural-ltc", "dual", "cfc"))]


def system(M: list[list[float]], B: list[float], widths: list[float], substeps: int = 1) -> Differences:
    size = len(M)
    return Differences(np.array(M), np.array(B)[:, None], np.eye(size), np.eye(size), np.array(widths), substeps)


def test_a_single_leaky_neuron_forgets_as_its_factor_says() -> None:
    steps, acted = system([[0.5]], [0.0], [1.0]).forgotten(0.01, np.array([1.0]))
    assert steps == [7]  # 0.5^7 is the first power below 0.01
    assert acted == 7
    assert system([[0.5]], [0.0], [1.0], substeps=2).forgotten(0.01, np.array([1.0]))[1] == 4
    assert system([[0.5]], [0.0], [1.0], substeps=2).rate() == pytest.approx(0.25)


def test_a_neuron_that_never_forgets_is_not_proved() -> None:
    assert system([[1.0]], [0.0], [1.0]).forgotten(0.01, np.array([1.0])) == ([None], None)
    assert system([[1.2]], [0.0], [1.0]).rate() == pytest.approx(1.2)


@pytest.mark.parametrize("distance", [0.0, 1.5e-12, 1e-9])
def test_what_is_not_proved_to_forget_is_named_down_to_the_last_digits(distance: float) -> None:
    found = system([[1 - distance]], [0.0], [1.0])
    assert (found.rate() >= 1) == bool(found.cycles()) == (distance < 1e-9)


def test_a_circuit_without_cycles_forgets_after_its_slowest_neuron_even_with_a_strong_synapse() -> None:
    found = system([[0.9, 0.0], [50.0, 0.1]], [0.0, 0.0], [1.0, 1.0])
    assert found.cycles() == []
    assert found.rate() == pytest.approx(0.9)
    steps, _ = found.forgotten(0.01, np.ones(2))
    assert steps[0] == 44  # 0.9^44 < 0.01
    assert steps[1] is not None
    assert steps[1] > steps[0]


def test_a_cycle_is_judged_by_its_spectral_radius_whatever_the_scale_of_its_neurons() -> None:
    weak = system([[0.0, 100.0], [0.002, 0.0]], [0.0, 0.0], [1.0, 1.0])
    assert weak.cycles() == [([0, 1], pytest.approx(0.2**0.5))]
    assert weak.forgotten(0.01, np.ones(2))[1] is not None
    strong = system([[0.0, 100.0], [0.02, 0.0]], [0.0, 0.0], [1.0, 1.0])
    assert strong.cycles()[0][1] > 1
    assert strong.forgotten(0.01, np.ones(2))[1] is None


def test_an_error_that_never_ends_moves_the_state_to_the_fixed_point() -> None:
    found = system([[0.5, 0.0], [1.0, 0.25]], [1.0, 0.0], [100.0, 100.0])
    wanted = np.linalg.solve(np.eye(2) - found.M, [0.1, 0.0])
    np.testing.assert_allclose(found.always(found.B @ np.array([0.1])), wanted, rtol=1e-5)
    np.testing.assert_allclose(found.now(np.array([0.1])), [0.1, 0.0])
    clamped = system([[1.5]], [1.0], [3.0])
    np.testing.assert_allclose(clamped.always(clamped.B @ np.array([0.1])), [3.0])


def test_ranges_without_an_end_are_not_proved_and_raise_no_warning() -> None:
    found = system([[0.5, 0.0], [0.0, 0.5]], [1.0, 0.0], [np.inf, 1.0])
    steps, _ = found.forgotten(0.01, np.ones(2))
    assert steps[0] is None
    assert shrinking(np.array([[np.inf]]))[0] == np.inf


@pytest.mark.parametrize("name", LTCS)
def test_two_copies_of_a_cell_are_never_further_apart_than_the_system_says(name: str) -> None:
    for seed, scale in ((0, 0.5), (1, 1.0), (2, 2.0)):
        cell = grown(name, scale, seed, torch.float64)
        known = known_of(cell, Elapsed(0.5, 2.0))
        features = between(-1.5, 1.5, cell.inputs)
        states = reachable(known, features)
        slopes = known.slopes(states, features)
        if slopes is None:
            continue
        system = Differences.of(slopes, point(np.eye(known.size)), states, known.substeps)
        check_copies(cell, system, states, seed)


def check_copies(cell: nc.Cell, system: Differences, states: Interval, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    rnn, rows = nc.RNN(cell, backend="reference"), 32
    low, high = (torch.as_tensor(end) for end in states)
    if not torch.isfinite(high - low).all():
        return
    one, other = (low + torch.rand(rows, len(low), generator=generator) * (high - low) for _ in range(2))
    d = np.abs((one - other).numpy()).max(axis=0)
    e = np.full(cell.inputs, 0.05)
    with torch.no_grad():
        for _ in range(6):
            inputs = (torch.rand(rows, cell.inputs, generator=generator, dtype=torch.float64) * 2 - 1) * 1.45
            times = 0.5 + 1.5 * torch.rand(rows, generator=generator, dtype=torch.float64)
            error = (torch.rand(rows, cell.inputs, generator=generator, dtype=torch.float64) * 2 - 1) * 0.05
            one, other = rnn.step(inputs, one, times)[1], rnn.step(inputs + error, other, times)[1]
            d = system.after(d, system.B @ e, system.substeps)
            apart = np.abs((one - other).numpy()).max(axis=0)
            assert (apart <= d * (1 + 1e-9) + 1e-12).all()


def test_slopes_of_the_same_step_add_up_along_the_layers() -> None:
    same = np.zeros((3, 3))
    same[1, 0], same[2, 1] = 2.0, 3.0
    before = np.diag([0.5, 0.0, 0.0])
    slopes = Slopes(point(same), point(before), point(np.ones((3, 1)) * [[1.0], [0.0], [0.0]]))
    found = Differences.of(slopes, point(np.eye(3)), between(0.0, 1.0, 3), 1)
    np.testing.assert_allclose(found.M[:, 0], [0.5, 1.0, 3.0])
    np.testing.assert_allclose(found.B[:, 0], [1.0, 2.0, 6.0])
