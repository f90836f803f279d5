"""One of everything: named cells that all suites run over.

    @pytest.mark.parametrize("name", names(ode=True))
    def test_something(name):
        cell = build(name, torch.float64)

A name says what is in the cell: "ltc-gaps" is an LTC with gap junctions, "ctrnn-rk4" a CT-RNN solved by RK4. The cells
of `ZOO` are small and of odd sizes. Those of `WIDE` have more neurons and inputs: compiled code needs them to fill its
vectors and to use its longer loops; `compiled` chooses among both.
"""

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any

import pytest
import torch

from ncp_control.neurons import (
    CTGRU,
    CTRNN,
    GRU,
    LSTM,
    LTC,
    Cell,
    CfC,
    DualLTC,
    LaggedMLP,
    MixedMemory,
    NeuralLTC,
    NeuralODE,
)
from ncp_control.neurons.ode import ODECell
from ncp_control.ops import explain_backends
from ncp_control.solvers import SOLVERS
from ncp_control.wiring import NCP, AutoNCP, FullyConnected, GapJunctions, Random, Wiring

NCP_7 = AutoNCP(7, 2, seed=3)
GAPS_7 = GapJunctions(NCP_7, 3, seed=1)
DEEP_9 = NCP(
    (3, 2), 2, 2, sensory_fanout=2, inter_fanout=(1, 2), recurrent_command=3, motor_fanin=1, recurrent_inter=2, seed=2
)
RANDOM_5 = Random(5, 2, sparsity=0.6, seed=4)
DENSE_5 = FullyConnected(5, 2, seed=5)
GAPS_3 = GapJunctions(FullyConnected(3, 1, seed=6), 1)
# One synapse from the input and one to the motor neuron, nothing recurrent.
CHAIN = Wiring.from_edges(1, inter=1, motor=1, sensory=[(0, 0, -1)], synapses=[(0, 1)])
# No chemical synapse among neurons: the motor neuron hears of the input through a gap junction only.
GAP_ONLY = Wiring.from_edges(1, inter=1, motor=1, sensory=[(0, 0)], gap_junctions=[(0, 1)])
SOLITARY = Wiring.from_edges(1, motor=1, sensory=[(0, 0)])
# The second neuron has many more synapses than the others.
UNEVEN_19 = Wiring.from_edges(
    3, inter=17, motor=2, sensory=[(0, 0), (1, 1), (2, 1)], synapses=[(i, 1) for i in range(17)] + [(1, 17), (1, 18)]
)
SPARSE_12 = NCP(
    5, 4, 3, sensory_fanout=2, inter_fanout=2, recurrent_command=5, motor_fanin=2, recurrent_inter=4, seed=2
)
SLOW = (1.0, 9.0)  # with fast neurons, rounding grows from step to step under an explicit solver

