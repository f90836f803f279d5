"""Writing a certificate as one web page, which holds all that it shows and uses no network.

A reader who points at a neuron, a synapse or an input sees what is certified about it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from ncp_control.audit import words
from ncp_control.audit.certificate import Certificate, CertifiedNeuron, CertifiedSynapse
from ncp_control.audit.page.drawing import draw, inputs_of
from ncp_control.audit.page.summary import summary
from ncp_control.audit.sections import assumptions, sections_of, title_of
from ncp_control.base.files import write_atomically
from ncp_control.base.pages import all_shown, filled, page_end, page_head, script_json
from ncp_control.base.sections import html_of, report_file
from ncp_control.base.text import counted, shown

AT_THE_TOP = ("BROKEN", "what is certified")
# The most important comes first; what has a row for every sensor, neuron or synapse comes last.
ORDER = ("actions", "memory", "not proved", "attack")
MOST_SYNAPSES = 5000  # more than that, a browser draws too slowly


def write_certificate(certificate: Certificate, path: str | Path) -> None:
    """Writes a certificate as a page: its wiring, in which neurons and synapses can be pointed at, and all its tables.

    :param path: the `.html` file; it is replaced as a whole if it exists
    """
    folder = resources.files("ncp_control.audit.page") / "static"
    drawn = replace(certificate, synapses=most_that_matter(certificate.synapses))
    # Sentences count all synapses of the circuit; tables list only those that are drawn.
    sections = sections_of(certificate, full=True)
    shorter = sections_of(drawn, full=True)
    body = [
        replace(section, rows=short.rows)
        for section, short in zip(sections, shorter, strict=True)
        if section.title not in AT_THE_TOP
    ]
    body.sort(key=lambda section: ORDER.index(section.title) if section.title in ORDER else len(ORDER))
    title = escape(f"Certificate of {shown(certificate.agent)}")
    picture = draw(drawn)
    left = len(certificate.synapses) - len(drawn.synapses)
    parts = {
        "title": title,
        "verdict": verdict_of(certificate),
        "summary": html_of(summary(certificate)),
        "assumptions": html_of(assumptions(certificate)),
        "picture": picture or "<p>The agent has no memory, so there is no circuit to draw.</p>",
        "has_picture": "" if picture else "hidden",
        "left": f"<p>{left:,} synapses that matter less are not drawn and not listed; --json has them.</p>"
        if left
        else "",
        "sections": "\n".join(map(html_of, body)),
        "head": page_head(title, report_file("report.css") + (folder / "page.css").read_text(encoding="utf-8")),
        "end": page_end((folder / "page.js").read_text(encoding="utf-8") + report_file("report.js")),
        "data": script_json(all_shown(page_data(drawn))),
    }
    page = filled((folder / "page.html").read_text(encoding="utf-8"), parts)
    write_atomically(path, page.encode("utf-8"))


def most_that_matter(synapses: tuple[CertifiedSynapse, ...]) -> tuple[CertifiedSynapse, ...]:
    """Returns the synapses that can matter most, as many as a page can show, in their order."""
    share = [1.0 if one.matters is None else one.matters for one in synapses]
    chosen = sorted(range(len(synapses)), key=lambda k: -share[k])[:MOST_SYNAPSES]
    return tuple(synapses[k] for k in sorted(chosen))


def verdict_of(certificate: Certificate) -> str:
    """Says in one line whether the certificate was attacked, and whether it held."""
    attack = certificate.attack
    if attack is None:
        return '<p id="verdict">Proved by interval arithmetic; not attacked.</p>'
    inputs = counted(attack.inputs, "observation")
    if certificate.holds:
        return f'<p id="verdict" class="holds">Proved by interval arithmetic; an attack of {inputs} broke no claim.</p>'
    broken = "".join(f"<li>{escape(shown(one))}</li>" for one in attack.violations)
    count = counted(len(attack.violations), "claim")
    return f'<div id="verdict" class="broken" role="alert">An attack of {inputs} broke {count}:<ul>{broken}</ul></div>'


class Colouring(NamedTuple):
    """What the colours of the neurons can show.

    key: a word for the script
    name: what the menu says
    value: returns a neuron's number, or None if it is not proved
    tell: writes such a number
    """

    key: str
    name: str
    value: Callable[[CertifiedNeuron], float | None]
    tell: Callable[[float], str]


def page_data(certificate: Certificate) -> dict[str, Any]:
    """Returns what the page's script needs, as JSON values."""
    scales = {colouring.key: _scale(colouring, certificate.neurons) for colouring in COLOURINGS}
    inputs = inputs_of(certificate) if certificate.neurons else list(certificate.sensors)
    number = {neuron.name: k for k, neuron in enumerate(certificate.neurons)}
    return {
        "colourings": [scale for scale in scales.values() if scale["low"] is not None],
        "neurons": [{"title": neuron.name, "facts": neuron_facts(neuron)} for neuron in certificate.neurons],
        "synapses": [
            {
                "title": title_of(certificate, synapse),
                "facts": synapse_facts(synapse),
                "ends": [None if synapse.kind == "sensory" else number[synapse.source], number[synapse.target]],
                "input": inputs.index(synapse.source) if synapse.kind == "sensory" else None,
                "share": words.share(synapse.matters),
                "sign": synapse.sign,
            }
            for synapse in certificate.synapses
        ],
        "inputs": [{"title": name, "facts": input_facts(certificate, name)} for name in inputs],
    }


