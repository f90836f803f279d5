"""The layers behind a circuit, and the actions that follow from them, as C."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sb3_contrib.common.torch_layers import BatchRenorm1d
from torch import nn

from ncp_control.neurons.code import array, filled, literal, values_of
from ncp_control.rl.controller import Controller
from ncp_control.rl.policies.numpy_actor import flattened

LINEAR = "    dense(weight@PLACE@, bias@PLACE@, @ROWS@, @COLUMNS@, @FROM@, @TO@);\n"
EACH = "    for (int i = 0; i < @COUNT@; i++) @TO@[i] = @VALUE@;\n"
CHOICE = """\
    int best = 0;
    for (int i = 1; i < @COUNT@; i++) {
        if (@FROM@[i] > @FROM@[best]) best = i;
    }
    *action = @FIRST@ + best;
"""
IN_RANGE = "@NAME@(@FROM@[i], action_low[i], action_high[i])"
IDLE = (nn.Identity, nn.Flatten)


def head_text(controller: Controller, outputs: int) -> str:
    """Returns `act(y, action)`, from the circuit's outputs to the actions.

    It returns 0, and leaves the action as it is, where a number of the last layer is not finite. The layers' values are
    in two arrays in turn, so that no more of the stack is needed.

    :param controller: a controller in float64
    :param outputs: how many outputs the circuit has, or how many features an agent without a circuit reads
    """
    arrays, lines, sizes = [], "", dict[str, int]()
    here, width = "y", outputs
    for place, layer in enumerate(one for one in flattened([controller.head]) if not isinstance(one, IDLE)):
        if isinstance(layer, nn.Linear):
            there, width = "other" if here == "one" else "one", layer.out_features
            bias = np.zeros(width) if layer.bias is None else layer.bias
            arrays += [array(f"weight{place}", layer.weight.flatten()), array(f"bias{place}", bias)]
            ends = {"from": here, "to": there}
            lines += filled(LINEAR, place=place, rows=width, columns=layer.in_features, **ends)
        else:
            found, value = elementwise(layer, place)
            there = "one" if here == "y" else here  # the circuit's outputs are part of its state
            arrays += found
            lines += filled(EACH, count=width, to=there, value=filled(value, x=f"{here}[i]"))
        here = there
        sizes[here] = max(sizes.get(here, 0), width)
    found, last = actions(controller, here, width)
    declared = "".join(f"    controller_real {name}[{size}];\n" for name, size in sizes.items())
    kind = "int" if controller.chooses else "controller_real"
    lines += f"    if (!all_finite({here}, {width})) return 0;\n{last}    return 1;\n"
    body = f"static int act(const controller_real *y, {kind} *action) {{\n{declared}{lines}}}\n"
    return "\n".join([*arrays, *found, body])


def elementwise(layer: nn.Module, place: int) -> tuple[list[str], str]:
    """Returns a layer's arrays and its value of `@X@`; refuses a layer that has no C form."""
    if type(layer) in ELEMENTWISE:
        return [], ELEMENTWISE[type(layer)](layer)
    if isinstance(layer, BatchRenorm1d):
        gain, offset = renorm(layer)
        arrays = [array(f"gain{place}", gain), array(f"offset{place}", offset)]
        return arrays, f"gain{place}[i] * @X@ + offset{place}[i]"
    known = ", ".join(sorted(kind.__name__ for kind in (*ELEMENTWISE, nn.Linear, BatchRenorm1d)))
    raise ValueError(
        f"an agent with the layer {type(layer).__name__} has no C form: the layers that have one are {known}"
    )


def renorm(layer: Any) -> tuple[Any, Any]:
    """Returns the gain and the offset by which a layer normalises with its running statistics."""
    mean, var = values_of(layer.ra_mean), values_of(layer.ra_var)
    scale, bias = (values_of(layer.scale), values_of(layer.bias)) if layer.affine else (1.0, 0.0)
    gain = scale / np.sqrt(var + layer.eps)
    return gain, bias - gain * mean


def clamped(low: float, high: float) -> str:
    """Returns `@X@` between two limits."""
    return f"clipped(@X@, {literal(low)}, {literal(high)})"


def elu(layer: Any) -> str:
    """Returns ELU of `@X@`."""
    return f"@X@ > REAL(0.0) ? @X@ : {literal(layer.alpha)} * EXPM1(@X@)"


ELEMENTWISE: dict[type[nn.Module], Callable[[Any], str]] = {
    nn.Tanh: lambda layer: "TANH(@X@)",
    nn.ReLU: lambda layer: "@X@ < REAL(0.0) ? REAL(0.0) : @X@",
    nn.ELU: elu,
    nn.SiLU: lambda layer: "@X@ * sigmoid(@X@)",
    nn.Hardtanh: lambda layer: clamped(layer.min_val, layer.max_val),
}


def actions(controller: Controller, here: str, width: int) -> tuple[list[str], str]:
    """Returns the arrays and the last lines of `act`, which make an action of the numbers in `here`."""
    if controller.chooses:
        return [], filled(CHOICE, count=width, first=controller.first, **{"from": here})
    low, high = (np.broadcast_to(values_of(end), (width,)) for end in (controller.low, controller.high))
    arrays = [array("action_low", low, endless=True), array("action_high", high, endless=True)]
    value = filled(IN_RANGE, name="squashed" if controller.squashes else "clipped", **{"from": here})
    return arrays, filled(EACH, count=width, to="action", value=value)
