"""Reads models of the `ncps` package into networks of this one, with the same weights; `ncps` is not imported.

Neurons are reordered as here (inter, command, motor). The network computes exactly what `ncps` computes, mistakes
included. The time gates of a wired CfC ignore the wiring there, so it is really dense between neighbouring layers and
inside each layer, and the network that is read is just as dense.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ncp_control.neurons import LTC, Cell, CfC, MixedMemory
from ncp_control.neurons.parameters import positive, raw_of
from ncp_control.rnn import RNN
from ncp_control.wiring import Wiring


def from_ncps(module: Any) -> RNN:
    """Converts an `ncps.torch.LTC` or `ncps.torch.CfC` into an `RNN` with the same weights.

    Outputs and gradients are the same; the neurons of the state are in the order inter, command, motor. To read a saved
    state dict, load it into the `ncps` module first.

    :param module: the `ncps` module
    """
    kind = type(module).__name__
    if not type(module).__module__.startswith("ncps") or kind not in ("LTC", "CfC"):
        raise TypeError(f"from_ncps reads ncps.torch.LTC and ncps.torch.CfC, got {type(module).__name__}")
    _check_settings(module)
    # a new cell draws weights, only to lose them, which must not change the random numbers of the caller
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        cell: Cell = _ltc(module) if kind == "LTC" else _cfc(module)
        if module.use_mixed:
            cell = _mixed(cell, module.lstm, neuron_order(module.rnn_cell._wiring) if kind == "LTC" else None)
    return RNN(cell.to(next(module.parameters()).device))


def _check_settings(module: Any) -> None:
    """Refuses settings of an `ncps` module that an `RNN` does not have, and says how to do without them."""
    if not module.batch_first:
        raise ValueError(
            "this ncps module has batch_first=False, and an RNN always takes inputs (batch, time, features): set "
            "module.batch_first = True before you read it, and give the RNN inputs.transpose(0, 1)"
        )
    if not module.return_sequences:
        raise ValueError(
            "this ncps module has return_sequences=False, and an RNN always returns the outputs of all steps: set "
            "module.return_sequences = True before you read it, and take outputs[:, -1]"
        )
    dropped = [layer.p for layer in module.modules() if isinstance(layer, nn.Dropout)]
    if module.training and any(dropped):
        raise ValueError(
            f"this ncps module drops out {max(dropped):g} of its backbone while it trains, which an RNN does not do: "
            "call module.eval() before you read it"
        )


def neuron_order(wiring: Any) -> np.ndarray:
    """Returns which neuron of a built `ncps` wiring each of our neurons is: for an LTC, `ours = theirs[:, order]`."""
    if wiring.num_layers > 1:
        return np.concatenate([np.asarray(wiring.get_neurons_of_layer(layer)) for layer in range(wiring.num_layers)])
    motor = np.arange(wiring.output_dim)  # the first neurons there, and the last ones here
    return np.concatenate([np.arange(wiring.output_dim, wiring.units), motor])


def read_wiring(wiring: Any) -> Wiring:
    """Converts a built `ncps` wiring into a `Wiring`."""
    order = neuron_order(wiring)
    return _wiring_of(
        wiring,
        np.asarray(wiring.sensory_adjacency_matrix)[:, order],
        np.asarray(wiring.adjacency_matrix)[np.ix_(order, order)],
    )


def _wiring_of(wiring: Any, sensory: np.ndarray, recurrent: np.ndarray) -> Wiring:
    """Makes a `Wiring` from signed adjacency matrices in our order of neurons, with the layers of the `ncps` wiring."""
    sizes = [len(wiring.get_neurons_of_layer(layer)) for layer in range(wiring.num_layers)]
    motor = wiring.output_dim
    if len(sizes) == 1:
        sizes = [size for size in (wiring.units - motor, motor) if size]
    layers: dict[str, Any] = {"motor": sizes[-1]}
    if len(sizes) == 2:
        layers["inter"] = sizes[0]
    elif len(sizes) > 2:
        layers["command"] = sizes[-2]
        layers["inter"] = sizes[0] if len(sizes) == 3 else sizes[:-2]
    return Wiring.from_edges(wiring.input_dim, sensory=_edges(sensory), synapses=_edges(recurrent), **layers)


def _edges(signs: np.ndarray) -> list[tuple[int, int, int]]:
    return [(int(i), int(j), int(np.sign(signs[i, j]))) for i, j in zip(*np.nonzero(signs), strict=True)]


def _ltc(module: Any) -> LTC:
    theirs = module.rnn_cell
    their_order = neuron_order(theirs._wiring)
    order = torch.as_tensor(their_order)
    sensory_signs = _signs(theirs.sensory_sparsity_mask, theirs._wiring.sensory_adjacency_matrix, theirs.sensory_erev)
    signs = _signs(theirs.sparsity_mask, theirs._wiring.adjacency_matrix, theirs.erev)
    wiring = _wiring_of(theirs._wiring, sensory_signs[:, their_order], signs[np.ix_(their_order, their_order)])
    cell = LTC(
        wiring.inputs,
        wiring,
        unfolds=theirs._ode_unfolds,
        input_map=theirs._input_mapping or "none",
        output_map=theirs._output_mapping or "none",
    ).to(theirs.w.dtype)

    def raw(value: Tensor, name: str) -> Tensor:
        positive_value = theirs.make_positive_fn(value)  # softplus, or nothing, by the module's settings
        if (positive_value < 0).any():
            raise ValueError(
                f"this ncps LTC has a negative {name}: call module.rnn_cell.apply_weight_constraints() before you "
                "read it"
            )
        return raw_of(positive_value)

    # ncps adds epsilon to the conductances, and no current: a leak into v = 0
    gleak = positive(raw(theirs.gleak[order], "gleak"))
    leak = gleak + theirs._epsilon

    synapses = (order[cell.source], order[cell.target])
    sensory = (cell.sensory_source, order[cell.sensory_target])
    motor = order[cell.wiring.motor]
    pairs = [
        (cell.gleak_raw, raw_of(leak)),
        (cell.vleak, theirs.vleak[order] * (gleak / leak)),
        (cell.cm_raw, raw(theirs.cm[order], "cm")),
        (cell.w_raw, raw(theirs.w[synapses], "w")),
        (cell.mu, theirs.mu[synapses]),
        (cell.sigma, theirs.sigma[synapses]),
        (cell.E, theirs.erev[synapses]),
        (cell.sensory_w_raw, raw(theirs.sensory_w[sensory], "sensory_w")),
        (cell.sensory_mu, theirs.sensory_mu[sensory]),
        (cell.sensory_sigma, theirs.sensory_sigma[sensory]),
        (cell.sensory_E, theirs.sensory_erev[sensory]),
    ]
    for parameter, name, index in (
        (cell.input_scale, "input_w", slice(None)),
        (cell.input_shift, "input_b", slice(None)),
        (cell.output_scale, "output_w", motor),
        (cell.output_shift, "output_b", motor),
    ):
        if parameter is not None:
            pairs.append((parameter, getattr(theirs, name)[index]))
    for parameter, value in pairs:
        parameter.copy_(value)
    return cell


def _signs(mask: Tensor, adjacency: np.ndarray, erev: Tensor) -> np.ndarray:
    """Returns the polarities of the synapses that a cell computes with, which its mask gives.

    An `ncps` wiring draws new synapses each time it is built, so it can differ from the mask of a cell that was made
    before. A synapse that the wiring does not have any more gets the sign of its reversal potential.
    """
    fallback = np.where(erev.cpu().numpy() < 0, -1, 1)
    return np.where(mask.cpu().numpy() != 0, np.where(adjacency != 0, np.sign(adjacency), fallback), 0)


def _cfc(module: Any) -> CfC:
    if not isinstance(module.fc, nn.Identity):
        raise ValueError(
            "this ncps CfC has a projection (proj_size), which cannot be read: make it without one and put a "
            "torch.nn.Linear behind it"
        )
    theirs = module.rnn_cell
    return _wired_cfc(theirs) if hasattr(theirs, "_wiring") else _dense_cfc(theirs)


def _maps(cell: Any) -> list[nn.Linear]:
    return [cell.ff1] if cell.mode == "pure" else [cell.ff1, cell.ff2, cell.time_a, cell.time_b]


def _dense_cfc(theirs: Any) -> CfC:
    linears = [layer for layer in theirs.backbone or () if isinstance(layer, nn.Linear)]
    activations = {type(layer).__name__ for layer in theirs.backbone or ()} - {"Linear", "Dropout"}
    if activations - {"LeCun"}:
        raise ValueError(f"this ncps CfC has a backbone of {activations.pop()}: only lecun_tanh can be read")
    cell = CfC(
        theirs.input_size,
        theirs.hidden_size,
        mode=theirs.mode,
        backbone=[layer.out_features for layer in linears],
    ).to(theirs.ff1.weight.dtype)
    if linears:
        for linear, layer in zip(cell.backbone, linears, strict=True):
            linear.load_state_dict(layer.state_dict())
        cell.head.copy_(torch.cat([layer.weight for layer in _maps(theirs)]))
    else:
        for row, layer in enumerate(_maps(theirs)):
            cell.sensory_weight[row] = layer.weight[cell.sensory_target, cell.sensory_source]
            # a map reads the inputs first, and then the neurons
            cell.weight[row] = layer.weight[cell.target, cell.inputs + cell.source]
    cell.bias.copy_(torch.stack([layer.bias for layer in _maps(theirs)]))
    if cell.mode == "pure":
        cell.w_tau.copy_(theirs.w_tau[0])
        cell.A.copy_(theirs.A[0])
    return cell


def _wired_cfc(theirs: Any) -> CfC:
    """Reads a wired CfC: each layer is dense from the layer before and from itself, but f1 and f2 have a mask."""
    wiring, layers = theirs._wiring, theirs._layers
    if len(layers) == 1 and wiring.output_dim < wiring.units:
        raise ValueError(
            "this wired ncps CfC of one layer with fewer outputs than neurons outputs all neurons: it cannot be read"
        )
    starts = np.cumsum([0, *theirs.layer_sizes])
    dense = np.zeros((wiring.units, wiring.units))
    for layer in range(len(layers)):
        dense[starts[max(layer - 1, 0)] : starts[layer + 1], starts[layer] : starts[layer + 1]] = 1
    sensory = np.zeros((wiring.input_dim, wiring.units))
    sensory[:, : starts[1]] = 1
    cell = CfC(wiring.input_dim, _wiring_of(wiring, sensory, dense), mode=layers[0].mode)
    cell.to(layers[0].ff1.weight.dtype)
    for layer, part in enumerate(layers):
        here = slice(int(starts[layer]), int(starts[layer + 1]))
        into = (cell.target >= here.start) & (cell.target < here.stop)
        # the neuron that a map reads first: of the layer before, or an input, which is numbered below 0 here
        first = int(starts[layer - 1]) if layer else -wiring.input_dim
        for row, linear in enumerate(_maps(part)):
            masked = row < 2  # ff1 and ff2; ncps forgets the mask in the time gates
            weight = linear.weight * part.sparsity_mask if masked else linear.weight
            if layer == 0:
                cell.sensory_weight[row] = weight[cell.sensory_target, cell.sensory_source]
            cell.weight[row, into] = weight[cell.target[into] - here.start, cell.source[into] - first]
            cell.bias[row, here] = linear.bias
        if cell.mode == "pure":
            cell.w_tau[here] = part.w_tau[0]
            cell.A[here] = part.A[0]
    return cell


def _mixed(cell: Cell, lstm: Any, order: np.ndarray | None) -> MixedMemory:
    """Puts an `ncps` LSTM, with its rows and columns in our order of neurons, in front of the cell."""
    size = cell.units
    neurons = torch.arange(size) if order is None else torch.as_tensor(order)
    # the maps have the rows of one gate after those of another
    rows = torch.cat([gate * size + neurons for gate in range(4)])
    mixed = MixedMemory(cell).to(cell.dtype)
    mixed.input_weight.copy_(lstm.input_map.weight[rows])
    mixed.input_bias.copy_(lstm.input_map.bias[rows])
    mixed.recurrent_weight.copy_(lstm.recurrent_map.weight[rows][:, neurons])
    return mixed
