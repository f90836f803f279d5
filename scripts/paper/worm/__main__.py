"""Does the worm's own circuit, as an LTC, answer touch and tap as the worm does, even without some of its neurons?

The circuit is the tap-withdrawal circuit of C. elegans, the model for neural circuit policies. It has the synapses,
signs and gap junctions of `nc.tap_withdrawal()`, conductances in proportion to the contacts in electron micrographs,
and nine numbers for all of them, which were found by random search and then rounded; no synapse has a strength of its
own. It is touched at the tail, at the head, and everywhere (a tap), once whole and once without neurons that a laser
killed in the animal, and the directions are compared with the published ones. Then the nine numbers, and the signs that
are only assumed, are drawn at random, 30 times each and with --full 400 times, to see how much depends on them.

Example: python -m scripts.paper.worm --out runs/paper/worm
"""

from __future__ import annotations

import sys
from dataclasses import fields

from scripts.paper.common.report import Report, Settings, run_report
from scripts.paper.worm.circuit import Numbers
from scripts.paper.worm.experiments import EXPERIMENTS, agreements, compare, operate
from scripts.paper.worm.figures import draw_circuit, draw_experiments, draw_traces
from scripts.paper.worm.findings import findings

HEAD = ("experiment", "published", "by", "here, mV", "against, mV", "agrees", "other numbers", "other signs")
CIRCUITS, FULL = 30, 400
SPREAD = 0.2
NOTES = (
    "Measured is how far the potential of REV, of FWD, or of REV less FWD is from rest, as a mean over the second "
    "after the onset of touch; positive is backward. Touch lasts half a second. Smaller and larger mean: than in the "
    "worm with these neurons, or, for a worm without ALM and AVM, which a tap sends forward, than in that worm.",
    "Other numbers: the share of circuits that agree when each of the nine numbers is drawn around its value (the "
    f"standard deviation of its logarithm is {SPREAD}). Other signs: the same with a random sign for each of the 11 "
    "synapses whose sign is assumed.",
    "A random search found the nine numbers for the directions in this table; they were then rounded by hand. So the "
    "table shows that one number for all synapses of a kind can give all these directions, not that it predicts them.",
    "A killed neuron has lost every synapse and gap junction. Left and right cells are one neuron, as are the 21 "
    "A-type and the 18 B-type motor neurons, with leaks in proportion. Rest is the circuit's state after four seconds.",
    "Chalfie 1985: Chalfie et al., J. Neurosci. 5:956. Rankin 1991: Rankin, J. Comp. Physiol. A 169:59. Wicks 1995: "
    "Wicks and Rankin, J. Neurosci. 15:2434. Wicks 1996: Wicks, Roehrig and Rankin, J. Neurosci. 16:4017, who fitted "
    "signs to the same ablations. Only directions are compared. Worms without AVA, AVD and AVE still reverse, "
    "but more rarely (Piggott et al. 2011).",
)


def make(settings: Settings) -> Report:
    """Runs the experiments and writes the report."""
    found = operate()
    outcomes = [compare(one, found) for one in EXPERIMENTS]
    numbers, signs = agreements(FULL if settings.full else CIRCUITS, settings.seed, SPREAD)
    rows = [
        (
            one.name,
            one.wanted,
            one.source,
            outcome.value,
            outcome.reference,
            "yes" if outcome.agrees else "NO",
            f"{number:.0%}",
            f"{sign:.0%}",
        )
        for one, outcome, number, sign in zip(EXPERIMENTS, outcomes, numbers.mean(0), signs.mean(0), strict=True)
    ]
    together = f"All {len(rows)} at once: {numbers.all(1).mean():.0%} of the circuits with other numbers, "
    together += f"{signs.all(1).mean():.0%} of those with other signs."
    given = ", ".join(f"{item.name} {getattr(Numbers(), item.name):g}" for item in fields(Numbers))
    figures = {
        "circuit": draw_circuit(),
        "traces": draw_traces(found[()]),
        "experiments": draw_experiments(outcomes, numbers, signs),
    }
    notes = (together, f"The nine numbers (see scripts.paper.worm.circuit.Numbers): {given}.", *NOTES)
    return Report("The worm's tap-withdrawal circuit", HEAD, rows, findings(outcomes, found), notes, figures)


if __name__ == "__main__":
    sys.exit(run_report("worm", __doc__, Settings, make))