ZOO: dict[str, Callable[[], Cell]] = {
    "ltc-sparse": lambda: LTC(3, NCP_7),
    "ltc-gaps": lambda: LTC(3, GAPS_7),
    "ltc-deep": lambda: LTC(2, DEEP_9, init="centred"),
    "ltc-random": lambda: LTC(3, RANDOM_5, init="original", unfolds=3),
    "ltc-dense": lambda: LTC(2, 3, init="biophysical", unfolds=2),
    "ltc-chain": lambda: LTC(1, CHAIN, input_map="linear", output_map="none", unfolds=1),
    "ltc-gap-only": lambda: LTC(1, GAP_ONLY, input_map="none", output_map="linear"),
    "ltc-solitary": lambda: LTC(1, SOLITARY),
    "ltc-slow": lambda: LTC(3, NCP_7, time_constants=(0.5, 20.0)),
    "ltc-bounded": lambda: LTC(3, NCP_7, unfolds=3, time_constants=(0.1, 5.0), bounded=True),
    "ltc-one": lambda: LTC(1, 1, unfolds=1),
    "ltc-no-maps": lambda: LTC(5, 3, unfolds=3, input_map="none", output_map="none"),
    "ltc-uneven": lambda: LTC(3, UNEVEN_19, unfolds=2, init="centred"),
    "ltc-gaps-quick": lambda: LTC(3, GAPS_7, unfolds=2),
    **{
        f"ltc-{solver}": lambda solver=solver: LTC(2, GAPS_3, solver=solver, unfolds=3, time_constants=(0.5, 2.0))
        for solver in SOLVERS[1:]
    },
    "neural-ltc-sigmoid": lambda: NeuralLTC(3, NCP_7),
    "neural-ltc-relu": lambda: NeuralLTC(2, DENSE_5, activation="relu", unfolds=2),
    "neural-ltc-tanh": lambda: NeuralLTC(3, RANDOM_5, activation="tanh", init="constant", unfolds=3),
    "neural-ltc-hard_tanh": lambda: NeuralLTC(2, 3, activation="hard_tanh", time_constants=(0.1, 0.8)),
    "neural-ltc-signed": lambda: NeuralLTC(3, NCP_7, activation="tanh", signed=True, init="calibrated", unfolds=3),
    "neural-ltc-bounded": lambda: NeuralLTC(
        3, NCP_7, activation="tanh", signed=True, init="calibrated", unfolds=3, time_constants=(0.1, 5.0), bounded=True
    ),
    "neural-ltc-deep": lambda: NeuralLTC(2, DEEP_9),
    "neural-ltc-chain": lambda: NeuralLTC(1, CHAIN, unfolds=1),
    "neural-ltc-uneven": lambda: NeuralLTC(3, UNEVEN_19, unfolds=2),
    "neural-ltc-quick": lambda: NeuralLTC(3, NCP_7, unfolds=2),
    **{
        f"neural-ltc-{solver}": lambda solver=solver: NeuralLTC(
            3, RANDOM_5, solver=solver, unfolds=3, time_constants=(0.5, 2.0)
        )
        for solver in SOLVERS[1:]
    },
    **{f"ctrnn-{solver}": lambda solver=solver: CTRNN(2, DENSE_5, solver=solver) for solver in SOLVERS},
    "ctrnn-relu": lambda: CTRNN(3, 3, unfolds=2, solver="fused", activation="relu"),
    "ctrnn-sparse": lambda: CTRNN(3, NCP_7, activation="sigmoid", time_constants=(0.5, 5.0)),
    **{
        f"neural-ode-{solver}": lambda solver=solver: NeuralODE(2, DENSE_5, solver=solver, unfolds=2)
        for solver in SOLVERS
    },
    "neural-ode-sparse": lambda: NeuralODE(3, NCP_7, activation="hard_tanh", unfolds=2),
    "cfc-default": lambda: CfC(3, NCP_7),
    "cfc-no_gate": lambda: CfC(2, DEEP_9, mode="no_gate"),
    "cfc-pure": lambda: CfC(3, RANDOM_5, mode="pure"),
    "cfc-dense": lambda: CfC(2, DENSE_5),
    "cfc-chain": lambda: CfC(1, CHAIN),
    "cfc-uneven": lambda: CfC(3, UNEVEN_19),
    "cfc-backbone": lambda: CfC(2, 3, backbone=(11,)),
    "cfc-backbone-no_gate": lambda: CfC(2, 3, mode="no_gate", backbone=(5, 4)),
    "cfc-backbone-pure": lambda: CfC(1, 3, mode="pure", backbone=(5,)),
    "dual": lambda: DualLTC(3, NCP_7),
    "dual-deep": lambda: DualLTC(2, DEEP_9, time_constants=(0.2, 5.0)),
    "dual-dense": lambda: DualLTC(2, DENSE_5),
    "dual-chain": lambda: DualLTC(1, CHAIN),
    "dual-bare": lambda: DualLTC(3, RANDOM_5, brake=False),
    "ct-gru": lambda: CTGRU(2, FullyConnected(3, 2)),
    "ct-gru-scales": lambda: CTGRU(1, 3, scales=3),
    "ct-gru-one": lambda: CTGRU(1, 1, scales=1),
    "lstm": lambda: LSTM(3, DENSE_5),
    "lstm-one": lambda: LSTM(1, 1),
    "gru": lambda: GRU(3, DENSE_5),
    "gru-solitary": lambda: GRU(1, 1),
    "lagged-mlp": lambda: LaggedMLP(2, 3, lags=2),
    "mixed-cfc": lambda: MixedMemory(CfC(1, CHAIN)),
    "mixed-ltc": lambda: MixedMemory(LTC(2, GAPS_3, unfolds=2)),
    "mixed-ct-gru": lambda: MixedMemory(CTGRU(1, 2, scales=2)),
    "mixed-gru": lambda: MixedMemory(GRU(1, FullyConnected(3, 1))),
}
WIDE: dict[str, Callable[[], Cell]] = {
    "ltc-wide": lambda: LTC(5, AutoNCP(17, 3)),
    "ltc-gaps-wide": lambda: LTC(5, GapJunctions(SPARSE_12, 6)),
    "ltc-no-maps-wide": lambda: LTC(5, 7, input_map="none", output_map="none"),
    "ltc-euler-wide": lambda: LTC(3, GapJunctions(AutoNCP(9, 2), 3), solver="euler", input_map="linear"),
    "neural-ltc-wide": lambda: NeuralLTC(5, SPARSE_12),
    "neural-ltc-relu-wide": lambda: NeuralLTC(5, SPARSE_12, activation="relu", unfolds=3),
    "neural-ltc-tanh-wide": lambda: NeuralLTC(5, 6, activation="tanh"),
    "neural-ltc-hard_tanh-wide": lambda: NeuralLTC(2, 3, activation="hard_tanh"),
    "neural-ltc-signed-wide": lambda: NeuralLTC(5, SPARSE_12, activation="tanh", signed=True),
    "neural-ltc-rk4-signed-wide": lambda: NeuralLTC(
        5, 6, solver="rk4", activation="hard_tanh", signed=True, time_constants=SLOW
    ),
    "neural-ltc-euler-wide": lambda: NeuralLTC(5, SPARSE_12, solver="euler", time_constants=SLOW),
    "neural-ltc-rk4-wide": lambda: NeuralLTC(5, SPARSE_12, solver="rk4", time_constants=SLOW),
    "neural-ltc-rk4-tanh-wide": lambda: NeuralLTC(5, 6, solver="rk4", activation="tanh", time_constants=SLOW),
    "ctrnn-wide": lambda: CTRNN(5, SPARSE_12),
    "ctrnn-relu-wide": lambda: CTRNN(5, 4, solver="fused", activation="relu"),
    "ctrnn-rk4-wide": lambda: CTRNN(5, SPARSE_12, solver="rk4", unfolds=2, time_constants=SLOW),
    "neural-ode-wide": lambda: NeuralODE(5, SPARSE_12),
    "neural-ode-euler-wide": lambda: NeuralODE(5, SPARSE_12, solver="euler"),
    "neural-ode-relu-wide": lambda: NeuralODE(5, 7, activation="relu", unfolds=1),
    "neural-ode-hard_tanh-wide": lambda: NeuralODE(1, 1, activation="hard_tanh"),
    "cfc-wide": lambda: CfC(5, SPARSE_12),
    "cfc-no_gate-wide": lambda: CfC(5, SPARSE_12, mode="no_gate"),
    "cfc-pure-wide": lambda: CfC(5, SPARSE_12, mode="pure"),
    "cfc-dense-wide": lambda: CfC(4, FullyConnected(9, 2)),
    "dual-wide": lambda: DualLTC(5, SPARSE_12),
    "dual-weak-brake-wide": lambda: DualLTC(4, FullyConnected(9, 2), brake=0.6),
    "dual-bare-wide": lambda: DualLTC(4, FullyConnected(9, 2), brake=False),
    "lstm-wide": lambda: LSTM(5, FullyConnected(9, 2)),
    "gru-wide": lambda: GRU(5, FullyConnected(11, 2)),
    "ct-gru-wide": lambda: CTGRU(5, FullyConnected(9, 2)),
    "ct-gru-scales-wide": lambda: CTGRU(5, 7, scales=3),
}
# The cells of the fast tier: each equation, solver, map, activation and feature of a wiring at least once. Cases of the
# other cells are in the system tier (tests/conftest.py).
REPRESENTATIVES = frozenset({
    "ltc-gaps", "ltc-deep", "ltc-chain", "ltc-gap-only", "ltc-uneven", "ltc-euler",
    "neural-ltc-sigmoid", "neural-ltc-relu", "neural-ltc-hard_tanh", "neural-ltc-signed", "neural-ltc-rk4",
    "ltc-bounded", "neural-ltc-bounded",
    "ctrnn-fused", "ctrnn-relu", "neural-ode-sparse", "neural-ode-dopri5",
    "cfc-default", "cfc-no_gate", "cfc-pure", "cfc-dense", "cfc-backbone", "dual", "dual-bare",
    "ct-gru-scales", "lstm", "gru", "lagged-mlp", "mixed-ltc",
    "ltc-gaps-wide", "neural-ltc-rk4-signed-wide", "cfc-wide", "dual-wide", "gru-wide", "ct-gru-wide",
})  # fmt: skip


