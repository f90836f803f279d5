"""The text of `controller.c`: the circuit, the layers behind it, and the actions that follow from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sb3_contrib.common.torch_layers import BatchRenorm1d
from torch import nn

from ncp_control.export.c.header import about
from ncp_control.neurons.catalogue import NEURONS, row_of
from ncp_control.neurons.code import CellPiece, array, filled, literal, shared_functions, values_of
from ncp_control.neurons.parameters import refresh, written_class
from ncp_control.rl.controller import Controller, Normalize
from ncp_control.rl.policies.numpy_actor import flattened

TOP = """\
#include "controller.h"

#include <math.h>
#include <stdint.h>

#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#error "compile controller.c without -ffast-math and -ffinite-math-only: it needs infinity and recognises NaN"
#endif

#define INFINITE ((controller_real)INFINITY)
#ifdef CONTROLLER_DOUBLE
#define REAL(number) number
#define EXP exp
#define EXPM1 expm1
#define TANH tanh
#define FABS fabs
#else
#define REAL(number) number##f
#define EXP expf
#define EXPM1 expm1f
#define TANH tanhf
#define FABS fabsf
#endif
"""
RESET = """\
void controller_reset(controller_state *state) {
    for (int i = 0; i < (int)(sizeof state->values / sizeof state->values[0]); i++) state->values[i] = REAL(0.0);
}
"""
STEP = """\
int controller_step(controller_state *state, const controller_real *observation, controller_real elapsed,
                    @KIND@ *action) {
@LOCALS@    if (!all_finite(observation, CONTROLLER_SENSORS)) return CONTROLLER_NOT_FINITE;
    if (!isfinite(elapsed) || elapsed < REAL(0.0)) return CONTROLLER_NOT_FINITE;
@BEFORE@@FEATURES@@STEP@@AFTER@    return @RETURNED@;
}
"""
# What cannot be computed changes nothing.
ADVANCE = """\
    advance(@SEEN@, state->values@ELAPSED@);
@READ@    if (!all_finite(state->values, CONTROLLER_STATE) || !act(@OUTPUTS@, action)) {
        *state = before;
        return CONTROLLER_NOT_FINITE;
    }
"""
WITHOUT_MEMORY = """\
    (void)state;
    if (!act(@SEEN@, action)) return CONTROLLER_NOT_FINITE;
"""
# The mean is the sum of a float and of what this float lacks, because a float of a large mean is too coarse.
NORMALIZE = """\
    for (int i = 0; i < CONTROLLER_SENSORS; i++) {
        const controller_real scaled = (observation[i] - mean[i] - mean_rest[i]) / scale[i];
        x[i] = clipped(scaled, @LOW@, @HIGH@);
    }
"""
COPY = "    for (int i = 0; i < CONTROLLER_SENSORS; i++) x[i] = observation[i];\n"
WATCH_BEFORE = """\
    for (int i = 0; i < CONTROLLER_SENSORS; i++) {
        if (observation[i] < observation_low[i] || observation[i] > observation_high[i]) {
            flags |= CONTROLLER_OBSERVATION_OUTSIDE;
        }
    }
    if (elapsed < @LOW@ || elapsed > @HIGH@) flags |= CONTROLLER_ELAPSED_OUTSIDE;
"""
WATCH_AFTER = """\
    for (int i = 0; i < CONTROLLER_STATE; i++) {
        const controller_real value = state->values[i];
        if (value < state_low[i] || value > state_high[i]) flags |= CONTROLLER_STATE_OUTSIDE;
    }
