"""Compares the rows of Table 1 of the LTC paper with the sweeps."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from scripts.paper.common.report import Finding
from scripts.paper.gradients.adjoint import METHODS
from scripts.paper.gradients.sweeps import Measured, Sizes, Sweeps, power, slope

ADJOINTS = {"RK4": ("RK4, stepwise", "RK4, whole"), "dopri5": ("dopri5, stepwise", "dopri5, whole")}


def time_power(found: Sequence[Measured], sizes: Sequence[float]) -> float | None:
    """Fits `time ~ size^p` to the solves that were finished, and returns p."""
    pairs = [(size, sum(one.seconds)) for size, one in zip(sizes, found, strict=True) if math.isfinite(one.same)]
    return power(*zip(*pairs, strict=True)) if pairs else None


def forward_evaluations(found: Sequence[Measured]) -> list[float]:
    """Returns L for every size: evaluations of the field for each input."""
    return [one.evaluations[0] for one in found]


def an_input_more(found: Sequence[Measured], lengths: Sequence[int]) -> float:
    """Returns the kilobytes that one more input adds."""
    return (found[-1].kilobytes - found[0].kilobytes) / (lengths[-1] - lengths[0])


def findings(found: Sweeps, sizes: Sizes) -> list[Finding]:
    """Makes a finding for every row of the table, and for the statements in the text about it."""
    last = {name: measured[-1] for name, measured in found.length.items()}
    return [
        _time(found, sizes, last),
        *_memory(found, sizes),
        _depth(found),
        _forward(last),
        *_backward(found, sizes, last),
        _drift(found, sizes),
        _stiff(found, sizes),
    ]


def _time(found: Sweeps, sizes: Sizes, last: dict[str, Measured]) -> Finding:
    powers = [time_power(found.length[method.name], sizes.lengths) for method in METHODS[1:]]
    known = [value for value in powers if value is not None]
    ratios = [
        sum(last[adjoint].seconds) / sum(last[solver].seconds)
        for solver, (adjoint, _) in ADJOINTS.items()
    ]  # fmt: skip
    return Finding(
        "Time",
        "both are linear in the length, of similar complexity",
        all(0.5 < value < 1.5 for value in known),  # times are rough
        f"time grows as T to the power of {min(known):.2f} to {max(known):.2f}; with the same solver an adjoint "
        f"gradient, an input at a time, takes {min(ratios):.1f} to {max(ratios):.1f} times as long: its backward pass "
        "evaluates the field anew beside its derivative",
    )


def _memory(found: Sweeps, sizes: Sizes) -> list[Finding]:
    kilobytes = {
        name: power(forward_evaluations(measured), [one.kilobytes for one in measured])
        for name, measured in found.effort.items()
    }
    more = {name: an_input_more(measured, sizes.lengths) for name, measured in found.length.items()}
    through_steps = [kilobytes[name] or 0.0 for name in ("fused", "RK4", "dopri5")]
    return [
        Finding(
            "Memory, BPTT",
            "grows with L x T",
            min(through_steps) > 0.7 and all(more[name] > 0 for name in ("fused", "RK4", "dopri5")),
            f"every input adds {more['fused']:.3g} kB (fused), {more['RK4']:.3g} kB (RK4), {more['dopri5']:.3g} kB "
            f"(dopri5), growing as L to the power of {min(through_steps):.2f} to {max(through_steps):.2f}. The "
            f"compiled scan adds {more['fused, compiled']:.3g} kB whatever L: it keeps a state an input, and makes the "
            "steps anew",
        ),
        Finding(
            "Memory, adjoint",
            "does not grow",
            abs(more["RK4, whole"]) < 1e-3 and abs(kilobytes["RK4, whole"] or 0.0) < 0.05,
            f"one solve over all inputs keeps {found.length['RK4, whole'][-1].kilobytes:.3g} kB whatever L and T; a "
            f"solve for each input adds {more['RK4, stepwise']:.3g} kB an input whatever L, for the states between "
            "them, as does any loss that needs an output at every input",
        ),
    ]


def _depth(found: Sweeps) -> Finding:
    powers = {
        name: power(forward_evaluations(measured), [one.depth for one in measured])
        for name, measured in found.effort.items()
    }
    backward = found.length["dopri5, stepwise"][-1].evaluations
    return Finding(
        "Depth",
        "L with BPTT, that of the backward solve with the adjoint",
        all(0.7 < (powers[name] or 0.0) < 1.3 for name in ("fused", "RK4", "RK4, stepwise", "RK4, whole")),
        f"nodes in a row grow as L to the power of {powers['fused']:.2f} (fused), {powers['RK4']:.2f} (RK4) and "
        f"{powers['RK4, stepwise']:.2f} (RK4, adjoint); dopri5 evaluates the field {backward[0]:.0f} times an input "
        f"forward and {backward[1]:.0f} times backward",
    )


def _forward(last: dict[str, Measured]) -> Finding:
    return Finding(
        "FWD acc",
        "high with both",
        all(last[whole].state < 2 * last[solver].state for solver, (_, whole) in ADJOINTS.items()),
        f"the adjoint's forward pass is the same one: {last['RK4'].state:.1e} off the ODE's solution by RK4 and "
        f"{last['dopri5'].state:.1e} by dopri5, with and without it; six fused steps, of order 1, are "
        f"{last['fused'].state:.1e} off",
    )


def _backward(found: Sweeps, sizes: Sizes, last: dict[str, Measured]) -> list[Finding]:
    median = statistics.median(found.drawn[-1])
    lost = [
        f"{sum(error > 1 for error in errors)} of them at T = {T}"
        for T, errors in zip(sizes.lengths, found.drawn, strict=True)
    ]
    wrong = [T for T, error in zip(sizes.lengths, found.rebuilt[sizes.cells[0], "RK4"], strict=True) if error > 1]
    blind = f"from T = {wrong[0]} on" if wrong else "at none of these"
    others = ", ".join(f"{show_error(at['RK4, whole'].same)} ({cell})" for cell, at in found.cells.items())
    ratios = [
        one.true / other.true
        for solver, (stepwise, _) in ADJOINTS.items()
        for one, other in zip(found.effort[stepwise], found.effort[solver], strict=True)
    ]
    ratio = statistics.geometric_mean(ratios)
    return [
        Finding(
            "BWD acc, one solve",
            "high with BPTT, low with the adjoint",
            median > 100 * last["RK4"].same,
            f"against BPTT through the same steps in float64, RK4: {last['RK4'].same:.1e} with BPTT in float32, "
            f"{show_error(median)} with the adjoint at T = {sizes.lengths[-1]}, the median of {sizes.seeds} networks. "
            f"The error is above the gradient itself in {', '.join(lost)}; the first state, solved back, is off by "
            f"more than itself {blind}, but what lies so far back often counts for as little as it is wrong. By cell "
            f"at T = {sizes.lengths[-1]}: {others}",
        ),
        Finding(
            "BWD acc, a solve an input",
            "high with BPTT, low with the adjoint",
            ratio > 2,
            f"restarted from the state kept at every input, the adjoint differs by {last['RK4, stepwise'].same:.1e} "
            f"(RK4) and {last['dopri5, stepwise'].same:.1e} (dopri5) from BPTT, but from the gradient of the ODE "
            f"itself {ratio:.2f} times as much as BPTT does, the geometric mean over solvers and steps",
        ),
        Finding(
            "BPTT",
            "keeps the backward pass highly accurate",
            last["fused"].same < 1e-5,
            f"it is exact for the steps taken ({last['fused'].same:.1e} in float32, fused), whatever they are. Six "
            f"fused steps are another function than the ODE, and their gradient is {last['fused'].true:.1e} off the "
            f"ODE's; that of RK4 is {last['RK4'].true:.1e}, and that of RK4's adjoint, an input at a time, "
            f"{last['RK4, stepwise'].true:.1e} off",
        ),
    ]


def _drift(found: Sweeps, sizes: Sizes) -> Finding:
    growth = {}
    for (network, solver), errors in found.rebuilt.items():
        known = [(T, math.log(error)) for T, error in zip(sizes.lengths, errors, strict=True) if 0 < error < math.inf]
        if solver == "RK4" and len(known) > 1:
            growth[network] = slope([T for T, _ in known], [error for _, error in known])
    return Finding(
        "Forgotten trajectory",
        "the adjoint cannot recover what it did not keep",
        growth.get(sizes.cells[0], 0.0) > 0.5,
        "solved back from the last state by RK4, the first one has an error that grows with every input by e to the "
        + ", ".join(f"{value:.2f} ({network})" for network, value in growth.items())
        + ": what decays forward explodes backward, at the rate of the fastest neuron, for a NeuralLTC at most 1 / tau "
        "+ 1. A Neural ODE has no leak, and hardly does",
    )


def _stiff(found: Sweeps, sizes: Sizes) -> Finding:
    evaluations = forward_evaluations(found.tau["dopri5"])
    slow, fast = sizes.taus[0], sizes.taus[-1]
    return Finding(
        "Stiffness",
        "Runge-Kutta solvers need exponentially many steps for an LTC",
        evaluations[-1] / evaluations[0] > slow / fast,  # even in proportion would not be exponential
        f"dopri5 evaluates the field {evaluations[0]:.0f} times an input at tau {slow:g} and {evaluations[-1]:.0f} "
        f"times at {fast:g}, fewer than in proportion. What does fail is a fixed step: with six at tau {fast:g} RK4's "
        f"state is {show_error(found.tau['RK4'][-1].state)} off, that of the fused solver "
        f"{show_error(found.tau['fused'][-1].state)}",
    )


def show_error(error: float) -> str:
    """Writes an error with two digits, or that the backward solve was given up."""
    return f"{error:.1e}" if math.isfinite(error) else "given up"
