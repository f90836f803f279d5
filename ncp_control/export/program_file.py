"""An agent as a program of torch: a `.pt2` file that runs where only torch is installed."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import torch

from ncp_control.export.shared import as_controller, new_folder
from ncp_control.rl.controller import Controller
from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_control.rl.monitor import Monitor

FILE = "controller.pt2"


def export_program(agent: LoadedPolicy | Controller, folder: str | Path, monitor: Monitor | None = None) -> Path:
    """Writes an agent as a program of `torch.export`, for any batch size.

    Example::

        path = export_program(nc.load("checkpoints/halfcheetah.safetensors"), "robot")
        step = torch.export.load(path / "controller.pt2").module()
        action, state = step(observation, state, elapsed)  # (B, A), (B, N)

    :param agent: a policy loaded from a file of `save_policy`, or a `Controller` with `backend="reference"`
    :param folder: the folder to make, in which `controller.pt2` will be
    :param monitor: the certified ranges; with them the program also returns flags (B,)
    :return: the folder
    """
    controller = controller_of(agent, monitor)
    with new_folder(folder) as made:
        write_program(controller, made)
    return Path(folder)


def write_program(controller: Controller, folder: Path) -> None:
    """Writes `controller.pt2` into an existing folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = program_of(controller)
        for node in program.graph.nodes:
            node.meta.pop("stack_trace", None)  # it names files of this machine
        content = io.BytesIO()  # torch ends the whole process where a disk is full
        torch.export.save(program, content)
    (folder / FILE).write_bytes(content.getbuffer())


def controller_of(agent: LoadedPolicy | Controller, monitor: Monitor | None) -> Controller:
    """Returns the agent as a `Controller` of torch's own operations."""
    controller = as_controller(agent, monitor)
    if controller.rnn is not None and controller.rnn.backend != "reference":
        raise ValueError(
            "only torch's own operations can be exported: make the Controller with backend='reference', not "
            f"{controller.rnn.backend!r}"
        )
    return controller


def program_of(controller: Controller) -> Any:
    """Returns one step, (observation, state, elapsed) -> (action, state) and perhaps flags, with a free batch size."""
    for buffer in controller.buffers():
        if not buffer.numel():
            buffer.data = torch.zeros_like(buffer)  # torch.export.save fails with an empty array of NumPy's
    rows = 2  # torch.export would take a batch of 1 for a fixed one
    dtype = controller.dtype
    example = (
        torch.zeros(rows, len(controller.sensors), dtype=dtype),
        controller.initial_state(rows),
        torch.ones(rows, dtype=dtype),
    )
    batch = torch.export.Dim("batch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(controller, example, dynamic_shapes=({0: batch}, {0: batch}, {0: batch}))
