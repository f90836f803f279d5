"""The tables of synapses that the Triton kernels read."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import ncp_control as nc
from helpers.cells import build, compiled
from ncp_control.ops.gpu import launch
from ncp_control.ops.gpu.tables import power_of_two, tables_of

LARGE = {kind.__name__: kind(17, nc.AutoNCP(40, 9)) for kind in (nc.LTC, nc.CTRNN, nc.CfC, nc.DualLTC)}


@pytest.mark.parametrize("name", ["ltc-gaps-quick", "neural-ltc-quick", "cfc-default"])
def test_an_index_that_is_changed_in_place_is_read_again(name: str, interpreted: None) -> None:
    cell = build(name)
    inputs = torch.randn(2, 2, cell.inputs)
    before = nc.scan(cell, inputs, backend="gpu")
    source = cell.program().indexes[3]
    source.copy_((source + 1) % cell.inputs)
    wanted, found = (nc.scan(cell, inputs, backend=backend) for backend in ("reference", "gpu"))
    assert (wanted - before).abs().max() > 1e-3
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("name", [*compiled(launch.kinds(), wide=False), *LARGE])
def test_tables_hold_every_synapse_once_under_its_owner(name):
    cell = LARGE[name] if name in LARGE else build(name)
    program = cell.program()
    found = tables_of(program, cell.inputs, cell.units)
    assert tables_of(program, cell.inputs, cell.units) is found
    start, source, sensory_start, sensory_source = (index.numpy() for index in program.indexes[:4])
    target = np.repeat(np.arange(cell.units), np.diff(start))
    sensory_target = np.repeat(np.arange(cell.units), np.diff(sensory_start))
    old, new = np.flatnonzero(source < cell.units), np.flatnonzero(source >= cell.units)
    source = source % cell.units
    sensory = np.arange(len(sensory_source))
    expected = [
        (sensory, sensory_target, sensory_source, cell.units),
        (old, target[old], source[old], cell.units),
        (old, source[old], target[old], cell.units),
        (sensory, sensory_source, sensory_target, cell.inputs),
    ]
    if program.kind == "ltc":
        ends = program.indexes[4].numpy().reshape(-1, 2)
        expected.append((np.arange(2 * len(ends)), ends.T.ravel(), ends[:, ::-1].T.ravel(), cell.units))
    if program.kind in ("cfc", "dual"):
        expected += [(new, target[new], source[new], cell.units), (new, source[new], target[new], cell.units)]
    for (at, deep, wide, parts), (edges, owners, others, count) in zip(found.shapes, expected, strict=True):
        numbers = found.numbers[at:].numpy()
        edge, other = numbers[: 2 * deep * wide].reshape(2, deep, wide)
        owner, first, columns = np.split(
            numbers[2 * deep * wide : 2 * deep * wide + wide + 2 * power_of_two(count)],
            [wide, wide + power_of_two(count)],
        )
        there = edge >= 0
        order = np.argsort(edge[there])
        assert np.array_equal(edge[there][order], edges)
        assert np.array_equal(other[there][order], others)
        assert np.array_equal(np.broadcast_to(owner, edge.shape)[there][order], owners)
        assert 0 <= other.min() <= other.max() < max(cell.units, cell.inputs)
        if parts:
            assert columns.max() <= parts
            for j in range(count):
                assert (owner[first[j] : first[j] + columns[j]] == j).all()
        else:
            assert (owner[:count] == np.arange(count)).all()
