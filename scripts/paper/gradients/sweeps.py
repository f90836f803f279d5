"""Gradients by every method, over lengths of the sequence, numbers of solver steps, and stiffness."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from ncp_control.base.progress import Tracker, tracked
from scripts.paper.gradients.adjoint import METHODS, Method, Run, rebuilt_start, relative_error, run
from scripts.paper.gradients.autograd_cost import SavedBytes
from scripts.paper.gradients.held_inputs import Problem, make_problem

BY_NAME = {method.name: method for method in METHODS}
TOLERANCE, EXACT = 1e-4, 1e-9
ENOUGH = 0.2  # after so many processor seconds, a method is not timed again at that size


@dataclass(frozen=True)
class Sizes:
    """The sizes of the sweeps.

    :param lengths: inputs T of a sequence; the table shows the last
    :param short: T in the sweeps over other sizes
    :param unfolds: fixed steps L for each input
    :param tolerances: relative tolerances of dopri5, one for each entry of `unfolds`
    :param taus: time constants, from slow to fast
    :param cells: the first cell is in every sweep, the others only at the length of the table
    :param units: neurons
    :param batch: sequences
    :param repeats: how many runs are timed
    :param seeds: networks and inputs on which a whole adjoint solve is tried
    """

    lengths: tuple[int, ...] = (2, 4, 8, 12, 16)
    short: int = 2
    unfolds: tuple[int, ...] = (2, 4, 8, 16)
    tolerances: tuple[float, ...] = (1e-2, 1e-3, 1e-5, 1e-7)
    taus: tuple[float, ...] = (1.0, 0.3, 0.1, 0.03)
    cells: tuple[str, ...] = ("NeuralLTC", "LTC", "CT-RNN", "Neural ODE")
    units: int = 16
    batch: int = 8
    repeats: int = 3
    seeds: int = 5


class Measured(NamedTuple):
    """The cost and the errors of one gradient.

    :param kilobytes: the most that is kept for the backward pass
    :param seconds: medians of processor time, forward and backward
    :param evaluations: evaluations for each input, forward and backward
    :param depth: see `Run`
    :param same: the gradient's error against backpropagation through the same solver in float64
    :param true: the gradient's error against the gradient of the ODE itself, solved to 1e-9
    :param state: the last state's error against the ODE
    """

    kilobytes: float
    seconds: tuple[float, float]
    evaluations: tuple[float, float]
    depth: float
    same: float
    true: float
    state: float


@dataclass(frozen=True)
class Sweeps:
    """All measurements, by the name of the method unless stated otherwise.

    :param length: for every length, in float32, as in training
    :param effort: for every number of unfolds or tolerance, in float64
    :param tau: for every time constant, in float64
    :param cells: by cell and method, at the last length, in float32
    :param rebuilt: by network and solver, for every length: the first state's error after solving forward and back
    :param drawn: for every length and seed, the error `same` of RK4's whole adjoint solve in float32
    """

    length: dict[str, list[Measured]]
    effort: dict[str, list[Measured]]
    tau: dict[str, list[Measured]]
    cells: dict[str, dict[str, Measured]]
    rebuilt: dict[tuple[str, str], list[float]]
    drawn: list[list[float]]


def measure(method: Method, problem: Problem, same: Run, true: Run, tolerance: float, repeats: int) -> Measured:
    """Runs a method once for the memory, and up to `repeats` times for the time."""
    given = [*problem.cell.parameters(), problem.inputs, problem.state, problem.target]
    with SavedBytes(given) as saved:
        found = run(method, problem, tolerance)
    timed: list[tuple[float, float]] = []
    while found.gradient is not None and len(timed) < repeats and sum(map(sum, timed)) < ENOUGH:
        timed.append(run(method, problem, tolerance).seconds)
    forward, backward = (statistics.median(column) for column in zip(*(timed or [found.seconds]), strict=True))
    assert same.gradient is not None  # backpropagation always has one
    assert true.gradient is not None
    return Measured(
        saved.peak / 1000, (forward, backward), found.evaluations, found.depth,
        relative_error(found.gradient, same.gradient), relative_error(found.gradient, true.gradient),
        relative_error(found.state, true.state),
    )  # fmt: skip


class Sweeper:
    """Measures all methods on one problem after another.

    :param sizes: the sizes of the sweeps
    :param seed: the seed of networks and inputs
    :param bar: shows the progress
    """

    def __init__(self, sizes: Sizes, seed: int, bar: Tracker) -> None:
        self.sizes, self.seed, self.bar = sizes, seed, bar
        self.exact: dict[tuple[str, int, float], Run] = {}

    def problem(
        self,
        cell: str,
        length: int,
        tau: float = 1.0,
        unfolds: int = 6,
        dtype: torch.dtype = torch.float64,
        seed: int | None = None,
    ) -> Problem:
        """Makes a problem with the neurons and the batch of the sizes, from the sweeper's seed by default."""
        units, batch = self.sizes.units, self.sizes.batch
        drawn = self.seed if seed is None else seed
        return make_problem(cell, length, drawn, tau=tau, unfolds=unfolds, units=units, batch=batch, dtype=dtype)

    def measure(
        self,
        cell: str,
        length: int,
        tau: float = 1.0,
        unfolds: int = 6,
        tolerance: float = TOLERANCE,
        dtype: torch.dtype = torch.float64,
        repeats: int = 0,
    ) -> dict[str, Measured]:
        """Measures every method; returns the results by the method's name."""
        problem = self.problem(cell, length, tau, unfolds)
        same = {method.solver: run(method, problem, tolerance) for method in METHODS if method.gradient == "bptt"}
        key = (cell, length, tau)
        if key not in self.exact:
            self.exact[key] = run(BY_NAME["dopri5"], problem, EXACT)
        problem = self.problem(cell, length, tau, unfolds, dtype)
        found = {}
        for method in METHODS:
            found[method.name] = measure(method, problem, same[method.solver], self.exact[key], tolerance, repeats)
            self.bar.advance(1, note=f"{cell}, {length} inputs, {method.name}")
        return found

    def drawn(self, cell: str, length: int) -> list[float]:
        """Returns the error of RK4's whole adjoint solve for each seed."""
        errors = []
        for seed in range(self.seed, self.seed + self.sizes.seeds):
            through = run(BY_NAME["RK4"], self.problem(cell, length, seed=seed)).gradient
            assert through is not None
            single = self.problem(cell, length, dtype=torch.float32, seed=seed)
            errors.append(relative_error(run(BY_NAME["RK4, whole"], single).gradient, through))
        self.bar.advance(1, note=f"{cell}, {length} inputs, {self.sizes.seeds} seeds")
        return errors

    def rebuilt(self, cell: str, tau: float, solver: str) -> list[float]:
        """The error of the first state for every length, see `rebuilt_start`."""
        method = BY_NAME[f"{solver}, whole"]
        errors = [rebuilt_start(method, self.problem(cell, T, tau), TOLERANCE) for T in self.sizes.lengths]
        self.bar.advance(1, note=f"{cell}, there and back by {solver}")
        return errors