"""
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


def source_text(controller: Controller, name: str, sha256: str) -> str:
    """Returns the text of `controller.c`.

    :param controller: a controller in float64
    :param name: the agent's name
    :param sha256: the checksum of its file
    """
    cell = cell_piece(controller)
    features = len(controller.sensors) + controller.reads_elapsed
    outputs = features if controller.rnn is None else controller.rnn.cell.outputs
    head = head_text(controller, outputs)
    watch = watch_arrays(controller)
    seen, local_x, normalisation, arrays = features_code(controller)
    local_y, advance = step_code(cell, seen, outputs)
    step = filled(
        STEP,
        kind="int" if controller.chooses else "controller_real",
        locals=local_x + local_y + ("    int flags = 0;\n" if watch else ""),
        before=watch_before(controller) if watch else "",
        features=normalisation,
        step=advance,
        after=WATCH_AFTER if watch and controller.state_size else "",
        returned="flags" if watch else "0",
    )
    body = "\n".join(filter(None, ["" if cell is None else cell.text, head, arrays, watch, RESET, step]))
    return "\n".join([about(controller, name, sha256) + TOP, shared_functions(body), body])


def cell_piece(controller: Controller) -> CellPiece | None:
    """Returns the C of the circuit, or None for an agent without one; refuses what has no C form."""
    if not isinstance(controller.extractor, nn.Identity):
        raise ValueError(
            f"an agent with the features extractor {type(controller.extractor).__name__} has no C form: train one that "
            "reads vectors as they are"
        )
    refresh(controller)
    if controller.rnn is None:
        return None
    cell = controller.rnn.cell
    kind = written_class(cell)
    row = row_of(kind)
    if row.code is None:
        known = ", ".join(neuron.name for neuron in NEURONS if neuron.code)
        raise ValueError(f"an agent with the cell {kind.__name__} has no C form: the cells that have one are {known}")
    piece: CellPiece = row.part("code")(cell)
    return piece


def features_code(controller: Controller) -> tuple[str, str, str, str]:
    """Returns what the circuit reads, its declaration, the code that fills it, and the arrays of this code."""
    sensors = len(controller.sensors)
    normalize, elapsed = controller.normalize, controller.reads_elapsed
    if not isinstance(normalize, Normalize) and not elapsed:
        return "observation", "", "", ""
    arrays, code = "", COPY
    if isinstance(normalize, Normalize):
        mean = values_of(normalize.mean)
        # What a float of the mean lacks is an array of its own.
        coarse = mean.astype(np.float32).astype(np.float64)
        arrays = array("mean", coarse) + array("mean_rest", mean - coarse) + array("scale", normalize.scale)
        code = filled(NORMALIZE, low=literal(-normalize.clip), high=literal(normalize.clip))
    if elapsed:
        code += "    x[CONTROLLER_SENSORS] = elapsed;\n"
    return "x", f"    controller_real x[{sensors + elapsed}];\n", code, arrays


def step_code(cell: CellPiece | None, seen: str, outputs: int) -> tuple[str, str]:
    """Returns the declarations and the code of a step, from what the circuit reads to the action."""
    if cell is None:
        return "", filled(WITHOUT_MEMORY, seen=seen)
    declared, read, ends = "    const controller_state before = *state;\n", "", f"state->values + {cell.outputs}"
    if cell.outputs is None:
        declared += f"    controller_real y[{outputs}];\n"
        read, ends = "    read_out(state->values, y);\n", "y"
    elapsed = ", elapsed" if cell.uses_elapsed else ""
    return declared, filled(ADVANCE, seen=seen, elapsed=elapsed, read=read, outputs=ends)


def watch_arrays(controller: Controller) -> str:
    """Returns the certified ranges as arrays; nothing for a controller without a monitor."""
    watch = controller.watch
    if watch is None:
        return ""
    names = ("observation_low", "observation_high", "state_low", "state_high")
    ranges = {name: values_of(getattr(watch, name)) for name in names}
    return "".join(array(name, values, endless=True) for name, values in ranges.items() if len(values))


def watch_before(controller: Controller) -> str:
    """Returns the code that compares an observation and the elapsed time with the certified ranges."""
    assert controller.watch is not None
    low, high = controller.watch.elapsed
    return filled(WATCH_BEFORE, low=literal(low), high=literal(high))


def head_text(controller: Controller, outputs: int) -> str:
    """Returns `act(y, action)`, from the circuit's outputs to the actions.

    The C function returns 0 and leaves the action as it is if a number of the last layer is not finite. The layers use
    two arrays in turn, which saves room on the stack.

    :param controller: a controller in float64
    :param outputs: how many outputs the circuit has, or how many features an agent without a circuit reads
    """
    arrays, lines, sizes = [], "", dict[str, int]()
    here, width = "y", outputs
    for place, layer in enumerate(layer for layer in flattened([controller.head]) if not isinstance(layer, IDLE)):
        if isinstance(layer, nn.Linear):
            there, width = "other" if here == "one" else "one", layer.out_features
            # The C function `dense` adds a bias in every layer.
            bias = np.zeros(width) if layer.bias is None else layer.bias
            arrays += [array(f"weight{place}", layer.weight.flatten()), array(f"bias{place}", bias)]
            ends = {"from": here, "to": there}
            lines += filled(LINEAR, place=place, rows=width, columns=layer.in_features, **ends)
        else:
            further, value = elementwise(layer, place)
            there = "one" if here == "y" else here  # the circuit's outputs are part of its state
            arrays += further
            lines += filled(EACH, count=width, to=there, value=filled(value, x=f"{here}[i]"))
        here = there
        # Each of the two arrays is as long as the longest layer that it holds.
        sizes[here] = max(sizes.get(here, 0), width)
    further, last = actions(controller, here, width)
    declared = "".join(f"    controller_real {name}[{size}];\n" for name, size in sizes.items())
    kind = "int" if controller.chooses else "controller_real"
    lines += f"    if (!all_finite({here}, {width})) return 0;\n{last}    return 1;\n"
    body = f"static int act(const controller_real *y, {kind} *action) {{\n{declared}{lines}}}\n"
    return "\n".join([*arrays, *further, body])


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
