"""Observations I to IX of the LTC paper (section 5.1), each compared with what was measured."""

from __future__ import annotations

import numpy as np

from scripts.paper.common.random_networks import ACTIVATIONS, KINDS, Array
from scripts.paper.common.report import Finding
from scripts.paper.common.simulate import ADAPTIVE
from scripts.paper.trajectory.expressivity import (
    BIAS_VARIANCE,
    SOLVERS,
    VARIANCE,
    Case,
    Grid,
    Lengths,
    exponent,
    growth,
    rank_correlation,
)
from scripts.paper.trajectory.lower_bounds import PUBLISHED_DEPTHS, base

PIECEWISE, SMOOTH = ("hard_tanh", "relu"), ("tanh", "sigmoid")
PLAIN = ("neural_ode", "ct_rnn")
GROWS = 1.1  # factors a layer from here on count as exponential growth
LINEAR = (0.75, 1.25)  # exponents in this range count as linear
Found = dict[Case, Lengths]


def observations(found: Found, grid: Grid) -> list[Finding]:
    """Compares the nine observations, the share of variance, and the growth of the bounds of Theorems 4 and 5."""
    return [
        *_about_layers(found),
        _longest(found),
        _flat(found),
        _varies(found),
        _width(found, grid),
        _variance(found, grid),
        _solvers(found),
        _complex(found),
        _share(found),
        _theorems(found, grid),
    ]


def _about_layers(found: Found) -> list[Finding]:
    factors = {case: growth(lengths.layer) for case, lengths in found.items()}
    plain = {case: factors[case] for case in factors if case[0] in PLAIN and case[1] in PIECEWISE}
    ranks = {act: min(_layer_rank(found[kind, act]) for kind in PLAIN) for act in PIECEWISE}
    slower = all(factors["ltc", act] < factors[kind, act] for kind in PLAIN for act in PIECEWISE)
    longer = all(_first(found, "ltc", act) > _first(found, kind, act) for kind in PLAIN for act in PIECEWISE)
    ratios = {act: _first(found, "ltc", act) / _first(found, "neural_ode", act) for act in PIECEWISE}
    return [
        Finding(
            "Observation I",
            "with hard-tanh and ReLU the paths of Neural ODEs and CT-RNNs grow exponentially with the layers",
            all(factor > GROWS for factor in plain.values()) and min(ranks.values()) > 0.8,
            f"a layer multiplies the length by {_listed(plain)}; rank correlations with the layer are at least "
            + " and ".join(f"{rank:.2f} ({act})" for act, rank in ranks.items()),
        ),
        Finding(
            "Observation II",
            "with hard-tanh and ReLU the paths of LTCs grow more slowly, and are longer all the same",
            slower and longer,
            "a layer multiplies LTC's by "
            + " and ".join(f"{factors['ltc', act]:.2f} ({act})" for act in PIECEWISE)
            + "; in the first layer LTC's is "
            + " and ".join(f"{ratios[act]:.3g} ({act})" for act in PIECEWISE)
            + " times as long as the Neural ODE's",
        ),
    ]


def _longest(found: Found) -> Finding:
    won = dict.fromkeys(ACTIVATIONS, 0)
    for act in ACTIVATIONS:
        ltc, others = found["ltc", act], [found[kind, act] for kind in PLAIN]
        sweeps = [(ltc.width, [other.width for other in others]), (ltc.variance, [other.variance for other in others])]
        if act in SMOOTH:
            sweeps.append((ltc.layer, [other.layer for other in others]))
        wins = [_median(mine) > np.max([_median(other) for other in theirs], axis=0) for mine, theirs in sweeps]
        won[act] = round(100 * float(np.mean(np.concatenate(wins))))
    return Finding(
        "Observation III",
        "in all other settings LTC has the longest path",
        min(won.values()) == 100,
        "of the settings, LTC's is the longest in "
        + ", ".join(f"{share} % ({act})" for act, share in won.items())
        + ": where f can be negative, the rate 1 / tau + f can be too, and states grow; where it cannot (sigmoid, "
        "ReLU), states are bounded and paths short",
    )


def _flat(found: Found) -> Finding:
    factors = {case: growth(lengths.layer) for case, lengths in found.items() if case[1] in SMOOTH}
    return Finding(
        "Observation IV",
        "with tanh and sigmoid the length does not grow with the layers",
        all(factor < GROWS for factor in factors.values()),
        f"a layer multiplies the length by {_listed(factors)}",
    )


def _varies(found: Found) -> Finding:
    ltc = {act: found["ltc", act] for act in ACTIVATIONS}
    ranges = {
        "activation": _range(np.array([_first(found, "ltc", act) for act in ACTIVATIONS])),
        "weight variance": max(_range(_median(lengths.variance)) for lengths in ltc.values()),
        "width": max(_range(_median(lengths.width)) for lengths in ltc.values()),
        "layer": max(_range(_median(lengths.layer)) for lengths in ltc.values()),
    }
    return Finding(
        "Observation V",
        "the length depends on activation, variance of the weights, width and depth",
        min(ranges.values()) > 1.5,
        "LTC's longest over its shortest, by " + ", ".join(f"{name} {value:.3g}" for name, value in ranges.items()),
    )


