"""Compares the experiments on the tap-withdrawal circuit with the published findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scripts.paper.common.report import Finding
from scripts.paper.worm.circuit import Responses
from scripts.paper.worm.experiments import EXPERIMENTS, Gone, Outcome

# A response counts as abolished if no more than this share is left.
LITTLE = 0.2
ROUNDING = 1e-4  # mV
ABOLISHED = (
    ("head touch", ("AVA",)),
    ("head touch", ("AVD",)),
    ("tail touch", ("PVC",)),
    ("tail touch", ("AVB",)),
)


def findings(outcomes: Sequence[Outcome], found: Mapping[Gone, Responses]) -> list[Finding]:
    """Makes findings on the whole circuit, on killed neurons by direction and by size, and on the states' bounds."""
    whole = [(one, outcome) for one, outcome in zip(EXPERIMENTS, outcomes, strict=True) if not one.gone]
    killed = [(one, outcome) for one, outcome in zip(EXPERIMENTS, outcomes, strict=True) if one.gone]
    missed = [one.name for one, outcome in killed if not outcome.agrees]
    left = {
        f"{one.stimulus}, no {one.gone[0]}": max(outcome.value, 0.0) / outcome.reference
        for one, outcome in killed
        if (one.stimulus, one.gone) in ABOLISHED and outcome.reference
    }
    margin = min(one.margin for one in found.values())
    kept = "; ".join(f"{name} {share:.0%}" for name, share in left.items())
    return [
        Finding(
            "Reflex",
            "an untouched worm goes forward, touched at the tail forward, at the head backward, tapped backward, and "
            "less so if its tail was touched a second before",
            all(outcome.agrees for _, outcome in whole),
            "; ".join(f"{one.name} {outcome.value:+.2f} mV" for one, outcome in whole),
        ),
        Finding(
            "Killed neurons, direction",
            "each changes the response the way it did in the animal",
            not missed,
            f"{len(killed) - len(missed)} of {len(killed)} changes go that way"
            + (f", but not {'; '.join(missed)}" if missed else ""),
        ),
        Finding(
            "Killed neurons, size",
            "without AVA or AVD no reversal, without PVC or AVB no acceleration",
            all(share <= LITTLE for share in left.values()),
            f"left of the response ({LITTLE:.0%} counts as none): {kept}",
        ),
        Finding(
            "Bounds of the states (2018, Eq. 50)",
            "no potential leaves the range of the leak and reversal potentials that reach it",
            margin >= -ROUNDING,
            f"in all {len(found)} circuits and at every stimulus"
            + ("" if margin >= -ROUNDING else f", but one by {-margin:.2g} mV"),
        ),
    ]
