"""Guarantees: what a cell promises about its states and time constants holds for every wiring, parameter and input."""

import itertools
from collections.abc import Callable

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from helpers.cell_values import assert_inside, close_to
from helpers.cells import ZOO, build
from ncp_control.neurons import CTGRU, CTRNN, GRU, LSTM, LTC, Cell, CfC, DualLTC, MixedMemory, NeuralLTC, NeuralODE
from ncp_control.ops import explain_backends, scan
from ncp_control.wiring import AutoNCP, FullyConnected, GapJunctions, Plan, Random

KEPT: dict[str, Callable[[int, Plan], Cell]] = {
    "ltc-ncps": lambda inputs, plan: LTC(inputs, plan),
    "ltc-biophysical": lambda inputs, plan: LTC(inputs, plan, init="biophysical", unfolds=2),
    "ltc-spread": lambda inputs, plan: LTC(inputs, plan, time_constants=(0.01, 100.0), unfolds=1),
    "ltc-bounded": lambda inputs, plan: LTC(inputs, plan, time_constants=(0.01, 100.0), bounded=True),
    "neural-ltc-sigmoid": lambda inputs, plan: NeuralLTC(inputs, plan),
    "neural-ltc-relu": lambda inputs, plan: NeuralLTC(inputs, plan, activation="relu"),
    # The bounds hold only while every tau is below 1. Near 1 the rate 1 / tau + f loses its digits.
    "neural-ltc-tanh": lambda inputs, plan: NeuralLTC(inputs, plan, activation="tanh", time_constants=(0.01, 0.5)),
    "neural-ltc-hard_tanh": lambda inputs, plan: NeuralLTC(
        inputs, plan, activation="hard_tanh", time_constants=(0.1, 0.5)
    ),
    "neural-ltc-signed": lambda inputs, plan: NeuralLTC(
        inputs, plan, activation="tanh", signed=True, time_constants=(0.01, 100.0)
    ),
    "neural-ltc-calibrated": lambda inputs, plan: NeuralLTC(
        inputs, plan, activation="hard_tanh", signed=True, init="calibrated", unfolds=2
    ),
    "neural-ltc-bounded": lambda inputs, plan: NeuralLTC(
        inputs, plan, activation="tanh", signed=True, time_constants=(0.01, 100.0), bounded=True
    ),
    "ctrnn-tanh": lambda inputs, plan: CTRNN(inputs, plan, solver="fused"),
    "ctrnn-sigmoid": lambda inputs, plan: CTRNN(
        inputs, plan, solver="fused", activation="sigmoid", time_constants=(0.1, 50.0)
    ),
    "ctrnn-hard_tanh": lambda inputs, plan: CTRNN(inputs, plan, solver="fused", activation="hard_tanh", unfolds=2),
    "cfc-default": lambda inputs, plan: CfC(inputs, plan),
    "cfc-no_gate": lambda inputs, plan: CfC(inputs, plan, mode="no_gate"),
    "cfc-backbone": lambda inputs, plan: CfC(inputs, plan.units, backbone=(5,)),
    "dual": lambda inputs, plan: DualLTC(inputs, plan),
    "dual-bare": lambda inputs, plan: DualLTC(inputs, plan, time_constants=(0.01, 100.0), brake=False),
    "ct-gru": lambda inputs, plan: CTGRU(inputs, plan.units),
    "gru": lambda inputs, plan: GRU(inputs, plan.units),
}
FUSED = [
    pytest.param(name, marks=() if name in ("ltc-spread", "neural-ltc-signed", "ctrnn-tanh") else pytest.mark.slow)
    for name in KEPT
    if "ltc" in name or "ctrnn" in name
]
# Cells whose bounds hold while tau < 1. They give no guarantee, which would be for every tau.
CONDITIONAL = ("neural-ltc-tanh", "neural-ltc-hard_tanh")


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    units, seed = draw(st.integers(3, 9)), draw(st.integers(0, 2**32))
    outputs = draw(st.integers(1, units - 2))
    plan = draw(
        st.sampled_from(
            [
                AutoNCP(units, outputs, 0.3, seed),
                FullyConnected(units, outputs, seed),
                Random(units, outputs, 0.4, seed),
            ]
        )
    )
    return GapJunctions(plan, draw(st.integers(0, 3)), seed=seed)


