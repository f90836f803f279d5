"""Published experiments on the worm, and whether the circuit responds in the same direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from ncp_control.base.progress import tracked
from ncp_control.wiring.worm import SYNAPSES
from scripts.paper.worm.circuit import Numbers, Responses, respond, without, worm

Gone = tuple[str, ...]
# The least difference between REV and FWD, in mV, that is a direction; the least change, as a share of the reference.
LEAST_DIRECTION, LEAST_CHANGE = 0.05, 0.01
MOTOR = {"reversal": "REV", "acceleration": "FWD"}


@dataclass(frozen=True)
class Experiment:
    """One stimulus to a worm that lacks some neurons.

    :param stimulus: a name in `circuit.STIMULI`, or "untouched"
    :param gone: the neurons that were killed
    :param measure: "direction" (REV above FWD is backward), "reversal" (how far REV rises) or "acceleration" (FWD)
    :param published: "forward" or "backward", or "smaller" or "larger" than `against`
    :param source: the publication; None for common knowledge
    :param against: the stimulus and the killed neurons of the experiment to compare with
    """

    stimulus: str
    gone: Gone
    measure: str
    published: str
    source: str | None
    against: tuple[str, Gone] | None = None

    @property
    def name(self) -> str:
        """The experiment in words."""
        return self.stimulus + (f", no {', '.join(self.gone)}" if self.gone else "")

    @property
    def wanted(self) -> str:
        """The published result in words, such as "forward" or "smaller reversal"."""
        return self.published if self.measure == "direction" else f"{self.published} {self.measure}"


@dataclass(frozen=True)
class Outcome:
    """The circuit's result: the measure and the reference's measure in mV, and whether they agree with the worm."""

    value: float
    reference: float | None
    agrees: bool


def _reduced(stimulus: str, gone: Gone, measure: str, source: str, against: Gone = ()) -> Experiment:
    return Experiment(stimulus, gone, measure, "smaller", source, (stimulus, against))


HEADLESS = ("ALM", "AVM")
EXPERIMENTS = (
    Experiment("untouched", (), "direction", "forward", None),
    Experiment("tail touch", (), "direction", "forward", "Chalfie 1985"),
    Experiment("head touch", (), "direction", "backward", "Chalfie 1985"),
    Experiment("tap", (), "direction", "backward", "Rankin 1991"),
    Experiment("tap after tail touch", (), "reversal", "smaller", "Rankin 1991", ("tap", ())),
    Experiment("tap", HEADLESS, "direction", "forward", "Wicks 1995"),
    Experiment("tap", ("PLM",), "reversal", "larger", "Wicks 1995", ("tap", ())),
    _reduced("tap", ("PVD",), "reversal", "Wicks 1996"),
    _reduced("tap", ("DVA",), "reversal", "Wicks 1996"),
    _reduced("tap", (*HEADLESS, "PVD"), "acceleration", "Wicks 1996", HEADLESS),
    _reduced("tap", (*HEADLESS, "DVA"), "acceleration", "Wicks 1996", HEADLESS),
    _reduced("tap", ("AVD",), "reversal", "Wicks 1995"),
    _reduced("head touch", ("AVD",), "reversal", "Chalfie 1985"),
    _reduced("head touch", ("AVA",), "reversal", "Chalfie 1985"),
    _reduced("tail touch", ("PVC",), "acceleration", "Chalfie 1985"),
    _reduced("tail touch", ("AVB",), "acceleration", "Chalfie 1985"),
)


def operate(numbers: Numbers | None = None, signs: dict[tuple[str, str], int] | None = None) -> dict[Gone, Responses]:
    """Computes the responses of the whole circuit and of every circuit without neurons that an experiment needs."""
    cell = worm(numbers, signs)
    operations = [gone for one in EXPERIMENTS for gone in (one.gone, one.against[1] if one.against else ())]
    return {gone: respond(without(cell, gone)) for gone in dict.fromkeys(operations)}


def compare(one: Experiment, found: dict[Gone, Responses]) -> Outcome:
    """Compares the circuits' responses with the published result."""
    value = measure(one, one.stimulus, found[one.gone])
    if one.against is None:
        return Outcome(value, None, value * (1 if one.published == "backward" else -1) >= LEAST_DIRECTION)
    stimulus, gone = one.against
    reference = measure(one, stimulus, found[gone])
    change = (value - reference) * (1 if one.published == "larger" else -1)
    # A response that is not there cannot become smaller.
    return Outcome(value, reference, reference > 0 and change >= LEAST_CHANGE * reference)


def measure(one: Experiment, stimulus: str, responses: Responses) -> float:
    """Returns what an experiment measures, in mV."""
    if stimulus == "untouched":
        return responses.rest("REV") - responses.rest("FWD")
    if one.measure == "direction":
        return responses.backward(stimulus)
    return responses.change(stimulus, MOTOR[one.measure])


def agreements(circuits: int, seed: int, spread: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    """Draws random circuits to see how much depends on the nine numbers and on the assumed signs.

    :param circuits: how many circuits with other numbers, and how many with other signs
    :param seed: the seed of the draws
    :param spread: the standard deviation of the logarithm of each number
    :return: for other numbers and for other signs, whether each experiment agrees, (circuits, experiments)
    """
    rng = np.random.default_rng(seed)
    assumed = [(one.source, one.target) for one in SYNAPSES if one.sign == "assumed"]

    def other_numbers() -> dict[Gone, Responses]:
        values = asdict(Numbers())
        return operate(Numbers(**{name: value * np.exp(rng.normal(0, spread)) for name, value in values.items()}))

    def other_signs() -> dict[Gone, Responses]:
        return operate(signs=dict(zip(assumed, rng.choice([-1, 1], len(assumed)).tolist(), strict=True)))

    draws: Sequence[Callable[[], dict[Gone, Responses]]] = (other_numbers, other_signs)
    agreed = np.zeros((2, circuits, len(EXPERIMENTS)), bool)
    with tracked("random circuits", 2 * circuits, unit="circuits") as progress:
        for kind, draw in enumerate(draws):
            for k in range(circuits):
                found = draw()
                agreed[kind, k] = [compare(one, found).agrees for one in EXPERIMENTS]
                progress.advance(1, 1)
    return agreed[0], agreed[1]
