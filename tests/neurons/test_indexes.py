"""A cell's index tensors are right after every way that its parameters can go."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

import ncp_control as nc
from helpers.cells import ZOO, build

CELLS = ["ltc-gaps", "neural-ltc-rk4", "cfc-no_gate", "mixed-cfc", "gru"]


@pytest.fixture
def nonsense() -> Iterator[None]:
    """Fills uninitialised memory with the largest whole numbers."""
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    yield
    torch.use_deterministic_algorithms(False)


def by_the_meta_device(cell: nc.Cell, name: str) -> nc.Cell:
    kept = cell.state_dict()
    cell.to("meta").to_empty(device="cpu").load_state_dict(kept)
    return cell


def made_on_the_meta_device(cell: nc.Cell, name: str) -> nc.Cell:
    with torch.device("meta"):
        made = ZOO[name]()
    made.to_empty(device="cpu").load_state_dict(cell.state_dict())
    return made


def parameters_put_in(cell: nc.Cell, name: str) -> nc.Cell:
    with torch.device("meta"):
        made = ZOO[name]()
    made.load_state_dict(cell.state_dict(), assign=True)
    return made


WAYS: dict[str, Callable[[nc.Cell, str], nc.Cell]] = {
    "to meta and to_empty": by_the_meta_device,
    "made on meta": made_on_the_meta_device,
    "made on meta, then assigned": parameters_put_in,
    "type": lambda cell, name: cell.type(torch.float64).type(torch.float32),
    "double": lambda cell, name: cell.double().float(),
    "share_memory": lambda cell, name: cell.share_memory(),
}


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("way", WAYS)
def test_the_states_are_the_same_after_every_way(way: str, name: str, nonsense: None) -> None:
    inputs = torch.randn(2, 3, build(name).inputs)
    want = nc.scan(build(name), inputs)
    found = WAYS[way](build(name), name)
    assert torch.equal(nc.scan(found, inputs), want)
    assert torch.equal(
        found.step(inputs[:, 0], torch.zeros(2, found.state_size)),
        build(name).step(inputs[:, 0], torch.zeros(2, found.state_size)),
    )


@pytest.mark.parametrize("name", CELLS)
def test_no_cast_reaches_the_indexes(name: str) -> None:
    for cast in (torch.float64, torch.float16, torch.bfloat16):
        cell = build(name).type(cast)
        assert {buffer.dtype for buffer in cell.buffers()} <= {torch.int64}
        assert nc.scan(cell, torch.randn(2, 3, cell.inputs)).dtype == cast


def test_indexes_that_lead_out_of_the_circuit_are_refused() -> None:
    cell, inputs = build("ltc-gaps"), torch.randn(2, 3, 3)
    nc.scan(cell, inputs)
    cell.source.fill_(10**9)
    for backend in ("auto", "cpu"):
        with pytest.raises(RuntimeError, match="the cell's source has values that no wiring of this size has"):
            nc.scan(cell, inputs, backend=backend)
    cell = build("ltc-gaps")
    cell.start = cell.start.flip(0)
    with pytest.raises(RuntimeError, match="the cell's start has values that no wiring of this size has"):
        nc.scan(cell, inputs, backend="cpu")
    cell = build("ltc-gaps")
    cell.gap_ends = cell.gap_ends.double()
    with pytest.raises(RuntimeError, match=r"the cell's gap_ends is in torch.float64, but indexes are in torch.int64"):
        nc.scan(cell, inputs)