def _width(found: Found, grid: Grid) -> Finding:
    powers = {case: exponent(grid.widths, lengths.width) for case, lengths in found.items()}
    linear = all(LINEAR[0] <= power <= LINEAR[1] for case, power in powers.items() if case[0] == "ltc")
    return Finding(
        "Observation VI",
        "the length grows linearly with the width",
        linear,
        f"it goes with the width to the power {_listed(powers)}; the norm of a vector of independent numbers goes with "
        "the power 0.5, and the base of Eq. 7 to 9 tends to a constant with the width",
    )


def _variance(found: Found, grid: Grid) -> Finding:
    ltc = {case: lengths.variance for case, lengths in found.items() if case[0] == "ltc"}
    powers = {case: exponent(grid.variances, lengths) for case, lengths in ltc.items()}
    ranks = [rank_correlation(grid.variances, lengths) for lengths in ltc.values()]
    return Finding(
        "Observation VII",
        "the length of LTCs grows faster than linearly with the variance of the weights",
        all(power > 1 for power in powers.values()),
        f"it goes with sigma_w^2 to the power {_listed(powers)}; rank correlations from {min(ranks):.2f} to "
        f"{max(ranks):.2f}",
    )


def _solvers(found: Found) -> Finding:
    adaptive = [SOLVERS.index(name) for name in ADAPTIVE]
    fused = SOLVERS.index("fused")
    spreads, fixed = [], []
    for lengths in found.values():
        reference = lengths.solver[SOLVERS.index("RK45")]
        spreads.append(np.nanmax(np.abs(lengths.solver[adaptive] / reference - 1)))
        fixed.append(np.nanmax(np.abs(lengths.solver[fused] / reference - 1)))
    return Finding(
        "Observation VIII",
        "the choice of the solver hardly matters",
        max(spreads) < 0.05,
        f"the adaptive solvers are within {100 * max(spreads):.2g} % of Dormand-Prince, the fused one with a step a "
        f"sample within {100 * max(fixed):.2g} %",
    )


def _complex(found: Found) -> Finding:
    first = {act: _first(found, "ltc", act) for act in ACTIVATIONS}
    return Finding(
        "Observation IX",
        "for LTCs ReLU and hard-tanh give the more complex paths",
        min(first[act] for act in PIECEWISE) > max(first[act] for act in SMOOTH),
        "LTC's lengths: " + ", ".join(f"{act} {value:.3g}" for act, value in first.items()),
    )


def _share(found: Found) -> Finding:
    shares = np.concatenate([lengths.share.ravel() for lengths in found.values()])
    return Finding(
        "Share of variance",
        "two components explain over 80 % on average",
        float(np.nanmean(shares)) > 0.8,
        f"{100 * np.nanmean(shares):.1f} % on average, {100 * np.nanmin(shares):.0f} % at least",
    )


def _theorems(found: Found, grid: Grid) -> Finding:
    measured = {kind: growth(found[kind, "hard_tanh"].layer) for kind in KINDS}
    bounds = {
        kind: max(base(VARIANCE, BIAS_VARIANCE, grid.width, leaky=kind == "ct_rnn"), 0.0) ** PUBLISHED_DEPTHS[kind]
        for kind in KINDS
    }
    listed = "; ".join(f"{KINDS[kind]} {bounds[kind]:.2g} (measured {measured[kind]:.2g})" for kind in KINDS)
    return Finding(
        "Theorems 4 and 5",
        "the length is at least of the order of the bounds, which rise to the power of the layers",
        all(bounds[kind] <= measured[kind] * 1.1 for kind in KINDS),
        f"with the depths of the paper's Table 2 and hard-tanh a layer multiplies the bound by {listed}",
    )


def _median(lengths: Array) -> Array:
    return np.asarray(np.nanmedian(lengths, axis=1))


def _first(found: Found, kind: str, activation: str) -> float:
    return float(np.nanmedian(found[kind, activation].layer[0]))


def _range(medians: Array) -> float:
    return float(np.nanmax(medians) / np.nanmin(medians))


def _layer_rank(lengths: Lengths) -> float:
    return rank_correlation(tuple(range(len(lengths.layer))), lengths.layer)


def _listed(values: dict[Case, float]) -> str:
    kinds = [kind for kind in KINDS if any(case[0] == kind for case in values)]
    parts = []
    for kind in kinds:
        of_kind = ", ".join(f"{value:.2f} {case[1]}" for case, value in values.items() if case[0] == kind)
        parts.append(f"{KINDS[kind]} {of_kind}")
    return "; ".join(parts)
