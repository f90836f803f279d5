"""The solvers of fixed step as C, for cells of the form `capacitance dx/dt = current(x) - conductance(x) x`.

A cell defines `pull(sensed, v, j, &conductance)`, which returns `current - conductance v` of neuron j, and `sense`.
"""

from __future__ import annotations

from ncp_control.export.c.pieces import filled

# Divided by the step's length, so that an elapsed time of almost 0 makes `per_step` infinite and lets v stay.
FUSED = """\
static void advance(const controller_real *x, controller_real *v, controller_real elapsed) {
    controller_real sensed[@SENSED@], next[@UNITS@], per_step, conductance;
    if (!(elapsed > REAL(0.0))) return;
    per_step = REAL(@UNFOLDS@.0) / elapsed;
    sense(x, sensed);
    for (int unfold = 0; unfold < @UNFOLDS@; unfold++) {
        for (int j = 0; j < @UNITS@; j++) {
            const controller_real moved = pull(sensed, v, j, &conductance);
            next[j] = v[j] + moved / (@CAPACITANCE@per_step + conductance);
        }
        for (int j = 0; j < @UNITS@; j++) v[j] = next[j];
    }
}
"""
EULER = """\
static void advance(const controller_real *x, controller_real *v, controller_real elapsed) {
    controller_real sensed[@SENSED@], next[@UNITS@], conductance;
    const controller_real step = elapsed / REAL(@UNFOLDS@.0);
    sense(x, sensed);
    for (int unfold = 0; unfold < @UNFOLDS@; unfold++) {
        for (int j = 0; j < @UNITS@; j++) next[j] = v[j] + step * pull(sensed, v, j, &conductance)@OVER@;
        for (int j = 0; j < @UNITS@; j++) v[j] = next[j];
    }
}
"""
RK4 = """\
static void slope(const controller_real *sensed, const controller_real *v, controller_real *change) {
    controller_real conductance;
    for (int j = 0; j < @UNITS@; j++) change[j] = pull(sensed, v, j, &conductance)@OVER@;
}

static void advance(const controller_real *x, controller_real *v, controller_real elapsed) {
    controller_real sensed[@SENSED@], change[@UNITS@], total[@UNITS@], trial[@UNITS@];
    const controller_real step = elapsed / REAL(@UNFOLDS@.0), half = REAL(0.5) * step;
    sense(x, sensed);
    for (int unfold = 0; unfold < @UNFOLDS@; unfold++) {
        slope(sensed, v, change);
        for (int j = 0; j < @UNITS@; j++) total[j] = change[j];
        for (int stage = 1; stage < 4; stage++) {
            const controller_real ahead = stage < 3 ? half : step, weight = stage < 3 ? REAL(2.0) : REAL(1.0);
            for (int j = 0; j < @UNITS@; j++) trial[j] = v[j] + ahead * change[j];
            slope(sensed, trial, change);
            for (int j = 0; j < @UNITS@; j++) total[j] += weight * change[j];
        }
        for (int j = 0; j < @UNITS@; j++) v[j] += step / REAL(6.0) * total[j];
    }
}
"""
SOLVERS = {"fused": FUSED, "euler": EULER, "rk4": RK4}


def check_form(cell: str, solver: str) -> None:
    """Refuses a solver that chooses its steps while it runs."""
    if solver not in SOLVERS:
        raise ValueError(
            f"an agent whose {cell} is solved by {solver!r} has no C form: train one with the solver "
            + " or ".join(repr(name) for name in SOLVERS)
        )


def solver(name: str, units: int, sensed: int, unfolds: int, capacitance: str = "") -> str:
    """Returns the function `advance` of an ODE cell.

    :param name: a key of `SOLVERS`
    :param units: the number of neurons
    :param sensed: how many numbers `sense` writes
    :param unfolds: the solver steps in one step
    :param capacitance: the name of an array of capacitances; without one they are 1
    """
    return filled(
        SOLVERS[name],
        units=units,
        sensed=sensed,
        unfolds=unfolds,
        capacitance=f"{capacitance}[j] * " if capacitance else "",
        over=f" / {capacitance}[j]" if capacitance else "",
    )