def starts(cell: Cell, batch: int) -> Tensor:
    """Returns first states inside the bounds: the corners, the initial state, and random points."""
    low, high = (bound.clamp(-1e3, 1e3) for bound in cell.state_bounds())
    between = low + torch.rand(batch, cell.state_size) * (high - low)
    return torch.cat([low[None], high[None], cell.initial_state(1), between.clamp(low, high)])


@torch.no_grad()
def check_kept(cell: Cell, inputs: Tensor, elapsed: Tensor | float, backend: str) -> None:
    """Runs from states inside the bounds and checks that every state and time constant stays inside."""
    first = starts(cell, len(inputs) - 3)
    states = scan(cell, inputs, first, elapsed, backend=backend)
    assert_inside(states, cell.state_bounds())
    low, high = cell.time_constant_bounds()
    before = torch.cat([first[:, None], states[:, :-1]], dim=1)
    found = cell.time_constants(inputs.flatten(0, 1), before.flatten(0, 1))
    assert found.shape == (inputs.shape[0] * inputs.shape[1], cell.units)
    assert not found.isnan().any()
    assert (found >= low * (1 - 1e-5)).all()
    assert (found <= high * (1 + 1e-5)).all()


def able(cell: Cell) -> list[str]:
    return [name for name, (can, _) in explain_backends(cell, torch.zeros(1, 1, cell.inputs)).items() if can]


@pytest.mark.parametrize("name", KEPT)
@settings(max_examples=25)
@given(
    plan=plans(),
    inputs=st.integers(1, 3),
    seed=st.integers(0, 2**32),
    noise=st.sampled_from([0.0, 1.0]),
    log_size=st.floats(-2, 6),
    log_elapsed=st.floats(-6, 6),
)
@example(plan=FullyConnected(4), inputs=2, seed=0, noise=0.0, log_size=6.0, log_elapsed=6.0)
@example(plan=FullyConnected(4), inputs=2, seed=1, noise=1.0, log_size=0.0, log_elapsed=-3.0)
@example(plan=GapJunctions(AutoNCP(7, 2), 4), inputs=1, seed=2, noise=0.0, log_size=6.0, log_elapsed=0.0)
def test_states_and_time_constants_stay_inside(
    name: str, plan: Plan, inputs: int, seed: int, noise: float, log_size: float, log_elapsed: float
) -> None:
    torch.manual_seed(seed)
    cell = KEPT[name](inputs, plan)
    assert cell.guarantee.holds == (name not in CONDITIONAL)
    with torch.no_grad():
        for key, parameter in cell.named_parameters():
            if not (name in CONDITIONAL and key == "tau_raw"):
                parameter += noise * torch.randn_like(parameter)
    sizes = 10**log_size * torch.rand(8, 12, 1)
    given_elapsed = 10**log_elapsed * (0.5 + torch.rand(8, 12))
    for backend in able(cell):
        check_kept(cell, sizes * torch.randn(8, 12, inputs), given_elapsed, backend)


@pytest.mark.system
@pytest.mark.parametrize("name", FUSED)
def test_fused_steps_of_every_size_keep_the_bounds_for_long(name: str) -> None:
    """In tiny steps rounding must not add up to more than the steps pull back."""
    for seed, elapsed in itertools.product(range(2), (1e-6, 1e-4, 1e-3, 1e-2, 1.0, 1e3)):
        torch.manual_seed(seed)
        cell = KEPT[name](2, GapJunctions(AutoNCP(7, 2, seed=seed), 2))
        for backend in able(cell):
            check_kept(cell, torch.randn(4, 1, 2).expand(4, 200, 2), elapsed, backend)


@pytest.mark.parametrize("name", ZOO)
def test_every_guarantee_gives_its_reason_and_bounds_have_a_shape(name: str) -> None:
    cell = build(name)
    holds, reason = cell.guarantee
    assert isinstance(holds, bool)
    assert len(reason) > 20
    for low, high in (cell.state_bounds(), cell.time_constant_bounds()):
        assert (low <= high).all()
    assert [len(bound) for bound in cell.state_bounds()] == [cell.state_size] * 2
    assert [len(bound) for bound in cell.time_constant_bounds()] == [cell.units] * 2
    low, high = cell.state_bounds()
    initial = cell.initial_state(1)
    assert ((low <= initial) & (initial <= high)).all()


