"""An agent as an ONNX file, for onnxruntime and for what else reads ONNX."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ncp_control.export.one_robot import RSL_RL, Naming, OneRobot
from ncp_control.export.program_file import controller_of, program_of
from ncp_control.export.shared import new_folder
from ncp_control.rl.controller import Controller
from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_control.rl.monitor import Monitor

FILE = "controller.onnx"
NAMES: dict[str, Naming | None] = {"ncp_control": None, "rsl_rl": RSL_RL}
INPUTS = ("observation", "state", "elapsed")
OUTPUTS = ("action", "new_state", "flags")


def export_onnx(
    agent: LoadedPolicy | Controller, folder: str | Path, monitor: Monitor | None = None, names: str = "ncp_control"
) -> Path:
    """Writes an agent as an ONNX file for any batch size. Needs `onnxscript`.

    The file maps observation (B, n), state (B, N) and elapsed (B,) to action (B, A), or (B,) for a choice, and
    new_state (B, N); with a monitor also to flags (B,). Its metadata name the sensors and the actions.

    Example::

        path = export_onnx(nc.load("checkpoints/halfcheetah.safetensors"), "robot")
        session = onnxruntime.InferenceSession(path / "controller.onnx")
        action, state = session.run(None, {"observation": seen, "state": state, "elapsed": elapsed})

    :param agent: a policy loaded from a file of `save_policy`, or a `Controller` with `backend="reference"`
    :param folder: the folder to make, in which `controller.onnx` will be
    :param monitor: the certified ranges
    :param names: "rsl_rl" for the names and shapes of a recurrent policy of rsl_rl: obs (1, n) and h_in (1, 1, N) to
        actions (1, A) and h_out (1, 1, N); an agent without a memory has obs and actions alone
    :return: the folder
    """
    controller = controller_of(agent, monitor)
    check_onnx(controller, names)
    with new_folder(folder) as made:
        write_onnx(controller, made, NAMES[names])
    return Path(folder)


def write_onnx(controller: Controller, folder: Path, naming: Naming | None = None) -> None:
    """Writes `controller.onnx` into an existing folder, for any batch size or, with other names, for one robot."""
    import onnxscript  # noqa: F401  # a missing package is told by its own name

    inputs: Sequence[str] = INPUTS
    outputs: Sequence[str] = OUTPUTS if controller.watch is not None else OUTPUTS[:2]
    if naming is not None:
        step = OneRobot(controller, naming)
        inputs, outputs = step.inputs, step.outputs
    with quiet():
        made = torch.onnx.export(
            program_of(controller) if naming is None else torch.export.export(step, step.example()),
            input_names=inputs,
            output_names=outputs,
            dynamo=True,
            verbose=False,
            custom_translation_table={torch.ops.aten.expm1.default: expm1},
        )
        assert made is not None
        tidy(made.model.graph)
        made.model.metadata_props["sensors"] = json.dumps(controller.sensors)
        made.model.metadata_props["actions"] = json.dumps(controller.actions)
        made.save(folder / FILE, external_data=False)  # one file with everything, the weights included


def check_onnx(controller: Controller, names: str = "ncp_control") -> None:
    """Refuses an agent that cannot be an ONNX file with these names."""
    if names not in NAMES:
        raise ValueError(f"names of an ONNX file are {' or '.join(NAMES)}, not {names!r}")
    if controller.rnn is not None and getattr(controller.rnn.cell, "solver", "") == "dopri5":
        raise ValueError('the solver "dopri5" chooses its steps while it runs, which ONNX cannot: use "fused" or "rk4"')
    if names == "rsl_rl" and (controller.chooses or controller.watch is not None):
        what = "choices" if controller.chooses else "a monitor's flags"
        raise ValueError(f"policies of rsl_rl have no {what}: leave out --names")


def expm1(x: Any) -> Any:
    """Returns `exp(x) - 1` in ONNX, which has no operator for it; near 0 a subtraction would lose the digits of x."""
    import onnxscript

    op: Any = onnxscript.opset18
    # With t = tanh(x / 2), exp(x) - 1 = 2 t / (1 - t).
    one, t = op.CastLike(1.0, x), op.Tanh(op.Mul(x, op.CastLike(0.5, x)))
    near = op.Div(op.Add(t, t), op.Sub(one, t))
    return op.Where(op.Less(op.Abs(x), one), near, op.Sub(op.Exp(x), one))


def tidy(graph: Any) -> None:
    """Names a free size "batch", and removes the exporter's notes, which name files of this machine."""
    # All inputs share one free size; where rsl_rl's names are, there is none.
    free = str(graph.inputs[0].shape[0])
    for value in (*graph.inputs, *graph.initializers.values(), *(value for node in graph for value in node.outputs)):
        value.metadata_props.clear()
        for place, size in enumerate(value.shape or ()):
            if str(size) == free != "1":
                value.shape[place] = "batch"
    graph.metadata_props.clear()
    for node in graph:
        node.metadata_props.clear()


@contextmanager
def quiet() -> Iterator[None]:
    """Silences the exporter, which warns of packages that nobody needs here."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnx_ir", "onnxscript")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
