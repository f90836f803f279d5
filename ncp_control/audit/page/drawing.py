"""The picture of a certified circuit: its wiring as SVG, in which every neuron and synapse can be pointed at."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.layout import Layout, curves, natural_size, place
from ncp_control.audit import words
from ncp_control.audit.certificate import Certificate, CertifiedSynapse
from ncp_control.audit.sections import by_layer
from ncp_control.base.text import shown
from ncp_control.wiring import Wiring
from ncp_control.wiring.edges import Edges

PIXELS = 96.0  # to an inch, as CSS has it
MARGIN = 6.0  # pixels around the picture
# The widths of a synapse that does not matter, and of one that can move an action nearly through its whole range.
THIN, THICK = 0.6, 6.0
FEW = 200  # where there are more synapses than that, all are drawn thinner
POINTS = 16  # of the line that draws a synapse
WIDE = 1.7  # a picture is at least so many times as wide as high, to fill the width of the page
KINDS = {"+": "rises", "-": "falls", "?": "unknown", "0": "never"}


def inputs_of(certificate: Certificate) -> list[str]:
    """Returns the names of what the circuit reads: the sensors, and anything else, such as the elapsed time."""
    sensory = [one.source for one in certificate.synapses if one.kind == "sensory"]
    return list(dict.fromkeys([*certificate.sensors, *sensory]))


def draw(certificate: Certificate) -> str:
    """Returns the wiring of a certified circuit as SVG; empty for an agent without a memory."""
    if not certificate.neurons:
        return ""
    inputs = inputs_of(certificate)
    wiring = nodes_of(certificate, len(inputs))
    width, height = natural_size(wiring, inputs)
    width = max(width, WIDE * height)
    layout = place(wiring, width, height, inputs)
    parts = [*_synapses(certificate, layout, inputs), *_inputs(inputs, layout), *_neurons(certificate, layout)]
    parts += _texts(layout)
    size = f"{-MARGIN:g} {-MARGIN:g} {width * PIXELS + 2 * MARGIN:.0f} {height * PIXELS + 2 * MARGIN:.0f}"
    about = escape(f"{len(inputs)} inputs, {len(certificate.neurons)} neurons, {len(certificate.synapses)} synapses")
    return (
        f'<svg id="wiring" viewBox="{size}" role="group" aria-label="the circuit in its layers: {about}">'
        + "\n".join(parts)
        + "</svg>"
    )


def nodes_of(certificate: Certificate, inputs: int) -> Wiring:
    """Returns a wiring with the circuit's layers and names for its layout, which does not depend on synapses."""
    layers = tuple((layer, len(group)) for layer, group in by_layer(certificate.neurons))
    units = len(certificate.neurons)
    every = Edges(np.zeros(units, dtype=int), np.arange(units), np.ones(units, dtype=int))
    none = Edges(*np.zeros((3, 0), dtype=int))
    names = tuple(f"\0{k}" for k in range(inputs))  # no neuron has such a name
    return Wiring(inputs, layers, every, none, input_names=names, neuron_names=tuple(_names(certificate)))


def thickness(synapse: CertifiedSynapse, count: int) -> float:
    """Returns how thick a synapse is drawn, by how far it can move an action; thin if nothing about that is proved.

    :param count: how many synapses the circuit has
    """
    if synapse.matters is None or words.is_vacuous(synapse.matters):
        return THIN
    return THIN + (THICK * min(1.0, math.sqrt(FEW / count)) - THIN) * math.sqrt(synapse.matters)


def _names(certificate: Certificate) -> list[str]:
    return [one.name for one in certificate.neurons]


def _synapses(certificate: Certificate, layout: Layout, inputs: Sequence[str]) -> list[str]:
    neurons, sensors = ({name: k for k, name in enumerate(names)} for names in (_names(certificate), inputs))
    every = certificate.synapses
    if not every:
        return []
    start = np.stack(
        [
            layout.inputs[sensors[synapse.source]]
            if synapse.kind == "sensory"
            else layout.neurons[neurons[synapse.source]]
            for synapse in every
        ]
    )
    end = np.stack([layout.neurons[neurons[synapse.target]] for synapse in every])
    lines = curves(start, end, layout.radius, POINTS)
    parts = ['<g id="synapses">']
    # What matters most is drawn last, above the others.
    widths = [thickness(synapse, len(every)) for synapse in every]
    for k in np.argsort(widths, kind="stable"):
        synapse = every[k]
        classes = f"synapse {KINDS.get(synapse.sign, 'unknown')} {'gap' if synapse.kind == 'gap junction' else ''}"
        idle = " idle" if synapse.condition in ("dead", "closed") else ""
        parts.append(
            f'<path data-synapse="{k}" class="{classes.strip()}{idle}" d="{_path(lines[k], layout)}" '
            f'stroke-width="{widths[k]:.2f}"/>'
        )
    return [*parts, "</g>"]


def _inputs(inputs: Sequence[str], layout: Layout) -> list[str]:
    return [
        f'<circle class="input" data-input="{k}" cx="{x:.1f}" cy="{y:.1f}" r="{layout.radius * PIXELS * 0.8:.1f}">'
        f"<title>{escape(shown(inputs[k]))}</title></circle>"
        for k, (x, y) in enumerate(_pixels(layout.inputs, layout))
    ]


def _neurons(certificate: Certificate, layout: Layout) -> list[str]:
    return [
        f'<circle class="neuron {escape(neuron.condition)}" data-neuron="{k}" tabindex="0" role="button" '
        f'aria-label="{escape(shown(neuron.name))}" cx="{x:.1f}" cy="{y:.1f}" r="{layout.radius * PIXELS:.1f}"/>'
        for k, (neuron, (x, y)) in enumerate(zip(certificate.neurons, _pixels(layout.neurons, layout), strict=True))
    ]


def _texts(layout: Layout) -> list[str]:
    anchors = {"left": "start", "right": "end", "center": "middle"}
    names = [(label.text, label.x, label.y, anchors[label.align], 7.0, "name") for label in layout.labels]
    titles = [(text, x, y, "middle", 9.0, "column") for text, x, y in layout.titles]
    parts = []
    for text, x, y, anchor, points, kind in names + titles:
        size = points * layout.scale * PIXELS / 72
        ((left, top),) = _pixels(np.array([[x, y]]), layout)
        # Text stands on its baseline, which lies about 0.35 of its size below the middle of its letters.
        inside = " inside" if anchor == "middle" and kind == "name" else ""
        parts.append(
            f'<text class="{kind}{inside}" x="{left:.1f}" y="{top + 0.35 * size:.1f}" text-anchor="{anchor}" '
            f'font-size="{size:.1f}">{escape(shown(text))}</text>'
        )
    return parts


def _pixels(points: NDArray[np.float64], layout: Layout) -> NDArray[np.float64]:
    """Returns points in pixels, with y downward."""
    return np.stack([points[:, 0], layout.height - points[:, 1]], axis=1) * PIXELS


def _path(line: NDArray[np.float64], layout: Layout) -> str:
    return "M" + " ".join(f"{x:.1f} {y:.1f}" for x, y in _pixels(line, layout))