def test_guarantees_hold_for_fused_steps_and_bounded_cells_only() -> None:
    kept = [
        *(LTC(2, 3), NeuralLTC(2, 3), NeuralLTC(2, 3, activation="relu"), CTRNN(2, 3, solver="fused")),
        *(CTRNN(2, 3, solver="fused", activation="sigmoid"), CfC(2, 3), CfC(2, 3, mode="no_gate"), CTGRU(2, 3)),
        GRU(2, 3),
    ]
    disclaimed = {
        "tanh": NeuralLTC(2, 3, activation="tanh"),
        "hard_tanh": NeuralLTC(2, 3, activation="hard_tanh", init="constant"),
        "no upper end": CTRNN(2, 3, solver="fused", activation="relu"),
        "no leak": NeuralODE(2, 3, solver="fused"),
        "memory": LSTM(2, 3),
        "LSTM": MixedMemory(LTC(2, 3)),
        "pure": CfC(2, 3, mode="pure"),
    }
    assert [cell.guarantee.holds for cell in kept] == [True] * len(kept)
    for word, cell in disclaimed.items():
        assert not cell.guarantee.holds
        assert word in cell.guarantee.reason
    for make in (LTC, NeuralLTC, CTRNN):
        for solver in ("euler", "rk4", "dopri5"):
            holds, reason = make(2, 3, solver=solver).guarantee
            assert not holds
            assert solver in reason or "adaptive" in reason


@pytest.mark.parametrize("solver", ["euler", "rk4"])
def test_explicit_solvers_break_the_bounds_that_fused_keeps(solver: str) -> None:
    for make in (LTC, NeuralLTC, CTRNN):
        broken = []
        for chosen in ("fused", solver):
            torch.manual_seed(0)
            cell = make(2, 4, solver=chosen)
            low, high = close_to(cell.state_bounds())
            states = scan(cell, torch.randn(8, 20, 2), elapsed=60.0)
            broken.append(bool(((states < low) | (states > high) | states.isnan()).any()))
        assert broken == [False, True]


def test_an_unbounded_memory_is_disclaimed_with_cause() -> None:
    lstm = LSTM(1, 1)
    with torch.no_grad():
        lstm.bias_ih.copy_(torch.tensor([9.0, 9.0, 9.0, 9.0]))
    assert scan(lstm, torch.zeros(1, 50, 1))[0, -1, 1] > 40
    pure = CfC(1, 1, mode="pure")
    with torch.no_grad():
        pure.weight.fill_(-2.0), pure.sensory_weight.fill_(0.0)
    assert scan(pure, torch.ones(1, 40, 1), elapsed=1e-9).abs().max() > 1e3


CHUNK = 2_500
LONG = {
    "ltc-gaps": lambda: LTC(2, GapJunctions(AutoNCP(6, 1, seed=1), 3, seed=1)),
    "neural-ltc-sigmoid": lambda: NeuralLTC(2, AutoNCP(6, 1, seed=1)),
    "neural-ltc-relu": lambda: NeuralLTC(2, AutoNCP(6, 1, seed=1), activation="relu"),
    "neural-ltc-signed": lambda: NeuralLTC(2, AutoNCP(6, 1, seed=1), activation="tanh", signed=True),
    "dual": lambda: DualLTC(2, AutoNCP(6, 1, seed=1)),
}


@pytest.mark.parametrize(
    ("backend", "steps"),
    [
        ("auto", 100_000),
        pytest.param("reference", 2_500, marks=pytest.mark.system),
        pytest.param("reference", 100_000, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("name", LONG)
@torch.no_grad()
def test_a_very_long_and_wild_run(name: str, backend: str, steps: int) -> None:
    """A hundred thousand steps take the reference up to two minutes and a compiled backend a second."""
    cell = LONG[name]()
    if backend == "auto" and able(cell) == ["reference"]:
        pytest.skip("no compiled backend here; the slow tests run this on the reference")
    generator = torch.Generator().manual_seed(9)
    state = None
    for _ in range(steps // CHUNK):
        inputs = 1e3 * (2 * torch.rand(2, CHUNK, 2, generator=generator) - 1)
        inputs[torch.rand(2, CHUNK, 2, generator=generator) < 0.01] = 1e6
        inputs[torch.rand(2, CHUNK, 2, generator=generator) < 0.01] = -1e6
        states = scan(cell, inputs, state, backend=backend)
        assert_inside(states, cell.state_bounds())
        assert states.std(dim=1).max() > 1e-2
        state = states[:, -1]
