"""An agent as a bundle of LEAPP: a description in YAML, an ONNX file and the initial state, as ROS 2 runs them."""

from __future__ import annotations

import hashlib
import platform
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors.torch import save_file

from ncp_control._version import __version__
from ncp_control.export.one_robot import LEAPP, OneRobot
from ncp_control.export.onnx_file import FILE as MODEL
from ncp_control.export.onnx_file import write_onnx
from ncp_control.export.program_file import controller_of
from ncp_control.export.shared import new_folder
from ncp_control.rl.controller import Controller
from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_control.rl.monitor import Monitor

FILE = "controller.yaml"
INITIAL = "controller_initial_values.safetensors"
NODE = "policy"
VERSION = "1.3"  # of LEAPP's format, as LEAPP 0.7 writes it


def export_leapp(
    agent: LoadedPolicy | Controller, folder: str | Path, monitor: Monitor | None = None, seconds: float | None = None
) -> Path:
    """Writes an agent as a bundle of LEAPP. Needs `onnxscript`, and LEAPP only to run it.

    Example::

        path = export_leapp(nc.load("checkpoints/halfcheetah.safetensors"), "robot", seconds=0.05)
        policy = leapp.InferenceManager(str(path / "controller.yaml"))
        action = policy.run_policy({"policy/observation": observation})["policy/action"]

    :param agent: a policy loaded from a file of `save_policy`, or a `Controller` with `backend="reference"`
    :param folder: the folder to make
    :param monitor: the certified ranges; with them the bundle has a second output, the flags
    :param seconds: how many seconds a step of the agent takes, which the bundle says as a frequency
    :return: the folder
    """
    controller = controller_of(agent, monitor)
    with new_folder(folder) as made:
        write_leapp(controller, made, seconds)
    return Path(folder)


def write_leapp(controller: Controller, folder: Path, seconds: float | None = None) -> None:
    """Writes the bundle into an existing folder."""
    write_onnx(controller, folder, LEAPP)
    step = OneRobot(controller, LEAPP)
    given = step.example()
    values = {**dict(zip(step.inputs, given, strict=True)), **dict(zip(step.outputs, step(*given), strict=True))}
    names = {"observation": list(controller.sensors)}
    if not controller.chooses:
        names["action"] = list(controller.actions)
    model = (folder / MODEL).read_bytes()
    before, after = LEAPP.inputs[1], LEAPP.outputs[1]
    pipeline: dict[str, Any] = {
        "data_flow": {},
        "feedback_flow": {f"{NODE}/{after}": [f"{NODE}/{before}"]} if controller.state_size else {},
        "inputs": {NODE: [name for name in step.inputs if name != before]},
        "outputs": {NODE: [name for name in step.outputs if name != after]},
    }
    if seconds is not None:
        pipeline["configs"] = {"frequency": 1 / seconds}
    if controller.state_size:
        pipeline["initial_values"] = INITIAL
        save_file({f"{NODE}/{before}": values[before].contiguous()}, folder / INITIAL)
    described = {
        "models": {
            NODE: {
                "inputs": [described_tensor(name, values[name], names) for name in step.inputs],
                "outputs": [described_tensor(name, values[name], names) for name in step.outputs],
                "parameters": {
                    "model_path": MODEL,
                    "md5sum": hashlib.md5(model, usedforsecurity=False).hexdigest(),
                    "sha256sum": hashlib.sha256(model).hexdigest(),
                    "backend": "onnx",
                },
            }
        },
        "pipeline": pipeline,
        "system information": {
            "leapp config version": VERSION, "exported by": f"ncp-control {__version__}",
            "torch version": str(torch.__version__), "python version": platform.python_version(),
        },
    }  # fmt: skip
    (folder / FILE).write_text(
        yaml.safe_dump(described, sort_keys=False, default_flow_style=None, width=120), encoding="utf-8"
    )


def described_tensor(name: str, value: torch.Tensor, names: dict[str, list[str]]) -> dict[str, Any]:
    """Returns how a bundle describes an input or an output, with the names of its numbers where they are known."""
    described = {
        "name": name,
        "dtype": str(value.dtype).removeprefix("torch."),
        "shape": list(value.shape),
        "type": "tensor",
    }
    return {**described, "element_names": [None, names[name]]} if name in names else described
