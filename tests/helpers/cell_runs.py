"""Runs of a circuit: by Python in float64, and by the laboratory's page."""

import base64
from typing import Any

import numpy as np
import torch

from helpers.browser_page import Page
from ncp_control.activity.recording.tap import unknown_currents
from ncp_control.base.pages import packed
from ncp_control.neurons import Cell
from ncp_control.rnn import RNN

Arrays = dict[str, np.ndarray]
STEPS = 1000
NAMES = ("states", "neurons", "outputs", "sensory", "synapses", "gaps", "constants")
# Runs the cell of `data.cells[name]` after a tuning, and returns every array of the run in base64.
RUN = """
const [name, tuning, steps] = arguments, cell = lab.makeCell(data.cells[name]);
const inputs = lab.unpacked(data.inputs), elapsed = lab.unpacked(data.elapsed), wide = inputs.length / elapsed.length;
const text = (rows) => {
  const numbers = new Float64Array(rows.flatMap((row) => [...row])), bytes = new Uint8Array(numbers.buffer);
  let found = "";
  for (let k = 0; k < bytes.length; k += 8192) found += String.fromCharCode(...bytes.subarray(k, k + 8192));
  return btoa(found);
};
if (tuning) cell.tune({ ...tuning, held: new Map(tuning.held) });
const rows = { states: [], neurons: [], outputs: [], sensory: [], synapses: [], gaps: [], constants: [] };
let state = cell.initial();
for (let k = 0; k < steps; k++) {
  const x = inputs.slice(k * wide, k * wide + cell.inputs), after = cell.step(x, state, elapsed[k]);
  for (const [what, values] of Object.entries(cell.currents(x, state, after))) rows[what].push(values);
  rows.constants.push(cell.timeConstants(x, state));
  rows.states.push(after);
  rows.neurons.push(cell.neurons(after));
  rows.outputs.push(cell.motor(after));
  state = after;
}
return Object.fromEntries(Object.entries(rows).map(([what, found]) => [what, text(found)]));
"""


def drawn_inputs(wide: int, steps: int = STEPS, seed: int = 0) -> Arrays:
    """Inputs (T, wide) that a circuit answers to, and elapsed times (T,)."""
    random = np.random.default_rng(seed)
    return {"inputs": random.normal(0, 1, (steps, wide)), "elapsed": random.uniform(0.1, 1.5, steps)}


def cells_page_data(cells: dict[str, Any], drawn: Arrays) -> dict[str, Any]:
    """The data of a page for `run_in_page`: cells by name as `cell_data` returns them, and `drawn_inputs`."""
    return {"cells": cells, **{name: packed(values) for name, values in drawn.items()}}


def run_in_page(page: Page, name: str, tuning: dict[str, Any] | None = None, steps: int = STEPS) -> Arrays:
    """What a cell does on the page, by the names of `NAMES`, each (T, n).

    :param tuning: the arguments of `tune`, with `held` as pairs
    """
    found = page.browser.execute_script(RUN, name, tuning, steps)
    return {what: np.frombuffer(base64.b64decode(text)).reshape(steps, -1) for what, text in found.items()}


@torch.no_grad()
def run_in_python(cell: Cell, drawn: Arrays, steps: int = STEPS, backend: str = "auto") -> Arrays:
    """What a cell in float64 does, as `run_in_page` returns it."""
    inputs = torch.from_numpy(drawn["inputs"][:steps, : cell.inputs].copy())
    elapsed = torch.from_numpy(drawn["elapsed"][:steps])
    outputs, _, states = RNN(cell, backend)(inputs, elapsed=elapsed, states=True)
    before = torch.cat([cell.initial_state(1), states[:-1]])
    currents = cell.currents(inputs, before, states)
    if currents is None:
        currents = unknown_currents(cell, inputs)
    constants = cell.time_constants(inputs, before)
    found = (states, cell.neurons(states), outputs, *currents, constants)
    return {name: values.numpy().reshape(steps, -1) for name, values in zip(NAMES, found, strict=True)}


def greatest_difference(one: Arrays, other: Arrays, names: tuple[str, ...] = NAMES) -> float:
    """The greatest difference of two runs, relative for numbers above 1; infinite where only one of them is NaN."""
    differences = [0.0]
    for name in names:
        a, b = one[name], other[name]
        assert a.shape == b.shape, name
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(invalid="ignore"):
            apart = np.where(same, 0.0, np.abs(a - b) / np.maximum(1.0, np.minimum(np.abs(a), np.abs(b))))
        differences.append(float(np.nan_to_num(apart, nan=np.inf, posinf=np.inf).max(initial=0.0)))
    return max(differences)