def build(name: str, dtype: torch.dtype = torch.float32, shaken: float = 0.0) -> Cell:
    """The cell of that name, with the same parameters every time.

    :param shaken: noise of this deviation on every parameter, so that none stays at a special value such as 0
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        cell = (ZOO | WIDE)[name]()
        with torch.no_grad():
            for parameter in cell.parameters():
                parameter += shaken * torch.randn_like(parameter)
    return cell.to(dtype)


@functools.cache
def kept(name: str) -> Cell:
    """A cell of that name to ask, not to change."""
    return build(name)


def names(*, ode: bool | None = None, exact: bool | None = None) -> list[str]:
    """Names of all small cells, or of those that are (not) an ODE's, or (not) exact.

    Rows of a cell that is not exact share the steps of an adaptive solver, and so agree only within its tolerance.
    """
    chosen = []
    for name in ZOO:
        cell = kept(name)
        fits = ode is None or isinstance(cell, ODECell) == ode
        if fits and (exact is None or (getattr(cell, "solver", "") != "dopri5") == exact):
            chosen.append(name)
    return chosen


def runs(**chosen: bool) -> list[Any]:
    """Names as `names` chooses them, each once with every backend that can run the cell here."""
    pairs = []
    for name in names(**chosen):
        cell = kept(name)
        for backend, (able, _) in explain_backends(cell, torch.zeros(1, 1, cell.inputs)).items():
            if able:
                pairs.append(pytest.param(name, backend, id=f"{name}-{backend}"))
    return pairs


def compiled(kinds: Sequence[str], *, wide: bool = True) -> list[str]:
    """Names of the cells with a compiled form of one of these kinds, such as `launch.KINDS` of `ops.cpu`.

    :param wide: also those of `WIDE`
    """
    programs = {name: kept(name).program() for name in (ZOO | WIDE if wide else ZOO)}
    return [name for name, program in programs.items() if program is not None and program.kind in kinds]


def tolerance(cell: Cell, exact: float = 1e-12) -> dict[str, float]:
    """The tolerance for two float64 runs that are equal in exact arithmetic: `exact`, or that of the solver dopri5."""
    allowed = 1e-6 if getattr(cell, "solver", "") == "dopri5" else exact
    return {"rtol": allowed, "atol": allowed}


def representatives_of(kinds: Collection[type[Cell]]) -> list[str]:
    """Names of the representatives that are of these very classes."""
    return [name for name in sorted(REPRESENTATIVES) if type(build(name)) in kinds]