def sweep(sizes: Sizes, seed: int) -> Sweeps:
    """All of it."""
    first, *others = sizes.cells
    networks = {cell: (cell, 1.0) for cell in sizes.cells}
    networks[f"{first}, tau {sizes.taus[1]:g}"] = (first, sizes.taus[1])
    settings = len(sizes.lengths) + len(sizes.unfolds) + len(sizes.taus) + len(others)
    with tracked(
        "gradients", total=settings * len(METHODS) + 2 * len(networks) + len(sizes.lengths), unit="gradients"
    ) as bar:
        sweeper = Sweeper(sizes, seed, bar)
        single = torch.float32
        length = [sweeper.measure(first, T, dtype=single, repeats=sizes.repeats) for T in sizes.lengths]
        effort = [
            sweeper.measure(first, sizes.short, unfolds=unfolds, tolerance=tolerance, repeats=1)
            for unfolds, tolerance in zip(sizes.unfolds, sizes.tolerances, strict=True)
        ]
        tau = [sweeper.measure(first, sizes.short, tau=tau) for tau in sizes.taus]
        cells = {cell: sweeper.measure(cell, sizes.lengths[-1], dtype=single) for cell in others}
        rebuilt = {
            (name, solver): sweeper.rebuilt(*network, solver)
            for name, network in networks.items()
            for solver in ("RK4", "dopri5")
        }
        drawn = [sweeper.drawn(first, T) for T in sizes.lengths]
    return Sweeps(by_method(length), by_method(effort), by_method(tau), {first: length[-1], **cells}, rebuilt, drawn)


def by_method(found: Sequence[dict[str, Measured]]) -> dict[str, list[Measured]]:
    """The sizes of each method, from the methods at each size."""
    return {name: [at[name] for at in found] for name in BY_NAME}


def power(sizes: Sequence[float], values: Sequence[float]) -> float | None:
    """Fits `value ~ size^p` and returns p; None for fewer than two sizes."""
    if len(set(sizes)) < 2:
        return None
    return round(slope([math.log(size) for size in sizes], [math.log(value) for value in values]), 3) + 0.0  # no -0


def slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Returns the slope of the best line."""
    return float(np.polyfit(list(sizes), list(values), 1)[0])
