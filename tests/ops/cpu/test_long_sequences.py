"""What an audit certifies holds for sequences of any length: rounding does not add up from step to step."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import ncp_control as nc
from helpers.audited_cells import grown
from helpers.cell_values import close_to, set_values
from helpers.cells import REPRESENTATIVES, build, compiled, kept
from ncp_control.audit.examining import reachable
from ncp_control.base.intervals import between
from ncp_control.neurons.ranges import Elapsed, known_of
from ncp_control.ops.cpu import launch
from ncp_control.ops.cpu.backend import available
from ncp_control.wiring import Wiring

pytestmark = pytest.mark.skipif(not available()[0], reason=available()[1])

CELLS = [name for name in compiled(launch.KINDS) if name in REPRESENTATIVES and kept(name).guarantee.holds]


def assert_certified(cell: nc.Cell, inputs: Tensor, elapsed: Tensor, backend: str, name: str = "") -> None:
    """Runs inputs in [-1, 1] from the state zero, and holds every state to its certified range."""
    times = Elapsed(float(elapsed.min()), float(elapsed.max()))
    certified = reachable(known_of(cell, times), between(-1.0, 1.0, cell.inputs))
    with torch.no_grad():
        states = nc.scan(cell, inputs, elapsed=elapsed, backend=backend)
    least, most = states.amin((0, 1)).double(), states.amax((0, 1)).double()
    assert (certified.contains(least) & certified.contains(most)).all(), (name, certified, least, most)


def held_gru() -> tuple[nc.GRU, Tensor]:
    """A GRU whose update gate opens for 10 steps, in which the state rises to its end, and shuts for all others."""
    cell = nc.GRU(2, 1)
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.zero_()
        cell.weight_ih[1, 0], cell.weight_ih[2, 1] = 30.0, 0.8
    inputs = torch.rand(64, 50_000, 2, generator=torch.Generator().manual_seed(0)) * 2 - 1
    inputs[..., 0] = 1.0
    inputs[:, :10] = torch.tensor([-1.0, 1.0])
    return cell, inputs


def test_a_gru_that_holds_its_state_does_not_drift_out_of_its_certified_range(level: str) -> None:
    cell, inputs = held_gru()
    assert_certified(cell, inputs, torch.ones(()), "cpu")


@pytest.mark.system
def test_nor_does_it_in_the_reference() -> None:
    cell, inputs = held_gru()
    assert_certified(cell, inputs[:, :10_000], torch.ones(()), "reference")


def test_rounding_errors_that_gap_junctions_pass_on_stay_in_the_certified_range(level: str) -> None:
    """Four neurons that next to nothing but gap junctions pulls: their leaks are 1e-7 of these or less."""
    pairs = [(one, other) for one in range(4) for other in range(one + 1, 4)]
    wiring = Wiring.from_edges(1, inter=3, motor=1, sensory=[(0, 0)], gap_junctions=pairs)
    cell = nc.LTC(1, wiring, unfolds=1, input_map="none", output_map="none")
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(8, 100_000, 1, generator=generator)
    inputs[:, torch.rand(100_000, generator=generator) < 0.9] = -10.0
    elapsed = 10 ** (8 * torch.rand(8, 100_000, generator=generator) - 4)
    torch.manual_seed(20)  # of sixty circuits drawn so, the one whose states rounding takes furthest
    vleak, cm, gap = torch.randn(4), 10 ** (4 * torch.rand(4) - 5), 10 ** (3 * torch.rand(6) - 1)
    drawn = {"vleak": vleak.tolist(), "cm": cm.tolist(), "gap": gap.tolist()}
    synapse = {"sensory_w": 0.013, "sensory_mu": 0.0, "sensory_sigma": 30.0, "sensory_E": -3.64481425}
    set_values(cell, gleak=2e-8, **drawn, **synapse)
    low, high = (bound.detach() for bound in cell.state_bounds())
    known = known_of(cell, Elapsed(1e-4, 1e4)).outer()
    with torch.no_grad():
        states = nc.scan(cell, inputs, torch.stack([low, high] * 4), elapsed, backend="cpu").double()
    assert known.contains(states.amin((0, 1))).all()
    assert known.contains(states.amax((0, 1))).all()


@pytest.mark.system
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_no_cell_leaves_its_certified_range_in_thousands_of_steps(level: str, scale: float) -> None:
    """With ordinary and with saturated gates and synapses, for random inputs and for those at the ends of the box."""
    for name in CELLS:
        cell = grown(name, scale, 0)
        generator = torch.Generator().manual_seed(1)
        inputs = torch.rand(20, 4000, cell.inputs, generator=generator) * 2 - 1
        inputs[::2] = inputs[::2].sign()
        for elapsed in (torch.ones(()), 0.001 + 7 * torch.rand(20, 4000, generator=generator) ** 4):
            assert_certified(cell, inputs, elapsed, "cpu", name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in compiled(launch.KINDS) if kept(name).guarantee.holds])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
def test_no_cell_leaves_its_bounds_in_a_hundred_thousand_extreme_steps(
    level: str, name: str, dtype: torch.dtype
) -> None:
    """Inputs and times of any size from 1e-38 to 1e38; some are zero, and some are held for a while."""
    cell, generator = build(name, dtype), torch.Generator().manual_seed(1)
    low, high = close_to(cell.state_bounds())
    state = None
    for part in range(10):
        exponent = torch.rand(5, 10_000, cell.inputs + 1, generator=generator) * 76 - 38
        exponent[part % 5, :] = exponent[part % 5, :1]  # a row that stands still
        size = (10 ** exponent.double()).clamp(max=1e38).to(dtype)
        sign = torch.randint(-1, 2, size.shape, generator=generator)
        with torch.no_grad():
            states = nc.scan(cell, (size * sign)[..., 1:], state, (size * sign.abs())[..., 0], backend="cpu")
        assert ((states >= low) & (states <= high)).all()
        state = states[:, -1]
