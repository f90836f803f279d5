"""What was done to the worm, in which direction it answered, and whether the circuit answers the same way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from ncp_control.support.progress import tracked
from ncp_control.wiring.worm import SYNAPSES
from scripts.paper.worm.circuit import Numbers, Responses, respond, without, worm

Gone = tuple[str, ...]
# A direction counts from 0.05 mV between REV and FWD, a change from a hundredth of what it changes.
LEAST_DIRECTION, LEAST_CHANGE = 0.05, 0.01
MOTOR = {"reversal": "REV", "acceleration": "FWD"}


@dataclass(frozen=True)
class Experiment:
    """One stimulus to a worm that lacks some neurons.

    :param stimulus: of `worm.STIMULI`, or "untouched"
    :param gone: neurons killed
    :param measure: "direction" (REV above FWD is backward), "reversal" (how far REV rises) or "acceleration" (FWD)
    :param published: "forward" or "backward", or "smaller" or "larger" than `against`
    :param source: who has published it; None for what everybody sees
    :param against: stimulus and neurons gone of what it is compared with
    """

    stimulus: str
    gone: Gone
    measure: str
    published: str
    source: str | None
    against: tuple[str, Gone] | None = None

    @property
    def name(self) -> str:
        """In words."""
        return self.stimulus + (f", no {', '.join(self.gone)}" if self.gone else "")

    @property
    def wanted(self) -> str:
        """What is published, in words: "forward", or "smaller reversal"."""
        return self.published if self.measure == "direction" else f"{self.published} {self.measure}"


@dataclass(frozen=True)
class Outcome:
    """What the circuit did: the measure in mV, that of what it is compared with, and whether it agrees."""

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
    """The responses of the whole circuit and of every circuit with neurons killed that an experiment asks for."""
    cell = worm(numbers, signs)
    operations = [gone for one in EXPERIMENTS for gone in (one.gone, one.against[1] if one.against else ())]
    return {gone: respond(without(cell, gone)) for gone in dict.fromkeys(operations)}


def judge(one: Experiment, found: dict[Gone, Responses]) -> Outcome:
    """Whether the circuits' responses go the published way."""
    value = measure(one, one.stimulus, found[one.gone])
    if one.against is None:
        return Outcome(value, None, value * (1 if one.published == "backward" else -1) >= LEAST_DIRECTION)
    stimulus, gone = one.against
    reference = measure(one, stimulus, found[gone])
    change = (value - reference) * (1 if one.published == "larger" else -1)
    # What is not there cannot become smaller.
    return Outcome(value, reference, reference > 0 and change >= LEAST_CHANGE * reference)


def measure(one: Experiment, stimulus: str, responses: Responses) -> float:
    """What an experiment measures, in mV."""
    if stimulus == "untouched":
        return responses.rest("REV") - responses.rest("FWD")
    if one.measure == "direction":
        return responses.backward(stimulus)
    return responses.change(stimulus, MOTOR[one.measure])


def agreements(circuits: int, seed: int, spread: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    """How much hangs on the nine numbers, and how much on the signs that are assumed.

    :param circuits: how many random circuits for each
    :param spread: of the logarithm of each number, normally distributed around that of its value
    :return: for the numbers and for the signs, (circuits, experiments): whether each experiment agrees
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
                agreed[kind, k] = [judge(one, found).agrees for one in EXPERIMENTS]
                progress.advance(1, 1)
    return agreed[0], agreed[1]
