"""The circuits that a laboratory can run, as data for its page.

The effective parameters are computed here, in float64, so that the page does not have to know how a parameter is kept
positive, pruned or normalised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ncp_control.activity.laboratory.packed import packed
from ncp_control.neurons import CTGRU, LTC, Cell, CfC, DualLTC, LaggedMLP, MixedMemory
from ncp_control.neurons.affine.neuron import AffineODECell
from ncp_control.neurons.catalogue import NEURONS, row_of
from ncp_control.neurons.gated.neuron import GatedCell
from ncp_control.neurons.layered.neuron import LayeredCell
from ncp_control.neurons.ode import ODECell
from ncp_control.neurons.parameters import positive, refresh, written_class
from ncp_control.neurons.program_form import first_of_target
from ncp_control.solvers import FIXED_STEP
from ncp_control.wiring.edges import Edges

# Above these a page would take seconds for a step, or for being opened.
MOST_NUMBERS = 4_000_000
# What a subclass of MixedMemory may define, because it needs a constructor to be named in a policy.
HARMLESS = {"__init__", "config"}


@torch.no_grad()
def cell_data(cell: Cell) -> dict[str, Any]:
    """Returns a cell as JSON values for `makeCell` of `cell_base.js`.

    :param cell: a cell of this package, with any parameters; a subclass whose step can differ is refused
    """
    row = row_of(kind_of(cell))
    if row.page is None:
        known = ", ".join(row.name for row in NEURONS if row.page)
        raise ValueError(
            f"a laboratory cannot run the cell {written_class(cell).__name__}: the cells that it can run are {known}"
        )
    count = sum(parameter.numel() for parameter in cell.parameters())
    if count > MOST_NUMBERS:
        raise ValueError(
            f"the circuit has {count:,} parameters, and a laboratory runs circuits of at most {MOST_NUMBERS:,}"
        )
    refresh(cell)
    wiring = cell.wiring
    return {
        "kind": row.name,
        "inputs": cell.inputs,
        "units": cell.units,
        "outputs": cell.outputs,
        "motor": cell.motor_start,
        "stateSize": cell.state_size,
        "can": {"hold": why_not_held(cell), "cut": why_not_cut(cell), "constants": why_not_slowed(cell)},
        "sensory": edges_data(wiring.sensory, cell.units),
        "synapses": edges_data(wiring.synapses, cell.units),
        "gaps": packed(wiring.gap_junctions),
        **globals()[row.page](cell),
    }


def kind_of(cell: Cell) -> type[Cell]:
    """Returns the class whose step the cell makes."""
    kind: Any = written_class(cell)
    if isinstance(cell, MixedMemory):
        while kind is not MixedMemory and kind.__bases__ == (kind.__base__,) and not _defined(kind) - HARMLESS:
            kind = kind.__base__
    found: type[Cell] = kind
    return found


def _defined(kind: type) -> set[str]:
    """Returns the names of the methods and properties that a class itself defines."""
    return {name for name, value in vars(kind).items() if callable(value) or hasattr(value, "__get__")}


def why_not_held(cell: Cell) -> str | None:
    """Returns in a sentence why the cell's neurons cannot be held, or None if they can."""
    return _refusal(cell.check_holdable)


@torch.no_grad()
def why_not_cut(cell: Cell) -> str | None:
    """Returns in a sentence why the cell's synapses cannot be cut one by one, or None if they can."""
    return _refusal(lambda: cell.cut_synapses([], [], []))


def why_not_slowed(cell: Cell) -> str | None:
    """Returns in a sentence why the time constants of the cell's neurons cannot be changed, or None if they can."""
    if isinstance(cell, MixedMemory):
        return why_not_slowed(cell.cell)
    if cell.uses_elapsed:
        return None
    name = written_class(cell).__name__
    return f"{name} counts steps and ignores time, so its neurons have no time constants to change"


def _refusal(attempt: Callable[[], None]) -> str | None:
    try:
        attempt()
    except ValueError as error:
        return str(error)
    return None


def edges_data(edges: Edges, units: int) -> dict[str, Any]:
    """Returns synapses in the wiring's order, by target; those into neuron j are start[j] .. start[j + 1]."""
    return {
        "source": packed(edges.source),
        "target": packed(edges.target),
        "start": packed(first_of_target(edges.target, units)),
    }


def exact(values: Any) -> torch.Tensor:
    """Returns a tensor's values in float64."""
    found: torch.Tensor = values.detach().to("cpu", torch.float64)
    return found


def numbers(values: Any) -> dict[str, str] | None:
    """Returns a parameter packed; None for one that the cell does without."""
    return None if values is None else packed(exact(values))


