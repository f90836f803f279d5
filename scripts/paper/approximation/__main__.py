"""Can a liquid circuit follow any system? Theorem 3 of the LTC paper.

Circuits without inputs start from x(0) and have to follow the van der Pol oscillator, which settles on a limit cycle,
or the Lorenz system, which is chaotic. `constructed` circuits are made as in the theorem's proof, from random hidden
units and least squares; `trained` ones start from there and are trained by the gradient through their own rollouts;
"Eq. 1" is the paper's equation to the letter, trained from random weights. The error is the theorem's own, max |x - u|
over [0, T], from starts that no circuit has seen, against the number of hidden neurons. Pictures: errors, phase
portraits, and time constants along an orbit.

It takes three minutes of processor time; --full, with more neurons, longer training and smaller solver steps, takes two
hours.

Example: python -m scripts.paper.approximation --seeds 3 --out runs/paper/approximation
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import torch

from scripts.paper.approximation.figures import draw_errors, draw_paces, draw_portraits
from scripts.paper.approximation.findings import findings, potentials_note, solver_note
from scripts.paper.approximation.study import (
    CLOCKS,
    CONSTRUCTED,
    DEFAULT,
    FULL,
    LOST,
    SYSTEMS,
    TRAINED,
    Sizes,
    Study,
    along_orbit,
    study,
)
from scripts.paper.common.report import Report, Settings, Value, run_report

WATCHED = 8  # neurons of the circuits whose time constants are shown
HEAD = ("system", "circuit", "neurons", "max |x-u|", "worst start", "rms", "one step", "followed", "largest |E|")


@dataclass(kw_only=True)
class ApproximationSettings(Settings):
    """The settings of this study."""

    seeds: int = 3
    """How many circuits of every size."""


def make(settings: ApproximationSettings) -> Report:
    """Makes and measures every circuit, and writes the report."""
    torch.set_num_threads(1)  # sums in the same order give the same result
    return report(FULL if settings.full else DEFAULT, settings.seeds, settings.seed)


def report(sizes: Sizes, seeds: int, seed: int, progress: bool = True) -> Report:
    """Does the same for any sizes that have constructed and trained circuits of WATCHED neurons."""
    found = study(sizes, seeds, seed, progress)
    paces = {
        (system.name, kind): along_orbit(found.circuits[system.name, kind, WATCHED], found.data[system.name], kind)
        for system in SYSTEMS
        for kind in (CONSTRUCTED, TRAINED)
    }
    trained = {system.name: paces[system.name, TRAINED] for system in SYSTEMS}
    figures = {
        "errors": draw_errors(found),
        "portraits": draw_portraits(found),
        "time_constants": draw_paces(trained, WATCHED),
    }
    title = "Theorem 3: circuits that follow a limit cycle and a chaotic system"
    return Report(title, HEAD, rows(found), findings(found, paces), notes(found, sizes, seeds), figures)


def rows(found: Study) -> list[list[Value]]:
    """Writes a row for each kind and number of neurons: medians over seeds, and the worst start of all seeds."""
    table: list[list[Value]] = []
    for key in dict.fromkeys((one.system, one.kind, one.neurons) for one in found.results):
        same = [one for one in found.results if (one.system, one.kind, one.neurons) == key]
        peak, rms, step, followed, potential = np.median(
            [(one.peak, one.rms, one.one_step, one.followed, one.potential) for one in same], axis=0
        ).tolist()
        table.append([*key, peak, max(one.worst for one in same), rms, step, followed, potential])
    return table


def notes(found: Study, sizes: Sizes, seeds: int) -> list[str]:
    """Writes what a reader of the table needs to know, and every difference from the paper."""
    horizons = " and ".join(
        f"{system.horizon * system.sample:g} ({system.name}, "
        f"{system.horizon * system.sample / system.clock:.2f} {system.clock_name})"
        for system in SYSTEMS
    )
    return [
        f"coordinates have mean 0 and standard deviation 1; T is {horizons}. max |x-u| and followed: medians of "
        f"{sizes.held_out} unseen starts; all columns but the worst start: medians of {seeds} circuits",
        f"followed: until |x-u| exceeds {LOST}; in periods (van der Pol) or Lyapunov times (Lorenz), {CLOCKS} at most",
        "starts: anywhere in |x|, |y| <= 2 (van der Pol), on the attractor (Lorenz): the theorem's compact set D",
        "the proof asks for time constants so long that leaks hardly matter (S34, S35); here the least squares include "
        "the leaks, so that time constants may be short",
        "the proof's circuit sums f over synapses (S46), as conductances do; Eq. 1 has one f a neuron. Constructed and "
        "trained circuits are of the conductance form of 2018. A neuron of Eq. 1 keeps one sign (Theorem 2), so "
        "u is a linear readout of all neurons",
        "a wiring must have an input; it is cut off by a conductance of 1e-8",
        f"trained by L-BFGS on windows that grow to T, {sum(count for _, count in sizes.stages)} iterations; Adam "
        "ended at larger errors in the same time",
        solver_note(found),
        potentials_note(found),
    ]


if __name__ == "__main__":
    sys.exit(run_report("approximation", __doc__ or "", ApproximationSettings, make))
