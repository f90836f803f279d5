"""One NaN or infinity in inputs, state or elapsed stays in its row, and on the paths of the wiring."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import ncp_control as nc
from helpers.cells import REPRESENTATIVES, build, kept, names
from ncp_control.neurons import MixedMemory
from ncp_control.neurons.gated.neuron import GatedCell
from ncp_control.ops import explain_backends

BAD = (math.nan, math.inf, -math.inf)
ROWS, STEPS, ROW, STEP = 5, 4, 2, 1  # the bad value is in row 2, at step 1 of 0 .. 3
OTHERS = [row for row in range(ROWS) if row != ROW]


def cells(sparse: bool = False) -> list[str]:
    """Names of cells; with `sparse` only where a neuron can be without a path."""
    dense = (GatedCell, nc.CTGRU, MixedMemory)
    return [name for name in names(exact=True) if not (sparse and isinstance(kept(name), dense))]


def backends(cell: nc.Cell) -> list[str]:
    return [name for name, (able, _) in explain_backends(cell, torch.zeros(1, 1, cell.inputs)).items() if able]


def problem(cell: nc.Cell) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(3)
    return {
        "inputs": torch.randn(ROWS, STEPS, cell.inputs, generator=generator),
        "state": torch.rand(ROWS, cell.state_size, generator=generator) - 0.5,
        "elapsed": torch.rand(ROWS, STEPS, generator=generator) * 0.2 + 0.1,
    }


def spoilt(given: dict[str, Tensor], name: str, place: tuple[int, ...], value: float) -> dict[str, Tensor]:
    changed = {key: tensor.clone() for key, tensor in given.items()}
    changed[name][place] = value
    return changed


def reached(cell: nc.Cell, first: set[int]) -> set[int]:
    """The neurons that synapses and gap junctions join to some neurons, in any number of steps."""
    wiring, found = cell.wiring, set(first)
    ways = [(source, target) for source, target, _ in wiring.synapses]
    ways += [pair for one, other in wiring.gap_junctions.tolist() for pair in ((one, other), (other, one))]
    while any(source in found and target not in found for source, target in ways):
        found |= {target for source, target in ways if source in found}
    return found


@pytest.mark.parametrize("name", cells(sparse=True))
def test_only_neurons_with_a_path_from_a_bad_value_see_it_and_the_backends_agree(name: str) -> None:
    cell = build(name)
    given = problem(cell)
    clean = nc.scan(cell, **given, backend="reference")
    heard = [{t for s, t, _ in cell.wiring.sensory if s == feature} for feature in range(cell.inputs)]
    places = [("inputs", (ROW, STEP, feature), first) for feature, first in enumerate(heard)]
    if cell.state_size == cell.units:
        places += [("state", (ROW, neuron), {neuron}) for neuron in range(cell.units)]
    for which, place, first in places:
        away = sorted(set(range(cell.units)) - reached(cell, first))
        for value in BAD:
            changed = spoilt(given, which, place, value)
            reference = nc.scan(cell, **changed, backend="reference")
            for backend in backends(cell):
                states = nc.scan(cell, **changed, backend=backend)
                torch.testing.assert_close(states[OTHERS], clean[OTHERS])
                neurons = states if cell.state_size == cell.units else cell.neurons(states)
                wanted = clean if cell.state_size == cell.units else cell.neurons(clean)
                torch.testing.assert_close(neurons[ROW][:, away], wanted[ROW][:, away])
                torch.testing.assert_close(states, reference, equal_nan=True)


@pytest.mark.parametrize("name", cells())
def test_a_bad_row_changes_no_other_row_and_none_of_its_gradients(name: str) -> None:
    cell = build(name)
    given = problem(cell)
    for which, place in (("inputs", (ROW, STEP, 0)), ("state", (ROW, 0)), ("elapsed", (ROW, STEP))):
        for backend in backends(cell):
            for rows in (slice(None), slice(ROW, None)):  # the bad row in the middle of a block of rows, and first
                found = []
                for value in (0.25, math.nan, math.inf):
                    changed = {
                        key: each[rows].requires_grad_() for key, each in spoilt(given, which, place, value).items()
                    }
                    states = nc.scan(cell, **changed, backend=backend)
                    grads = torch.autograd.grad(states.sum(), list(changed.values()), materialize_grads=True)
                    others = OTHERS if rows == slice(None) else slice(1, None)
                    found.append([tensor[others] for tensor in (states, *grads)])
                for clean, *bad in zip(*found, strict=True):
                    for each in bad:
                        torch.testing.assert_close(each, clean, rtol=0, atol=0)


@pytest.mark.parametrize("name", cells())
def test_a_reset_and_a_mask_end_a_bad_value(name: str) -> None:
    cell = build(name)
    given = problem(cell)
    first = torch.zeros(ROWS, STEPS, dtype=torch.bool)
    first[:, 0] = True
    again, mask = first.clone(), torch.ones(ROWS, STEPS, dtype=torch.bool)
    again[ROW, STEP + 1] = True
    mask[ROW, STEP] = False
    for value in BAD:
        for backend in backends(cell):
            changed = spoilt(spoilt(given, "inputs", (ROW, STEP, 0), value), "state", (ROW, 0), value)
            states = nc.scan(cell, **changed, reset=again, backend=backend)
            assert states[ROW, STEP + 1 :].isfinite().all()
            changed = spoilt(changed, "elapsed", (ROW, STEP), value)
            states = nc.scan(cell, **changed, reset=first, mask=mask, backend=backend)
            clean = nc.scan(cell, **given, reset=first, mask=mask, backend=backend)
            torch.testing.assert_close(states, clean, rtol=0, atol=0)
            for key in ("inputs", "elapsed"):
                changed[key].requires_grad_()
            parameters = [each for each in cell.parameters() if each.requires_grad]
            states = nc.scan(cell, **changed, reset=first, mask=mask, backend=backend)
            wanted = [changed["inputs"], changed["elapsed"], *parameters]
            for grad in torch.autograd.grad(states.sum(), wanted, materialize_grads=True):
                assert grad.isfinite().all()


def test_the_cells_of_the_fast_tier_are_of_every_kind() -> None:
    assert {type(kept(name)) for name in REPRESENTATIVES} == {type(kept(name)) for name in names(exact=True)}