def solver_data(cell: ODECell) -> dict[str, Any]:
    """Returns how an ODE cell is solved; refuses a solver that chooses its own steps."""
    name = written_class(cell).__name__
    if cell.solver not in FIXED_STEP:
        raise ValueError(
            f"a laboratory cannot run {name} with the solver {cell.solver!r}, which chooses its own steps: "
            f"give it one with {', '.join(FIXED_STEP[:-1])} or {FIXED_STEP[-1]}"
        )
    return {"solver": cell.solver, "unfolds": cell.unfolds}


def ltc_data(cell: LTC) -> dict[str, Any]:
    """Returns the conductances, thresholds and maps of an LTC."""
    computed = () if cell.kept_range is None else ("gleak", "cm")  # from other parameters
    raw = [name for name in ("gleak", "cm", "w", "sensory_w", "gap") if name not in computed]
    plain = ("vleak", "mu", "sigma", "E", "sensory_mu", "sensory_sigma", "sensory_E")
    maps = ("input_scale", "input_shift", "output_scale", "output_shift")
    return {
        **solver_data(cell),
        **{name: packed(positive(exact(getattr(cell, f"{name}_raw")))) for name in raw},
        **{name: numbers(getattr(cell, name)) for name in (*computed, *plain, *maps)},
    }


def affine_data(cell: AffineODECell) -> dict[str, Any]:
    """Returns the weights of a NeuralLTC, a CTRNN or a NeuralODE, and the leak `1 / tau`, which is 0 without one."""
    raw = cell.raw_tau()
    leak = torch.zeros(cell.units) if raw is None else 1 / positive(exact(raw))
    return {
        **solver_data(cell),
        "activation": cell.activation,
        "liquid": cell.liquid,
        "signed": cell.signed,
        "leak": packed(leak.double()),
        **{name: numbers(getattr(cell, name)) for name in ("gamma", "gamma_r", "mu", "A")},
    }


def layered_data(cell: LayeredCell) -> dict[str, Any]:
    """Returns the maps of a cell that updates layer by layer: a row of H weights for each synapse or neuron."""
    return {
        "maps": cell.maps,
        "bias": packed(exact(cell.bias).T),
        "layers": packed([part.start for part in cell.parts] + [cell.units]),
        "places": packed(np.asarray(cell.places(), dtype=np.int64)),
        # the synapses that the maps have, sorted by target
        "source": packed(cell.index_arrays["source"]),
        "start": packed(cell.index_arrays["start"]),
        "weight": packed(exact(cell.weight).T),
        "sensory_weight": packed(exact(cell.sensory_weight).T),
    }


def cfc_data(cell: CfC) -> dict[str, Any]:
    """Returns the maps of a CfC, or the layers of its backbone, and its mode."""
    found = {
        "mode": cell.mode,
        "w_tau": None if cell.w_tau is None else packed(exact(cell.w_tau).abs()),
        "A": numbers(cell.A),
    }
    if not cell.backbone_widths:
        return {**found, **layered_data(cell)}
    layers = [layer_data(layer) for layer in cell.backbone.children()]
    head = exact(cell.get_parameter("head")).view(cell.maps, cell.units, -1).transpose(0, 1)
    return {
        **found, "maps": cell.maps, "bias": packed(exact(cell.bias).T), "backbone": layers, "head": packed(head),
    }  # fmt: skip


def dual_data(cell: DualLTC) -> dict[str, Any]:
    """Returns the maps of a DualLTC, its brakes, and the ends of the logarithms of its time constants."""
    raw = cell.brake_raw
    return {
        **layered_data(cell),
        "brake": None if raw is None else packed(cell.strongest_brake * torch.sigmoid(exact(raw))),
        "logTau": packed(cell.index_arrays["log_tau"]),
    }


def gated_data(cell: GatedCell) -> dict[str, Any]:
    """Returns the matrices and the biases of an LSTM or a GRU."""
    return {name: numbers(getattr(cell, name)) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}


def ct_gru_data(cell: CTGRU) -> dict[str, Any]:
    """Returns the time scales and the three maps of a CT-GRU."""
    tau = 10 ** (np.arange(cell.scales) / 2)
    layers = {name: layer_data(getattr(cell, name)) for name in ("retrieve", "detect", "store")}
    return {"tau": packed(tau), "logTau": packed(np.log(tau)), **layers}


def lagged_data(cell: LaggedMLP) -> dict[str, Any]:
    """Returns the layer of a LaggedMLP."""
    return {"lags": cell.lags, "hidden": layer_data(cell.hidden)}


def mixed_data(cell: MixedMemory) -> dict[str, Any]:
    """Returns the LSTM of a MixedMemory, and the cell behind it."""
    names = ("input_weight", "input_bias", "recurrent_weight")
    return {"inner": cell_data(cell.cell), **{name: numbers(getattr(cell, name)) for name in names}}


def layer_data(layer: Any) -> dict[str, Any]:
    """Returns a linear layer, (rows, columns)."""
    rows, columns = layer.weight.shape
    return {"rows": rows, "columns": columns, "weight": numbers(layer.weight), "bias": numbers(layer.bias)}
