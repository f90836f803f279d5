"""What networks under large inputs say about Theorems 1 and 2 of the LTC paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from scripts.paper.bounds.driven import LIQUID, MAGNITUDES, MEMORY, NEURAL, NEURAL_ODE, RECURRENT, TANH, Driven
from scripts.paper.bounds.solvers import RATIOS, SOLVERS, Overshoot, leaves_at
from scripts.paper.common.report import Finding


def findings(driven: Sequence[Driven], solvers: Mapping[str, Mapping[str, Sequence[Overshoot]]]) -> list[Finding]:
    """Compares each statement with what was measured.

    :param driven: the networks under large inputs
    :param solvers: overshoots by network and solver
    """
    by_name = {one.contestant.name: one for one in driven}
    liquid = [by_name[LIQUID], by_name[NEURAL]]
    lstm, ode, recurrent, tanh = (by_name[name] for name in (MEMORY, NEURAL_ODE, RECURRENT, TANH))
    steps, most = max(lstm.by_time), f"{MAGNITUDES[-1]:,.0f}"
    near = [", ".join(f"{one.contestant.name} {one.margins[k]:.1e}" for one in liquid) for k in (0, 1)]
    return [
        Finding(
            "Theorem 1",
            "tau / (1 + tau W) <= tau_sys <= tau",
            all(one.inside[1] for one in liquid),
            f"for every neuron at every moment, inputs up to {most}; nearest to a bound, in parts of it: {near[1]}",
        ),
        Finding(
            "Theorem 2",
            "min(0, A) <= x <= max(0, A), whatever the inputs",
            all(one.inside[0] for one in liquid),
            f"for the same; nearest to a bound: {near[0]}",
        ),
        Finding(
            "Theorems 1 and 2 with tanh",
            "f may be any activation (section 2; the proofs need f >= 0)",
            all(tanh.inside),
            f"Eq. 1 with f = tanh, inputs of size 1: largest |state| {show_size(tanh.by_magnitude[0].largest)}, its "
            f"bound {tanh.state_bound:.3g}; time constants down to {min(tanh.by_magnitude[0].shortest):.3g}",
        ),
        Finding(
            "Theorem 2, run by explicit Euler",
            "the proof takes a step of explicit Euler at the bound (S10, S11), however long",
            all(leaves_at(of["euler"]) is None for of in solvers.values()),
            f"up to {RATIOS[-1]:.3g} times the shortest time constant, steps that start inside lead outside from: "
            + "; ".join(f"{name}: {leaving(of)}" for name, of in solvers.items()),
        ),
        Finding(
            "Other networks",
            "neural ODEs and recurrent networks can have unbounded states",
            ode.grows and lstm.grows,
            f"after {steps:,} equal inputs: Neural ODE {show_size(ode.by_time[steps])}, memory c of the LSTM "
            f"{show_size(lstm.by_time[steps])}, up by one a step whatever the size. But the LSTM's output h stays in "
            f"[-1, 1], and the CT-RNN's state is bounded by tau, as tanh is by 1: "
            f"{show_size(recurrent.by_time[steps])} of {recurrent.state_bound:.4g}",
        ),
    ]


def leaving(solvers: Mapping[str, Sequence[Overshoot]]) -> str:
    """Says for each solver at which step states leave their bounds."""
    words = []
    for solver, label in SOLVERS.items():
        ratio = leaves_at(solvers[solver])
        words.append(f"{label} never" if ratio is None else f"{label} {ratio:.2g}")
    return ", ".join(words)


def show_size(value: float) -> str:
    """Writes a number, or "infinite" after an overflow."""
    return f"{value:,.4g}" if math.isfinite(value) else "infinite"
