"""The LTC: its equation by hand, an RC circuit without synapses, and how it starts."""

import math

import pytest
import torch

from helpers.cell_values import exact, set_values, sigmoid
from ncp_control.neurons import LTC
from ncp_control.wiring import FullyConnected, GapJunctions, Wiring

SELF = Wiring.from_edges(1, motor=1, sensory=[(0, 0, -1)], synapses=[(0, 0)])


def test_ltc_step_by_hand() -> None:
    cell = LTC(1, SELF).double()
    set_values(cell, cm=0.5, gleak=0.3, vleak=-0.1, w=0.8, sigma=4.0, mu=0.2, E=1.1)
    set_values(cell, sensory_w=0.6, sensory_sigma=3.0, sensory_mu=0.5, sensory_E=-0.9)
    set_values(cell, input_scale=2.0, input_shift=0.1, output_scale=3.0, output_shift=-0.2)
    x, v, elapsed, unfolds = 0.4, 0.25, 0.7, 6
    sensory = 0.6 * sigmoid(3.0 * (2.0 * x + 0.1 - 0.5))
    c = 0.5 / (elapsed / unfolds)
    for _ in range(unfolds):
        a = 0.8 * sigmoid(4.0 * (v - 0.2))
        v = (c * v + 0.3 * -0.1 + a * 1.1 + sensory * -0.9) / (c + 0.3 + a + sensory)
    state = cell.step(exact([[x]]), exact([[0.25]]), elapsed)
    assert state.item() == pytest.approx(v, rel=1e-9)
    assert cell.motor(state).item() == pytest.approx(3.0 * v - 0.2, rel=1e-9)
    found = cell.time_constants(exact([[x]]), exact([[0.25]]))
    assert found.item() == pytest.approx(0.5 / (0.3 + 0.8 * sigmoid(4.0 * 0.05) + sensory), rel=1e-9)


def test_gap_junction_step_by_hand() -> None:
    wiring = Wiring.from_edges(1, motor=2, sensory=[(0, 0)], gap_junctions=[(0, 1)])
    cell = LTC(1, wiring, unfolds=1).double()
    set_values(cell, cm=[0.5, 2.0], gleak=[0.3, 0.1], vleak=[0.2, -0.4], gap=0.7, sensory_w=1e-12)
    v, u, h = 0.3, -0.5, 0.6
    state = cell.step(torch.zeros(1, 1).double(), exact([[v, u]]), h)
    expected_v = (0.5 / h * v + 0.3 * 0.2 + 0.7 * u) / (0.5 / h + 0.3 + 0.7)
    expected_u = (2.0 / h * u + 0.1 * -0.4 + 0.7 * v) / (2.0 / h + 0.1 + 0.7)
    assert state[0].tolist() == pytest.approx([expected_v, expected_u], rel=1e-6)


@pytest.mark.system
def test_without_synapses_a_neuron_is_an_rc_circuit() -> None:
    """v decays to vleak with the time constant cm / gleak."""
    for solver, unfolds, allowed in (("dopri5", 1, 1e-6), ("rk4", 50, 1e-6), ("fused", 1000, 2e-3)):
        cell = LTC(1, SELF, solver=solver, unfolds=unfolds).double()
        set_values(cell, cm=0.8, gleak=0.4, vleak=-0.3, w=1e-12, sensory_w=1e-12)
        state = exact([[0.9]])
        for elapsed in (0.5, 2.0, 6.0):
            end = cell.step(torch.ones(1, 1).double(), state, elapsed).item()
            assert end == pytest.approx(-0.3 + 1.2 * math.exp(-elapsed / 2.0), abs=allowed)
    for found in cell.time_constants(torch.ones(1, 1).double(), state), *cell.time_constant_bounds():
        assert found.item() == pytest.approx(2.0, rel=1e-6)


RANGES: dict[str, dict[str, tuple[float, float]]] = {
    "ncps": {"gleak": (0.001, 1), "vleak": (-0.2, 0.2), "cm": (0.4, 0.6), "w": (0.001, 1), "sigma": (3, 8)}
    | {"mu": (0.3, 0.8), "gap": (0.001, 1), "E": (1, 1)},
    "original": {"gleak": (1, 1), "vleak": (-0.2, 0.2), "cm": (0.5, 0.5), "w": (0.01, 1), "sigma": (3, 8)}
    | {"mu": (0.3, 0.8), "gap": (0.01, 1), "E": (1, 1)},
    "biophysical": {"gleak": (0.1, 1), "vleak": (-1, 0), "cm": (0.1, 10), "w": (0, 2), "sigma": (0.5, 5)}
    | {"mu": (-2, 2), "gap": (0, 1), "E": (0, 1)},
    "centred": {"gleak": (0.001, 1), "vleak": (-0.2, 0.2), "cm": (0.4, 0.6), "w": (0.001, 1), "sigma": (3, 8)}
    | {"mu": (-0.5, 0.5), "gap": (0.001, 1), "E": (1, 1)},
}


SENSORY_RANGES = {"centred": {"sensory_mu": (-1, 1), "sensory_sigma": (2, 4)}}


@pytest.mark.parametrize("init", RANGES)
def test_ltc_starts_in_the_ranges_of_its_init(init: str) -> None:
    cell = LTC(20, GapJunctions(FullyConnected(25), 60), init=init)
    wiring = cell.wiring
    ranges = dict(RANGES[init])
    for name in ("w", "sigma", "mu", "E"):
        ranges[f"sensory_{name}"] = ranges[name]
    ranges |= SENSORY_RANGES.get(init, {})
    for name, (low, high) in ranges.items():
        value = getattr(cell, name).detach()
        if name.endswith("E"):
            value = value * torch.tensor((wiring.synapses if name == "E" else wiring.sensory).polarity)
        assert value.min() >= low - 1e-5
        assert value.max() <= high + 1e-5
        # and fill them
        assert value.max() - value.min() >= 0.8 * (high - low)
    assert torch.equal(cell.input_scale, torch.ones(20))
    assert not cell.output_shift.any()
