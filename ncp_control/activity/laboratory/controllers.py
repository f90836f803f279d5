"""An agent as data for a laboratory's page: its normalisation, its circuit and the layers behind it."""

from __future__ import annotations

from typing import Any

import torch
from sb3_contrib.common.torch_layers import BatchRenorm1d
from torch import nn

from ncp_control.base.pages import packed
from ncp_control.neurons.catalogue import NEURONS
from ncp_control.neurons.page import cell_data, exact, layer_data
from ncp_control.neurons.parameters import refresh, written_class
from ncp_control.rl.controller import Controller, Normalize
from ncp_control.rl.policies.numpy_actor import flattened

# In the order in which a page joins them: each uses classes of those before it only.
CIRCUIT_SCRIPTS = tuple(
    dict.fromkeys(["base.js", "solvers.js", *(name for row in NEURONS for name in row.scripts), "controller.js"])
)
IDLE = (nn.Identity, nn.Flatten)


@torch.no_grad()
def controller_data(controller: Controller) -> dict[str, Any]:
    """Returns an agent as JSON values for `PageController` of `controller.js`.

    :param controller: an agent with a circuit and actions that are numbers
    """
    if controller.rnn is None:
        raise ValueError("the agent has no circuit, so that a laboratory has nothing to show: give it one that has")
    if controller.chooses:
        raise ValueError(
            "the agent makes a choice at every step, and a laboratory runs agents whose actions are numbers"
        )
    if not isinstance(controller.extractor, nn.Identity):
        raise ValueError(
            f"a laboratory cannot run the features extractor {type(controller.extractor).__name__}: give it an agent "
            "that reads vectors as they are"
        )
    refresh(controller)
    normalize = controller.normalize
    return {
        "timed": controller.timed,
        "readsElapsed": controller.reads_elapsed,
        "normalize": normalize_data(normalize) if isinstance(normalize, Normalize) else None,
        "cell": cell_data(controller.rnn.cell),
        "head": [head_layer(layer) for layer in flattened([controller.head]) if not isinstance(layer, IDLE)],
        "squashes": controller.squashes,
        "low": limits(controller, controller.low),
        "high": limits(controller, controller.high),
    }


def normalize_data(normalize: Normalize) -> dict[str, Any]:
    """Returns the statistics by which observations are normalised."""
    return {
        "mean": packed(exact(normalize.mean)),
        "scale": packed(exact(normalize.scale)),
        "clip": packed([float(normalize.clip)]),
    }


def limits(controller: Controller, end: torch.Tensor) -> dict[str, str]:
    """Returns one end of every action's range, (A,)."""
    return packed(exact(end).broadcast_to(len(controller.actions)))


def head_layer(layer: nn.Module) -> dict[str, Any]:
    """Returns a layer behind the circuit; refuses one that the page does not know."""
    kind = written_class(layer)
    if kind is nn.Linear:
        return {"kind": "linear", **layer_data(layer)}
    if kind in SIMPLE:
        return {"kind": SIMPLE[kind]}
    if isinstance(layer, nn.ELU):
        return {"kind": "elu", "alpha": packed([float(layer.alpha)])}
    if isinstance(layer, nn.Hardtanh):
        return {"kind": "hardtanh", "limits": packed([float(layer.min_val), float(layer.max_val)])}
    if isinstance(layer, BatchRenorm1d):
        return {"kind": "scaled", **renorm_data(layer)}
    kinds: list[Any] = [nn.Linear, *SIMPLE, nn.ELU, nn.Hardtanh, BatchRenorm1d]
    known = ", ".join(layer_kind.__name__ for layer_kind in kinds)
    raise ValueError(f"a laboratory cannot run the layer {kind.__name__}: the layers that it can run are {known}")


def renorm_data(layer: Any) -> dict[str, Any]:
    """Returns the gain and the offset by which a layer normalises with its running statistics."""
    mean, var = exact(layer.ra_mean), exact(layer.ra_var)
    scale, bias = (exact(layer.scale), exact(layer.bias)) if layer.affine else (torch.ones_like(mean), 0.0)
    gain = scale / torch.sqrt(var + layer.eps)
    return {"gain": packed(gain), "offset": packed(bias - gain * mean)}


SIMPLE: dict[type[nn.Module], str] = {nn.Tanh: "tanh", nn.ReLU: "relu", nn.SiLU: "silu"}
