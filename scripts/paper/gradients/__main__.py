"""What does a gradient through an ODE network cost, and how good is it? Table 1 of the LTC paper.

Backpropagation through the steps of a solver (BPTT) keeps all steps; the adjoint method keeps none and solves the ODE
again, backward in time. Both differentiate the same small networks over sequences of inputs: with the fused solver
(compiled, and in plain torch), and with RK4 and dopri5 through torchdiffeq. The adjoint method makes one solve over all
inputs ("whole") or one for each input ("stepwise"). The study measures processor time, the bytes that are kept for the
backward pass, evaluations of the ODE, and errors of the gradient.

Example: python -m scripts.paper.gradients --out runs/paper/gradients
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial

from ncp_control.ops import available_backends
from scripts.paper.common.report import Report, Settings, Value, run_report
from scripts.paper.gradients.adjoint import METHODS, PATIENCE
from scripts.paper.gradients.figures import draw_cost, draw_errors
from scripts.paper.gradients.findings import (
    an_input_more,
    findings,
    forward_evaluations,
    show_error,
    time_power,
)
from scripts.paper.gradients.sweeps import TOLERANCE, Measured, Sizes, Sweeps, power, sweep

FULL = Sizes(
    lengths=(2, 4, 8, 16, 32),
    short=4,
    unfolds=(2, 4, 8, 16, 32),
    tolerances=(1e-2, 1e-3, 1e-4, 1e-6, 1e-8),
    units=32,
    batch=16,
)
THROUGH_STEPS = sum(not method.adjoint for method in METHODS)


def make(settings: Settings) -> Report:
    """Measures the gradients and writes the report."""
    able, reason = available_backends()["cpu"]
    if not able:
        raise ValueError(f"the compiled scan, which is one of the methods compared, cannot run here: {reason}")
    sizes = FULL if settings.full else Sizes()
    found = sweep(sizes, settings.seed)
    names = [method.name for method in METHODS]
    head = ("", "BPTT, published", *names[:THROUGH_STEPS], "adjoint, published", *names[THROUGH_STEPS:])
    figures = {"cost": draw_cost(found, sizes), "gradient_error": draw_errors(found, sizes)}
    return Report("Gradients of ODE networks", head, rows(found, sizes), findings(found, sizes), notes(sizes), figures)


def rows(found: Sweeps, sizes: Sizes) -> list[list[Value]]:
    """Writes the rows of the paper, each followed by a few of ours; the published values are in the first of each."""
    table: list[list[Value]] = []
    last = {name: measured[-1] for name, measured in found.length.items()}
    effort = {name: forward_evaluations(measured) for name, measured in found.effort.items()}

    def add(label: str, value: Callable[[str], Value], bptt: Value = None, adjoint: Value = None) -> None:
        values = [value(method.name) for method in METHODS]
        table.append([label, bptt, *values[:THROUGH_STEPS], adjoint, *values[THROUGH_STEPS:]])

    add("Time, forward [ms]", lambda name: 1e3 * last[name].seconds[0], "O(L x T x 2)", "O((Lf + Lb) x T)")
    add("Time, backward [ms]", lambda name: unless_given_up(last[name], 1e3 * last[name].seconds[1]))
    add("Time, power of T", lambda name: time_power(found.length[name], sizes.lengths))
    add("Time, power of L", lambda name: time_power(found.effort[name], effort[name]))
    add("L: evaluations forward", lambda name: last[name].evaluations[0])
    add("evaluations backward", lambda name: unless_given_up(last[name], last[name].evaluations[1]))
    add("Memory [kB]", lambda name: last[name].kilobytes, "O(L x T)", "O(1)")
    add("Memory, an input more [kB]", lambda name: an_input_more(found.length[name], sizes.lengths))
    add("Memory, power of T", lambda name: power(sizes.lengths, [one.kilobytes for one in found.length[name]]))
    add("Memory, power of L", lambda name: power(effort[name], [one.kilobytes for one in found.effort[name]]))
    add("Depth, nodes an input", lambda name: unless_given_up(last[name], last[name].depth), "O(L)", "O(Lb)")
    add("Depth, power of L", lambda name: power(effort[name], [one.depth for one in found.effort[name]]))
    add("FWD acc, error", lambda name: show_error(last[name].state), "High", "High")
    add("BWD acc, error", lambda name: show_error(last[name].same), "High", "Low")
    add("BWD acc, error to the ODE's", lambda name: show_error(last[name].true))
    for cell in sizes.cells[1:]:
        add(f"BWD acc, error, {cell}", partial(error_of, found, cell))
    return table


def unless_given_up(one: Measured, value: float) -> Value:
    """Returns the value if the backward solve was finished."""
    return value if math.isfinite(one.same) else "given up"


def error_of(found: Sweeps, cell: str, name: str) -> str:
    """Writes the error of a method's gradient on another cell."""
    return show_error(found.cells[cell][name].same)


def notes(sizes: Sizes) -> list[str]:
    """Says how it was measured, and what differs from the paper."""
    return [
        f"A dense {sizes.cells[0]} with 8 inputs and {sizes.units} neurons of tau 1, {sizes.batch} sequences of "
        f"{sizes.lengths[-1]} inputs, each held for a unit of time; six steps an input, or dopri5 to {TOLERANCE:g} "
        "relative. The loss is of the last state: only then can an adjoint solve forget all others. "
        "These are in float32; powers of L are in float64, over "
        f"{', '.join(map(str, sizes.unfolds))} steps an input or tolerances {', '.join(map(str, sizes.tolerances))}, "
        f"{sizes.short} inputs.",
        "Times are medians of processor time, which other work on the machine does not stretch.",
        "Memory is the most that autograd keeps for backward passes during both passes; each piece of it counts once. "
        "Parameters, inputs and the first state do not count, nor does the compiled kernel's work space for one input.",
        "L counts evaluations of the field: a fused step is one, a step of RK4 four. BPTT goes back through each once. "
        "Depth: nodes of autograd that wait for each other; for the adjoint, the nodes of an evaluation times the "
        "evaluations.",
        "FWD acc: the relative error of the last state against the ODE solved to 1e-9. BWD acc: that of the "
        "gradient with respect to the first state and all parameters, against BPTT through the same solver in float64; "
        "then against the gradient of that ODE.",
        f"Empty triangles in the picture of errors: RK4's whole adjoint solve of {sizes.seeds} networks.",
        f"A backward solve is given up when it takes {PATIENCE} times the evaluations of the forward one, or when "
        "torchdiffeq finds states that are not finite.",
    ]


if __name__ == "__main__":
    sys.exit(run_report("gradients", __doc__, Settings, make))
