"""Cells of Python that are tuned as `tune` of the laboratory's page tunes them, by changed parameters or times."""

import copy
from typing import Any

import numpy as np
import torch

from helpers.cell_runs import Arrays
from ncp_control.distil.smaller import places_of, strengths
from ncp_control.neurons import LTC, Cell, CfC, DualLTC, LaggedMLP, MixedMemory
from ncp_control.neurons.gated.neuron import GatedCell
from ncp_control.neurons.parameters import raw_of

Factors = dict[str, list[float]]
CHOICES = (1.0, 0.5, 1.7, -1.0, -0.4)  # as it was, weaker, stronger, flipped, flipped and weaker


def drawn_factors(cell: Cell, seed: int = 0) -> Factors:
    """A factor for each synapse of a cell, none of them 0; without sign for gap junctions."""
    random, wiring = np.random.default_rng(seed), cell.wiring
    counts = {"sensory": len(wiring.sensory), "synapses": len(wiring.synapses), "gaps": len(wiring.gap_junctions)}
    found = {name: random.choice(CHOICES, count).tolist() for name, count in counts.items()}
    return {**found, "gaps": [abs(factor) for factor in found["gaps"]]}


@torch.no_grad()
def with_factors(cell: Cell, factors: Factors) -> Cell:
    """A copy of a cell with scaled and flipped synapses."""
    found: Any = copy.deepcopy(cell)
    sensory, synapses, gaps = (
        torch.tensor(factors[name], dtype=torch.float64) for name in ("sensory", "synapses", "gaps")
    )
    if isinstance(cell, LTC):
        for raw, by in ((found.w_raw, synapses), (found.sensory_w_raw, sensory), (found.gap_raw, gaps)):
            raw.copy_(raw_of((torch.nn.functional.softplus(raw) + 1e-8) * by.abs()))
        found.E *= synapses.sign()
        found.sensory_E *= sensory.sign()
    elif "synapses" in cell.belongs:
        for weight, places, by in zip(strengths(found), places_of(found), (sensory, synapses), strict=True):
            weight[..., places] *= by
    elif isinstance(cell, GatedCell | LaggedMLP):
        for k, (source, target, _) in enumerate(cell.wiring.sensory):
            if isinstance(cell, LaggedMLP):
                found.hidden.weight[target, source :: cell.inputs] *= sensory[k]
            else:
                found.weight_ih[target :: cell.units, source] *= sensory[k]
        for k, (source, target, _) in enumerate(cell.wiring.synapses):
            found.weight_hh[target :: cell.units, source] *= synapses[k]
    else:
        raise TypeError(f"{type(cell).__name__} has no synapses to scale")
    return found


@torch.no_grad()
def run_slowed(cell: Cell, drawn: Arrays, steps: int, factors: list[float]) -> Arrays:
    """What a cell does in which neuron j is slower by factor j: the time that it sees is shorter by the factor.

    :return: `states`, (T, N), and `constants`, (T, units), as `run_in_page` returns them
    """
    cell = copy.deepcopy(cell)
    by = torch.tensor(factors, dtype=torch.float64)
    inner: Any = cell.cell if isinstance(cell, MixedMemory) else cell
    in_layers = isinstance(inner, CfC | DualLTC)
    if in_layers:  # it divides the time by itself, because each layer reads a part of it
        combine = inner._combine
        inner._combine = lambda maps, elapsed, part, before: combine(maps, elapsed / by[part], part, before)
    state, states, constants = cell.initial_state(1), [], []
    for inputs, elapsed in zip(drawn["inputs"][:steps, : cell.inputs], drawn["elapsed"], strict=False):
        row = torch.from_numpy(inputs.copy())[None]
        constants.append(cell.time_constants(row, state)[0] * by)
        time = float(elapsed) if in_layers else (float(elapsed) / by)[None]
        state = cell.step(row, state, time)
        states.append(state[0])
    return {"states": torch.stack(states).numpy(), "constants": torch.stack(constants).numpy()}
