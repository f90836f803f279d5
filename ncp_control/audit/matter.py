"""How much every synapse and every neuron can matter, and which of them never do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ncp_control.audit.certificate import CertifiedSynapse
from ncp_control.audit.differences import Differences
from ncp_control.audit.examining import Examined
from ncp_control.audit.intervals import Array, Interval
from ncp_control.audit.reach import reaching
from ncp_control.cells import LTC, Cell

NEGLIGIBLE = 1e-7  # a source that moves its target by less than this share of the target's range counts as none
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
    gaps = wiring.gap_junctions if isinstance(cell, LTC) else wiring.gap_junctions[:0]
    kinds = ["sensory"] * len(wiring.sensory) + ["synapse"] * len(wiring.synapses) + ["gap junction"] * len(gaps)
    source = np.concatenate([wiring.sensory.source, wiring.synapses.source, gaps[:, 0]])
    return Links(kinds, source, np.concatenate([wiring.sensory.target, wiring.synapses.target, gaps[:, 1]]))


def carried(seen: Examined, links: Links) -> tuple[Interval, Array]:
    """Returns the derivative of each synapse's target by its source, and the width of what the source can be, (S,)."""
    assert seen.slopes is not None
    sensory = np.array([kind == "sensory" for kind in links.kind])
    inner = np.where(sensory, 0, links.source)
    among = [
        same[links.target, inner] + before[links.target, inner]
        for same, before in zip(seen.slopes.same, seen.slopes.before, strict=True)
    ]
    outer = np.where(sensory, links.source, 0)
    slopes = [
        np.where(sensory, inputs[links.target, outer], one)
        for inputs, one in zip(seen.slopes.inputs, among, strict=True)
    ]
    width = np.where(sensory, seen.features.width[outer], seen.states.width[inner])
    return Interval(*slopes), width


def matters(differences: Differences, pushed: Array, directly: Array, ranges: Array) -> list[float]:
    """Returns how far pushes move any action at most, as shares of the actions' ranges, (K,).

    :param pushed: how far each moves the state in a solver step, (N, K)
    :param directly: how far each moves the actions without the circuit, (A, K)
    :param ranges: the actions' ranges, (A,)
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = differences.within @ np.where(np.isfinite(pushed), pushed, 0.0)
        # An endless push reaches everything behind it, and 0 times infinity would be NaN.
        spread = np.where((differences.within > 0) @ ~np.isfinite(pushed), np.inf, spread)
        moved = differences.moved(differences.always(spread)) + directly
        shares = (moved / ranges[:, None]).max(axis=0)
    return [float(min(share, 1.0)) for share in np.nan_to_num(shares, nan=1.0)]


def certify_synapses(seen: Examined) -> tuple[CertifiedSynapse, ...]:
    """Returns what is certified about every synapse."""
    assert seen.known is not None
    cell, known = seen.known.cell, seen.known
    links, wiring = links_of(cell), seen.known.cell.wiring
    sensors, count = (*seen.controller.sensors, "elapsed time"), len(links.kind)
    signs, conditions = ["?"] * count, ["active"] * count
    shares: list[float | None] = [None] * count
    openness = known.openness(seen.states, seen.features)
    if seen.slopes is not None and known.size == known.units:
        slope, width = carried(seen, links)
        differences = seen.differences
        useful = np.any(reaching(seen.slopes, seen.gain.size > 0), axis=0)
        assert differences is not None
        pushes = np.zeros((known.size, count))
        with np.errstate(invalid="ignore"):
            pushes[links.target, np.arange(count)] = np.nan_to_num(slope.size * width, nan=np.inf)
        found = matters(differences, pushes, np.zeros((len(seen.ranges), count)), seen.ranges)
        for k in range(count):
            idle = slope.size[k] == 0 or slope.size[k] * width[k] <= NEGLIGIBLE * seen.states.width[links.target[k]]
            signs[k] = "0" if idle else "+" if slope.low[k] >= 0 else "-" if slope.high[k] <= 0 else "?"
            is_dead = idle or not useful[links.target[k]] or width[k] == 0
            shares[k] = 0.0 if is_dead else found[k]
            conditions[k] = "dead" if is_dead else "active"
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
    """Returns how far each neuron can move any action, as a share of its range; None where it is not shown."""
    assert seen.known is not None
    differences, n = seen.differences, seen.known.units
    if differences is None or seen.slopes is None or seen.known.size != n:
        return [None] * n
    among = seen.slopes.before.size + seen.slopes.same.size
    np.fill_diagonal(among, 0.0)
    with np.errstate(invalid="ignore"):
        pushes = np.nan_to_num(among * seen.states.width, nan=np.inf)
        directly = np.nan_to_num(differences.G * seen.states.width, nan=np.inf)
    return list(matters(differences, pushes, directly, seen.ranges))
