"""Which cells are known, and what is used of the others."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from helpers.audited_cells import KNOWN
from helpers.cells import ZOO, build
from ncp_control.audit.examining import reachable
from ncp_control.base.intervals import between, point
from ncp_control.neurons import GRU, LTC, CfC, Held
from ncp_control.neurons.affine.ranges import KnownAffine
from ncp_control.neurons.catalogue import row_of
from ncp_control.neurons.gated.ranges import KnownGRU
from ncp_control.neurons.ltc.ranges import KnownLTC
from ncp_control.neurons.ranges import Elapsed, Opaque, known_of

ONCE = Elapsed(1.0, 1.0)


def test_cells_are_known_with_the_settings_that_their_ranges_cover() -> None:
    for name in ZOO:
        cell = build(name)
        row = row_of(type(cell))
        assert (name in KNOWN) == (row.ranges is not None and row.part("ranges").covers(cell)), name
    known = {"ltc-euler", "neural-ltc-relu", "ctrnn-fused", "neural-ode-euler", "cfc-no_gate", "dual", "lstm", "gru"}
    assert known <= set(KNOWN)
    unknown = {"ltc-rk4", "ctrnn-dopri5", "cfc-pure", "cfc-backbone", "ct-gru", "mixed-ltc"}
    assert not unknown & set(KNOWN)
    assert unknown <= set(ZOO)


@pytest.mark.parametrize("name", [name for name in ZOO if name not in KNOWN])
def test_of_other_cells_no_more_is_used_than_the_bounds_that_they_guarantee(name: str) -> None:
    cell = build(name)
    known = known_of(cell, ONCE)
    states = reachable(known, between(-1, 1, cell.inputs))
    assert isinstance(known, Opaque)
    assert known.gap is not None
    assert type(cell).__name__ in known.gap
    assert known.slopes(states, between(-1, 1, cell.inputs)) is None
    if cell.guarantee.holds:
        np.testing.assert_allclose(states.high, cell.state_bounds()[1].detach().numpy(), rtol=1e-5)
    else:
        assert cell.guarantee.reason in known.gap
        assert np.isinf(states.width).all()


def test_a_cell_of_ones_own_is_not_known_although_it_is_derived_from_a_known_one() -> None:
    class Louder(GRU):
        def advance(self, constants, sensed, state, elapsed):
            return 3 * super().advance(constants, sensed, state, elapsed)

    assert isinstance(known_of(Louder(2, 3), ONCE), Opaque)
    assert isinstance(known_of(GRU(2, 3), ONCE), KnownGRU)


def test_held_neurons_are_not_known() -> None:
    assert isinstance(known_of(Held(LTC(2, 3), {0: 0.5}), ONCE), Opaque)


def test_after_a_step_a_cell_that_is_not_known_can_be_anywhere_in_its_bounds() -> None:
    known = known_of(CfC(2, 3, backbone=(4,)), ONCE)
    after = known.after(point(np.zeros(3)), point(np.zeros(2)))
    assert after.contains([[1, 1, 1], [-1, -1, -1]]).all()


def test_a_parametrised_cell_is_known_with_the_parameters_that_it_computes() -> None:
    class Halved(nn.Module):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return values / 2

    plain, cell = build("gru"), build("gru")
    parametrize.register_parametrization(cell, "weight_ih", Halved())
    known = known_of(cell, ONCE)
    assert isinstance(known, KnownGRU)
    plain.weight_ih.data.mul_(0.5)
    features = between(-1, 1, 3)
    expected = reachable(known_of(plain, ONCE), features)
    np.testing.assert_array_equal(reachable(known, features).high, expected.high)


def test_a_pruned_cell_is_read_as_it_is_after_pruning() -> None:
    from torch.nn.utils import prune

    cell = build("neural-ltc-sigmoid")
    prune.l1_unstructured(cell, "gamma", amount=0.5)
    with torch.no_grad():
        cell.gamma_orig.mul_(3.0)  # the pruned parameter is computed from this one when the cell runs
        most = float((cell.gamma_orig * cell.gamma_mask).abs().max())
    known = known_of(cell, ONCE)
    assert isinstance(known, KnownAffine)
    assert np.abs(known.weights[:, :3]).max() == pytest.approx(most)


def test_an_ltc_is_known_for_the_solvers_that_are_weighted_means() -> None:
    for solver, is_known in (("fused", True), ("euler", True), ("rk4", False), ("dopri5", False)):
        assert isinstance(known_of(LTC(2, 3, solver=solver), ONCE), KnownLTC) == is_known
