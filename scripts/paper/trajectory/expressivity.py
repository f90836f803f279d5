"""Section 5.1 of the LTC paper: lengths of latent paths by layers, width, weight variance, activation and solver."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from ncp_control.base.progress import tracked
from scripts.paper.common.random_networks import ACTIVATIONS, KINDS, Array, draw_network
from scripts.paper.common.simulate import ADAPTIVE, FIXED
from scripts.paper.trajectory.length import measure

VARIANCE, BIAS_VARIANCE, WIDTH = 2.0, 1.0, 100
SOLVERS = (*ADAPTIVE, *FIXED)
Case = tuple[str, str]  # kind, activation


@dataclass(frozen=True)
class Grid:
    """The settings at which lengths are measured.

    :param layers: layers of the deepest network
    :param widths: numbers of neurons in networks of one layer
    :param variances: variances of the weights, sigma_w^2, in networks of one layer
    :param seeds: networks for each setting
    :param solver_seeds: networks for each solver
    :param width: neurons of a layer where the width does not vary
    """

    layers: int = 6
    widths: tuple[int, ...] = (10, 25, 50, 100, 200)
    variances: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0)
    seeds: int = 5
    solver_seeds: int = 2
    width: int = WIDTH


@dataclass(frozen=True)
class Lengths:
    """Lengths of one kind of network with one activation; the last axis is the seeds.

    :param layer: by layer, (n, seeds)
    :param width: by width, (widths, seeds)
    :param variance: by variance of the weights, (variances, seeds)
    :param solver: by solver, (solvers, solver_seeds)
    :param share: the share of the variance that lies in the plane, by layer, (n, seeds)
    :param second_lap: of the first layer while the input goes round a second time, (seeds,)
    """

    layer: Array
    width: Array
    variance: Array
    solver: Array
    share: Array
    second_lap: Array


def cases() -> list[Case]:
    """Lists every kind of network with every activation."""
    return list(itertools.product(KINDS, ACTIVATIONS))


def measure_all(grid: Grid, seed: int = 0) -> dict[Case, Lengths]:
    """Measures every length of the grid; networks of different kinds share their weights."""
    seeds = [seed * 1000 + k for k in range(grid.seeds)]
    each = grid.seeds * (2 + len(grid.widths) + len(grid.variances)) + grid.solver_seeds * len(SOLVERS)
    found = {}
    with tracked("paths", total=each * len(cases()), unit="paths") as progress:

        def length(
            kind: str, activation: str, network: int, solver: str = "RK45", laps: int = 1, **drawn: float
        ) -> float:
            path = measure(draw_network(kind, activation, network, **drawn), solver, laps)[0]  # type: ignore[arg-type]
            progress.advance(1, 1)
            return path.length

        for case in cases():
            deep = []
            for k in seeds:
                deep.append(measure(draw_network(*case, k, layers=grid.layers, width=grid.width)))
                progress.advance(1, 1, " ".join(case))
            found[case] = Lengths(
                layer=np.array([[path.length for path in paths] for paths in deep]).T,
                width=np.array([[length(*case, k, width=width) for k in seeds] for width in grid.widths]),
                variance=np.array(
                    [
                        [length(*case, k, weight_variance=value, width=grid.width) for k in seeds]
                        for value in grid.variances
                    ]
                ),
                solver=np.array(
                    [
                        [length(*case, k, solver, width=grid.width) for k in seeds[: grid.solver_seeds]]
                        for solver in SOLVERS
                    ]
                ),
                share=np.array([[path.share for path in paths] for paths in deep]).T,
                second_lap=np.array([length(*case, k, laps=2, width=grid.width) for k in seeds]),
            )
    return found


def exponent(values: tuple[float, ...] | tuple[int, ...], lengths: Array) -> float:
    """Fits `length ~ value^p` to the medians over seeds, (values, seeds), and returns p."""
    return float(np.polyfit(np.log(values), np.log(np.nanmedian(lengths, axis=1)), 1)[0])


def growth(lengths: Array) -> float:
    """Fits `length ~ factor^layer` to the medians over seeds, (n, seeds), and returns the factor."""
    medians = np.nanmedian(lengths, axis=1)
    return float(np.exp(np.polyfit(np.arange(len(medians)), np.log(medians), 1)[0]))


def rank_correlation(values: tuple[float, ...] | tuple[int, ...], lengths: Array) -> float:
    """Returns Spearman's rank correlation over all seeds."""
    from scipy.stats import spearmanr

    return float(spearmanr(np.repeat(values, lengths.shape[1]), lengths.ravel()).statistic)
