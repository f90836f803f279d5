"""`scan` runs a cell over a batch of sequences, on the backend that is asked for or the best one that can run it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ncp_control.ops import reference
from ncp_control.ops.cpu import backend as cpu
from ncp_control.ops.fallback import warn_of_reference
from ncp_control.ops.gpu import backend as gpu
from ncp_control.ops.pieces import pieces_of, run_in_pieces
from ncp_control.ops.problem import Elapsed, ScanCell, ScanProblem, make_problem
from ncp_control.ops.readable import unlike, watched


class Backend(NamedTuple):
    """A way to run the scan.

    :param available: whether this machine has the backend, and why
    :param supports: whether the backend can run a problem here, and why
    :param run: runs a problem and returns the states after every step, (B, T, N)
    """

    available: Callable[[], tuple[bool, str]]
    supports: Callable[[ScanProblem], tuple[bool, str]]
    run: Callable[[ScanProblem], Tensor]


# In order of preference: "auto" takes the first that supports the problem.
BACKENDS: dict[str, Backend] = {
    "cpu": Backend(cpu.available, cpu.supports, cpu.run),
    "gpu": Backend(gpu.available, gpu.supports, gpu.run),
    "reference": Backend(reference.available, reference.supports, reference.run),
}


def scan(
    cell: ScanCell,
    inputs: Tensor,
    state: Tensor | None = None,
    elapsed: Elapsed = 1.0,
    reset: Tensor | None = None,
    mask: Tensor | None = None,
    backend: str = "auto",
    parallel: bool | int = False,
) -> Tensor:
    """Runs `cell` over whole sequences and returns the state of all neurons after every step.

    :param cell: any cell of this package
    :param inputs: (B, T, I)
    :param state: state before the first step, (B, N); None is the cell's initial state
    :param elapsed: time since the previous step: a number, (B,), or (B, T)
    :param reset: (B, T) bool; true sets that row to the initial state before that step
    :param mask: (B, T) bool; false holds that row's state through that step
    :param backend: "auto", or one of `BACKENDS`; an explicit choice never falls back, and "auto" warns once if it falls
        back to the slow reference where a compiled backend was to be expected
    :param parallel: cut the time into this many pieces that run side by side, or, with true, into as many as pay; the
        states are the same up to rounding. It is worth it for few long sequences and a cell that forgets, and it is
        ignored while `torch.compile` traces
    :return: states after every step, (B, T, N)
    """
    return _run(make_problem(cell, inputs, state, elapsed, reset, mask), backend, parallel)


def scan_with_outputs(
    cell: ScanCell,
    inputs: Tensor,
    state: Tensor | None = None,
    elapsed: Elapsed = 1.0,
    reset: Tensor | None = None,
    mask: Tensor | None = None,
    backend: str = "auto",
    parallel: bool | int = False,
) -> tuple[Tensor, Tensor]:
    """Runs `cell` as `scan` does, with the same arguments.

    :return: the outputs after every step, (B, T, O), and the states of all neurons, (B, T, N)
    """
    if type(elapsed) is float and mask is None and backend in ("auto", "cpu") and not parallel:
        done = cpu.run_directly(cell, inputs, state, elapsed, reset)
        if done is not None:
            return done
    problem = make_problem(cell, inputs, state, elapsed, reset, mask)
    problem.with_outputs = True
    states = _run(problem, backend, parallel)
    return cell.motor(states) if problem.outputs is None else problem.outputs, states


def _run(problem: ScanProblem, backend: str, parallel: bool | int = False) -> Tensor:
    """Runs `problem` on the backend that is asked for or chosen."""
    name = choose_backend(problem, backend)
    if parallel and not torch.compiler.is_compiling() and watched() is None:
        pieces = pieces_of(problem, parallel, name)
        if pieces > 1 and problem.inputs.shape[0]:  # no rows have no pieces
            return run_in_pieces(problem, pieces, lambda piece: _run_on(piece, name))
    return _run_on(problem, name)


def _run_on(problem: ScanProblem, name: str) -> Tensor:
    """Runs `problem` on the backend of this name."""
    if name != "reference" or torch.compiler.is_compiling():
        return BACKENDS[name].run(problem)
    try:
        return reference.run(problem)
    # Torch raises any of these for a tensor that does not fit, in words about one of its own operations.
    except (RuntimeError, IndexError, TypeError) as error:
        why = None if watched() else unlike(problem)
        if why is None:
            raise
        raise RuntimeError(f"this scan cannot run: {why}") from error


def choose_backend(problem: ScanProblem, backend: str = "auto") -> str:
    """Returns the name of the backend that will run `problem`; refuses one that cannot, and says why."""
    if backend == "auto":
        for name, candidate in BACKENDS.items():
            if candidate.supports(problem)[0]:
                backend = name
                break
        if backend == "reference":
            warn_of_reference(problem)
        return backend
    check_backend(backend)
    able, reason = BACKENDS[backend].supports(problem)
    if not able:
        raise RuntimeError(f"backend {backend!r} cannot run this scan: {reason}")
    return backend


def check_backend(backend: str) -> None:
    """Refuses a backend that does not exist."""
    if backend != "auto" and backend not in BACKENDS:
        raise ValueError(f"unknown backend {backend!r}: choose 'auto' or one of {', '.join(BACKENDS)}")


def available_backends() -> dict[str, tuple[bool, str]]:
    """Returns for each backend whether this machine can run it at all, and why."""
    return {name: backend.available() for name, backend in BACKENDS.items()}


def explain_backends(cell: ScanCell, inputs: Tensor) -> dict[str, tuple[bool, str]]:
    """Returns for each backend whether it can run this cell on these inputs (B, T, I), and why."""
    problem = make_problem(cell, inputs)
    return {name: backend.supports(problem) for name, backend in BACKENDS.items()}
