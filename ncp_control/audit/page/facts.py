"""What a page says about each neuron, synapse and input when somebody points at it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ncp_control.audit import words
from ncp_control.audit.certificate import Certificate, CertifiedNeuron, CertifiedSynapse
from ncp_control.audit.circuit_sections import title_of
from ncp_control.audit.page.drawing import inputs_of


class Colouring(NamedTuple):
    """What the colours of the neurons can show.

    key: a word for the script
    name: what the menu says
    value: returns a neuron's number, or None if it is not shown
    tell: writes such a number
    """

    key: str
    name: str
    value: Callable[[CertifiedNeuron], float | None]
    tell: Callable[[float], str]


def page_data(certificate: Certificate) -> dict[str, Any]:
    """Returns what the page's script needs, as JSON values."""
    scales = {one.key: _scale(one, certificate.neurons) for one in COLOURINGS}
    inputs = inputs_of(certificate) if certificate.neurons else list(certificate.sensors)
    number = {one.name: k for k, one in enumerate(certificate.neurons)}
    return {
        "colourings": [scale for scale in scales.values() if scale["low"] is not None],
        "neurons": [{"title": one.name, "facts": neuron_facts(one)} for one in certificate.neurons],
        "synapses": [
            {
                "title": title_of(certificate, one),
                "facts": synapse_facts(one),
                "ends": [None if one.kind == "sensory" else number[one.source], number[one.target]],
                "input": inputs.index(one.source) if one.kind == "sensory" else None,
                "share": words.share(one.matters),
                "sign": one.sign,
            }
            for one in certificate.synapses
        ],
        "inputs": [{"title": name, "facts": input_facts(certificate, name)} for name in inputs],
    }


def neuron_facts(one: CertifiedNeuron) -> list[tuple[str, str]]:
    """Returns what is certified about a neuron, as terms and texts."""
    found = [
        ("layer", one.layer),
        ("condition", one.condition),
        ("its state lies from", words.span(one.state)),
        ("the attack reached", words.found(one.state)),
        ("its time constant lies from", words.span(one.time_constant)),
        ("it forgets after", f"{one.forgets_after:,} steps" if one.forgets_after is not None else words.NOT_SHOWN),
        ("it can move an action by", words.share(one.matters)),
    ]
    found = [pair for pair in found if pair[0] != "the attack reached" or one.state.found_low is not None]
    return [*found, *tried(one)]


def synapse_facts(one: CertifiedSynapse) -> list[tuple[str, str]]:
    """Returns what is certified about a synapse, as terms and texts."""
    moves = {"+": "rises with its source", "-": "falls with its source", "0": "never moves with its source"}
    return [
        ("kind", one.kind),
        ("condition", one.condition),
        ("its target", moves.get(one.sign, f"rises or falls with its source, which is {words.NOT_SHOWN}")),
        ("it can move an action by", words.share(one.matters)),
        *tried(one),
    ]


def tried(one: CertifiedNeuron | CertifiedSynapse) -> list[tuple[str, str]]:
    """Returns how far the attack moved an action through a neuron or a synapse, if it tried it."""
    found = one.found_matters
    return [] if found is None else [("the attack moved one by", words.share_found(found))]


def input_facts(certificate: Certificate, name: str) -> list[tuple[str, str]]:
    """Returns what is certified about a sensor, as terms and texts."""
    if name not in certificate.sensors:
        return []
    k = certificate.sensors.index(name)
    reached = [f"{one.action} ({one.sign})" for one in certificate.paths if one.sensor == name]
    return [
        ("certified within", words.span(certificate.observations[k])),
        ("an error of 1 is", words.nearest(certificate.error_units[k])),
        ("reaches", ", ".join(reached) or "no action"),
    ]


def _matters(one: CertifiedNeuron) -> float | None:
    return one.matters


def _width(one: CertifiedNeuron) -> float | None:
    width = words.width(one.state)
    return width if math.isfinite(width) else None


def _used(one: CertifiedNeuron) -> float | None:
    tightness = one.state.tightness
    return None if tightness is None or not math.isfinite(tightness) else min(1 / tightness, 1.0)


def _constant(one: CertifiedNeuron) -> float | None:
    longest = one.time_constant.high
    return math.log10(longest) if 0 < longest < math.inf else None


def _forgets(one: CertifiedNeuron) -> float | None:
    return None if one.forgets_after is None else float(one.forgets_after)


COLOURINGS = (
    Colouring("matters", "how far it can move an action", _matters, words.share),
    Colouring("width", "width of its certified range", _width, words.nearest),
    Colouring("used", "share of its range that the attack reached", _used, words.share),
    Colouring("constant", "longest time constant", _constant, lambda power: words.nearest(10**power)),
    Colouring("forgets", "steps until it forgets", _forgets, words.nearest),
)


def _scale(colouring: Colouring, neurons: Sequence[CertifiedNeuron]) -> dict[str, Any]:
    """Returns where each neuron's number lies between the least and the greatest one, and these two in words."""
    values = [colouring.value(one) for one in neurons]
    known = [one for one in values if one is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    span = high - low or 1.0
    return {
        "key": colouring.key,
        "name": colouring.name,
        "low": colouring.tell(low) if known else None,
        "high": colouring.tell(high) if known else None,
        "places": [None if one is None else round((one - low) / span, 4) for one in values],
    }
