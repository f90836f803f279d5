"""Fixed-step and adaptive solvers for ODEs that are linear in their own state.

Every continuous-time cell here has the form

    dx/dt = drive(x) - rate(x) * x

where `rate` is the inverse of the momentary (liquid) time constant. A solver takes the function
`x -> (rate, drive)` and moves `x` of shape (B, N) over a span of time. A span is a float, a scalar
tensor, or a (B, 1) tensor if every row has a span of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

RateAndDrive = Callable[[Tensor], tuple[Tensor, Tensor]]
Span = float | Tensor

FIXED_STEP = ("fused", "euler", "rk4")
SOLVERS = (*FIXED_STEP, "dopri5")
MOST_UNFOLDS = 10_000  # of a fixed step; more would look like a hang
MOST_STEPS = 10_000  # of the adaptive solver in one step of the sequence: a longer one would look like a hang


def fused(field: RateAndDrive, state: Tensor, h: Span) -> Tensor:
    """Takes one fused step: `x' = (x + h drive(x)) / (1 + h rate(x))`, order 1.

    Only the `x` that enters linearly is taken at the end of the step (Eq. 2 and 3 of the 2021 paper). While
    `rate >= 0` the result is a weighted mean of `x` and `drive / rate` for any `h >= 0`, and therefore states stay
    bounded. It is computed as `x + s (drive - rate x) / (r + s rate)` with `h = s / r`: this is the same number, but it
    stays at an equilibrium, and so inside the bounds, even where `h rate` is so small that `1 + h rate` rounds or so
    large that it overflows.
    """
    rate, drive = field(state)
    s, r = _fraction(h)
    return state + s * (drive - rate * state) / (r + s * rate)


def _fraction(h: Span) -> tuple[Span, Span]:
    """Returns s and r, neither above 1, with `h = s / r`: h and 1 for a short span, 1 and 1 / h for a long one."""
    if not isinstance(h, Tensor):
        return min(h, 1.0), 1 / max(h, 1.0)
    # chosen before the division, because 1 / h of a span of 0 would spoil its gradient even where it is not taken
    long, ones = h > 1, torch.ones_like(h)
    return torch.where(long, ones, h), 1 / torch.where(long, h, ones)


def euler(field: RateAndDrive, state: Tensor, h: Span) -> Tensor:
    """Takes one explicit Euler step: `x' = x + h (drive(x) - rate(x) x)`, order 1. Stable only for small `h rate`."""
    return state + h * slope(field, state)


def rk4(field: RateAndDrive, state: Tensor, h: Span) -> Tensor:
    """Takes one step of the classical Runge-Kutta method, order 4. Stable only for small `h rate`."""
    k1 = slope(field, state)
    k2 = slope(field, state + 0.5 * h * k1)
    k3 = slope(field, state + 0.5 * h * k2)
    k4 = slope(field, state + h * k3)
    return state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def slope(field: RateAndDrive, state: Tensor) -> Tensor:
    """Returns the right-hand side `drive(x) - rate(x) x`, (B, N)."""
    rate, drive = field(state)
    return drive - rate * state


def dopri5(field: RateAndDrive, state: Tensor, span: Span) -> Tensor:
    """Moves `state` over `span` by Dormand-Prince 5(4) with adaptive steps, through torchdiffeq.

    Time is rescaled to [0, 1] so that every row can have its own span. All rows share the same steps, so a row can
    change another one within the relative tolerance, which is 1e-8 in float64 and 1e-5 in float32. A NaN in one row, or
    a span of more than `MOST_STEPS` steps, is an error.
    """
    from torchdiffeq import odeint

    if state.numel() == 0:  # torchdiffeq finds no size of a step for a state without numbers
        return state
    # far above the rounding of each type, so that steps can always meet them
    rtol, atol = (1e-8, 1e-10) if state.dtype == torch.float64 else (1e-5, 1e-6)
    times = torch.tensor([0.0, 1.0], dtype=state.dtype, device=state.device)
    options = {"max_num_steps": MOST_STEPS}
    try:
        path = odeint(
            lambda _, x: span * slope(field, x), state, times, rtol=rtol, atol=atol, method="dopri5", options=options
        )
    except AssertionError as error:  # torchdiffeq asserts what a NaN, or too long a span, makes untrue
        raise ArithmeticError(
            f'the solver "dopri5" cannot go on ({error}): inputs, state or elapsed hold a NaN or infinity, or elapsed '
            f'is so long that it would need more than {MOST_STEPS} steps, where solver="fused" takes any span'
        ) from error
    end: Tensor = path[-1]
    return end


def integrate(solver: str, field: RateAndDrive, state: Tensor, elapsed: Span, unfolds: int) -> Tensor:
    """Moves `state` over `elapsed`.

    :param solver: one of `SOLVERS`
    :param field: returns rate and drive at a state
    :param state: (B, N)
    :param elapsed: the span of time
    :param unfolds: in how many equal steps; the adaptive solver chooses its own steps
    """
    if solver == "dopri5":
        return dopri5(field, state, elapsed)
    step = _STEPS[solver]
    h = elapsed / unfolds
    for _ in range(unfolds):
        state = step(field, state, h)
    return state


def check_solver(solver: str, unfolds: int) -> None:
    """Refuses an unknown solver, and a number of unfolds that is not a positive integer or would take for ever."""
    if solver not in SOLVERS:
        raise ValueError(f"unknown solver {solver!r}: choose one of {', '.join(SOLVERS)}")
    if isinstance(unfolds, bool) or not isinstance(unfolds, int) or unfolds < 1:
        raise ValueError(f"unfolds must be a positive integer, got {unfolds!r}")
    if unfolds > MOST_UNFOLDS:
        raise ValueError(f"unfolds must be at most {MOST_UNFOLDS:,}, got {unfolds:,}: each is a solver step")


_STEPS: dict[str, Callable[[RateAndDrive, Tensor, Span], Tensor]] = {"fused": fused, "euler": euler, "rk4": rk4}
