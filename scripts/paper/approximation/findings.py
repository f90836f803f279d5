"""Compares Theorem 3 of the LTC paper with circuits that follow other systems."""

from __future__ import annotations

import numpy as np

from scripts.paper.approximation.study import (
    CONSTRUCTED,
    ONE_GATE,
    SYSTEMS,
    TRAINED,
    Pace,
    Study,
    as_ode,
    measure,
)
from scripts.paper.common.report import Finding

FALLS = -0.8  # errors fall if their rank correlation with neurons is at most this
NEAR = 0.1  # the epsilon of the theorem, in standard deviations


def rank_correlation(one: object, other: object) -> float:
    """Returns Spearman's rank correlation."""
    from scipy.stats import spearmanr

    return float(spearmanr(one, other).statistic)


def falling(found: Study, kind: str) -> tuple[dict[str, float], dict[str, float], str]:
    """Returns, by system, the rank correlation of error and neurons and the largest circuits' error, also in words."""
    correlations, last, words = {}, {}, []
    for system in SYSTEMS:
        results = [one for one in found.results if (one.system, one.kind) == (system.name, kind)]
        few, many = min(one.neurons for one in results), max(one.neurons for one in results)
        first = float(np.median([one.peak for one in results if one.neurons == few]))
        last[system.name] = float(np.median([one.peak for one in results if one.neurons == many]))
        correlations[system.name] = rank_correlation([one.neurons for one in results], [one.peak for one in results])
        words.append(
            f"{system.name}: {first:.2g} with {few} neurons, {last[system.name]:.2g} with {many} "
            f"(rank correlation {correlations[system.name]:.2f} over {len(results)} circuits)"
        )
    return correlations, last, "; ".join(words)


def findings(found: Study, paces: dict[tuple[str, str], Pace]) -> list[Finding]:
    """Compares each statement with what was measured."""
    constructed, near, constructed_words = falling(found, CONSTRUCTED)
    trained, _, trained_words = falling(found, TRAINED)
    _, one_gate_last, one_gate_words = falling(found, ONE_GATE)
    return [
        Finding(
            "Theorem 3",
            "enough hidden units keep max |x - u| on [0, T] below any epsilon",
            max(constructed.values()) <= FALLS and max(near.values()) < NEAR,
            f"constructed as in its proof, without any training. {constructed_words}",
        ),
        Finding(
            "Theorem 3, by gradient",
            "such weights exist; here: training brings more neurons nearer, too",
            max(trained.values()) <= FALLS,
            f"trained from the construction. {trained_words}",
        ),
        Finding(
            "Theorem 3, Eq. 1",
            "the network is described by Eq. 1, which has one f a neuron",
            True if max(one_gate_last.values()) < NEAR else None,
            f"trained from random weights. {one_gate_words}. The proof sums f over synapses instead",
        ),
        Finding(
            "Liquid time constants",
            "they let single neurons specialise on the dynamics at hand (section 1)",
            None,
            pace_words(paces),
        ),
    ]


def potentials_note(found: Study) -> str:
    """Says what Theorem 2 means for the largest circuits."""
    words = []
    for kind in (CONSTRUCTED, TRAINED):
        many = max(one.neurons for one in found.results if one.kind == kind)
        most = max(one.potential for one in found.results if (one.kind, one.neurons) == (kind, many))
        words.append(f"up to {most:.0f} in {kind} circuits of {many} neurons")
    return (
        "Theorem 2 bounds these circuits by their reversal potentials, which says little: they are "
        f"{', '.join(words)}, while x stays within 3 standard deviations"
    )


def pace_words(paces: dict[tuple[str, str], Pace]) -> str:
    """Writes the ranges of time constants beside the system's time scales."""
    words = []
    for system in SYSTEMS:
        trained = paces[system.name, TRAINED]
        middle = np.log(trained.circuit).mean(axis=1)
        swing = float(np.median(trained.circuit.max(axis=0) / trained.circuit.min(axis=0)))
        ranges = ", ".join(f"{kind} {span(paces[system.name, kind].circuit)}" for kind in (CONSTRUCTED, TRAINED))
        words.append(
            f"{system.name}: {ranges}; the system's shortest {span(trained.system[:, 0])}. A trained neuron's changes "
            f"by a factor of {swing:.2f} along the orbit; their mean's rank correlation with the system's shortest "
            f"is {rank_correlation(middle, trained.system[:, 0]):.2f}"
        )
    return ". ".join(words)


def span(values: np.ndarray) -> str:
    """Writes the smallest and the largest of some values."""
    return f"{values.min():.2g} to {values.max():.2g}"


def solver_note(found: Study) -> str:
    """Says how the weights of the largest trained circuits do with another solver."""
    words = []
    for system in SYSTEMS:
        many = max(neurons for name, kind, neurons in found.circuits if (name, kind) == (system.name, TRAINED))
        circuit, data = found.circuits[system.name, TRAINED, many], found.data[system.name]
        own, ode = measure(circuit, data, TRAINED, 0).peak, measure(as_ode(circuit), data, TRAINED, 0).peak
        words.append(f"{system.name} {own:.2g} and {ode:.2g}")
    return (
        "constructed circuits are run as ODEs, by RK4; trained ones by the paper's fused solver, of first order, whose "
        "errors their weights have learnt to compensate. Errors of the largest with it and as ODEs: " + "; ".join(words)
    )
