"""Cells whose layers move one after another: which states move which."""

import numpy as np
import pytest

from helpers.audited_cells import box, grown
from helpers.cells import NCP_7
from ncp_control.base.intervals import between
from ncp_control.neurons import CfC, DualLTC
from ncp_control.neurons.layered.neuron import LayeredCell
from ncp_control.neurons.ranges import Elapsed, known_of

ONCE = Elapsed(1.0, 1.0)


@pytest.mark.parametrize("name", ["cfc-default", "dual-deep"])
def test_a_layer_reads_the_present_state_of_the_layers_before_it(name: str) -> None:
    cell = grown(name, 1.0, 0)
    known = known_of(cell, ONCE)
    slopes = known.slopes(known.outer(), box(cell.inputs, np.random.default_rng(0)))
    assert slopes is not None
    layer = [k for k, part in enumerate(cell.wiring.layers.values()) for _ in range(part.stop - part.start)]
    target, source = np.nonzero(slopes.same.size)
    assert len(target)
    assert all(layer[j] < layer[i] for i, j in zip(target, source, strict=True))
    target, source = np.nonzero(slopes.before.size)
    assert all(layer[j] >= layer[i] for i, j in zip(target, source, strict=True))


@pytest.mark.parametrize("kind", [CfC, DualLTC])
def test_only_synapses_and_the_own_state_have_slopes(kind: type[LayeredCell]) -> None:
    cell = kind(3, NCP_7)
    known = known_of(cell, ONCE)
    slopes = known.slopes(known.outer(), between(-1, 1, 3))
    assert slopes is not None
    pairs = {(source, target) for source, target, _ in cell.wiring.synapses} | {(k, k) for k in range(7)}
    found = np.argwhere((slopes.same.size + slopes.before.size) > 0)
    assert {(int(j), int(i)) for i, j in found} == pairs
    sensory = {(source, target) for source, target, _ in cell.wiring.sensory}
    assert {(int(j), int(i)) for i, j in np.argwhere(slopes.inputs.size > 0)} == sensory
