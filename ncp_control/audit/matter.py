"""How much every synapse and every neuron can matter, and which of them never do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ncp_control.audit.certificate import CertifiedSynapse
from ncp_control.audit.differences import Differences, product_up
from ncp_control.audit.examining import Examined
from ncp_control.base.intervals import Array, Interval, product
from ncp_control.neurons import Cell

NEGLIGIBLE = 1e-7  # near what float32 resolves: what moves a range by less than this share, however long, moves nothing
ALMOST = 0.01  # a synapse that opens less far than this is closed, and one that closes less far is open


@dataclass(frozen=True, eq=False)
class Links:
    """Every synapse of a circuit: sensory ones, then the others, then gap junctions.

    :param kind: "sensory", "synapse" or "gap junction"
    :param source: the number of the input or of the neuron
    :param target: the number of the neuron
    """

    kind: list[str]
    source: NDArray[np.int64]
    target: NDArray[np.int64]


def links_of(cell: Cell) -> Links:
    """Returns the synapses of a cell, and the gap junctions of a cell that uses them."""
    wiring = cell.wiring
    gaps = wiring.gap_junctions if cell.uses_gap_junctions else wiring.gap_junctions[:0]
    kinds = ["sensory"] * len(wiring.sensory) + ["synapse"] * len(wiring.synapses) + ["gap junction"] * len(gaps)
    source = np.concatenate([wiring.sensory.source, wiring.synapses.source, gaps[:, 0]])
    return Links(kinds, source, np.concatenate([wiring.sensory.target, wiring.synapses.target, gaps[:, 1]]))


def carried(seen: Examined, links: Links) -> tuple[Interval, Array]:
    """Returns the derivative of each synapse's target by its source, and the width of the source's range, (S,)."""
    assert seen.held is not None
    sensory = np.array([kind == "sensory" for kind in links.kind])
    inner = np.where(sensory, 0, links.source)  # here and below, index 0 fills the place of sources of the other kind
    among = [
        same[links.target, inner] + before[links.target, inner]
        for same, before in zip(seen.held.same, seen.held.before, strict=True)
    ]
    outer = np.where(sensory, links.source, 0)
    slopes = [
        np.where(sensory, inputs[links.target, outer], by_neurons)
        for inputs, by_neurons in zip(seen.held.inputs, among, strict=True)
    ]
    width = np.where(sensory, seen.features.width[outer], seen.states.width[inner])
    return Interval(*slopes), width


def spread(differences: Differences, pushed: Array) -> Array:
    """Returns how far pushes of every solver step move the state at most, (N, K).

    A slow neuron adds up what pushes it over all the steps that it remembers.

    :param pushed: how far each of K pushes moves the state in a solver step, (N, K)
    """
    return differences.always(product_up(differences.within, pushed))


def shares_of(moved: Array, ranges: Array) -> list[float | None]:
    """Returns the greatest share of an action's range by which each push moves it; None if the range has no end.

    :param moved: how far each of K pushes moves the actions, (A, K)
    :param ranges: the actions' ranges, (A,)
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = np.where(moved == 0, 0.0, moved / np.where(np.isfinite(ranges), ranges, np.nan)[:, None])
    return [None if np.isnan(share) else float(min(share, 1.0)) for share in shares.max(axis=0)]


def certify_synapses(seen: Examined) -> tuple[CertifiedSynapse, ...]:
    """Returns what is certified about every synapse."""
    assert seen.known is not None
    cell, known = seen.known.cell, seen.known
    links, wiring = links_of(cell), seen.known.cell.wiring
    sensors, count = (*seen.controller.sensors, "elapsed time"), len(links.kind)
    signs, conditions = ["?"] * count, ["active"] * count
    shares: list[float | None] = [None] * count
    openness = known.openness(seen.states, seen.features)
    if seen.held is not None and known.has_neurons:
        slope, width = carried(seen, links)
        differences = seen.held_differences
        assert differences is not None
        pushes = np.zeros((known.size, count))
        pushes[links.target, np.arange(count)] = product(slope.size, width)
        moved = spread(differences, pushes)
        shares = shares_of(differences.moved(moved), seen.ranges)
        ranges = np.where(np.isfinite(seen.states.width), seen.states.width, 0.0)
        idle = moved[links.target, np.arange(count)] <= NEGLIGIBLE * ranges[links.target]
        for k, share in enumerate(shares):
            signs[k] = "0" if idle[k] else "+" if slope.low[k] >= 0 else "-" if slope.high[k] <= 0 else "?"
            conditions[k] = "active" if share is None or share > NEGLIGIBLE else "dead"
    if openness is not None:
        for k, (low, high) in enumerate(zip(*openness, strict=True)):
            if conditions[k] == "active" and (high < ALMOST or low > 1 - ALMOST):
                conditions[k] = "closed" if high < ALMOST else "open"
    return tuple(
        CertifiedSynapse(
            source=(sensors if kind == "sensory" else wiring.neuron_names)[links.source[k]],
            target=wiring.neuron_names[links.target[k]],
            kind=kind,
            sign=signs[k],
            condition=conditions[k],
            matters=shares[k],
        )
        for k, kind in enumerate(links.kind)
    )


def neurons_matter(seen: Examined) -> list[float | None]:
    """Returns how far each neuron can move any action, as a share of its range; None if it is not proved."""
    assert seen.known is not None
    differences, n = seen.held_differences, seen.known.units
    if differences is None or seen.held is None or not seen.known.has_neurons:
        return [None] * n
    among = seen.held.before.size + seen.held.same.size
    np.fill_diagonal(among, 0.0)  # a neuron that moves through its range is no longer pushed by itself
    width = seen.states.width
    # The actions read motor neurons themselves, besides what these pass on.
    directly = product(differences.G, width)
    return shares_of(differences.moved(spread(differences, product(among, width))) + directly, seen.ranges)