def neuron_facts(neuron: CertifiedNeuron) -> list[tuple[str, str]]:
    """Returns what is certified about a neuron, as terms and texts."""
    facts = [
        ("layer", neuron.layer),
        ("condition", neuron.condition),
        ("its state lies from", words.span(neuron.state)),
        ("the attack reached", words.found(neuron.state)),
        ("its time constant lies from", words.span(neuron.time_constant)),
        (
            "it forgets after",
            f"{neuron.forgets_after:,} steps" if neuron.forgets_after is not None else words.NOT_PROVED,
        ),
        ("it can move an action by", words.share(neuron.matters)),
    ]
    facts = [pair for pair in facts if pair[0] != "the attack reached" or neuron.state.found_low is not None]
    return [*facts, *tried(neuron)]


def synapse_facts(synapse: CertifiedSynapse) -> list[tuple[str, str]]:
    """Returns what is certified about a synapse, as terms and texts."""
    moves = {"+": "rises with its source", "-": "falls with its source", "0": "never moves with its source"}
    return [
        ("kind", synapse.kind),
        ("condition", synapse.condition),
        ("its target", moves.get(synapse.sign, f"rises or falls with its source, which is {words.NOT_PROVED}")),
        ("it can move an action by", words.share(synapse.matters)),
        *tried(synapse),
    ]


def tried(part: CertifiedNeuron | CertifiedSynapse) -> list[tuple[str, str]]:
    """Returns how far the attack moved an action through a neuron or a synapse, if it tried it."""
    share = part.found_matters
    return [] if share is None else [("the attack moved one by", words.share_found(share))]


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


def _matters(neuron: CertifiedNeuron) -> float | None:
    return neuron.matters


def _width(neuron: CertifiedNeuron) -> float | None:
    width = words.width(neuron.state)
    return width if math.isfinite(width) else None


def _used(neuron: CertifiedNeuron) -> float | None:
    tightness = neuron.state.tightness
    return None if tightness is None or not math.isfinite(tightness) else min(1 / tightness, 1.0)


def _constant(neuron: CertifiedNeuron) -> float | None:
    longest = neuron.time_constant.high
    return math.log10(longest) if 0 < longest < math.inf else None


def _forgets(neuron: CertifiedNeuron) -> float | None:
    return None if neuron.forgets_after is None else float(neuron.forgets_after)


COLOURINGS = (
    Colouring("matters", "how far it can move an action", _matters, words.share),
    Colouring("width", "width of its certified range", _width, words.nearest),
    Colouring("used", "share of its range that the attack reached", _used, words.share),
    Colouring("constant", "longest time constant", _constant, lambda power: words.nearest(10**power)),
    Colouring("forgets", "steps until it forgets", _forgets, words.nearest),
)


def _scale(colouring: Colouring, neurons: Sequence[CertifiedNeuron]) -> dict[str, Any]:
    """Returns where each neuron's number lies between the least and the greatest one, and these two in words."""
    values = [colouring.value(neuron) for neuron in neurons]
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    span = high - low or 1.0  # equal numbers all lie at the low end
    return {
        "key": colouring.key,
        "name": colouring.name,
        "low": colouring.tell(low) if known else None,
        "high": colouring.tell(high) if known else None,
        "places": [None if value is None else round((value - low) / span, 4) for value in values],
    }
