"""`ncp-control describe`: what is in a wiring, a checkpoint, a policy, a model, rollouts, a recording or a run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from ncp_control.wiring import Wiring, WiringError

Described = dict[str, Any]


@dataclass
class Arguments:
    """Say what is in a wiring, a plan or a checkpoint: layers and synapses, the cell, its bounds, and whether they are
    guaranteed. In a policy or a model of the dynamics: that and how it came about. In rollouts: returns, random
    actions, ranges. In a recording: of what and when. In a run's folder: how far it is.

    Example: ncp-control describe checkpoints/halfcheetah.safetensors
    Example: ncp-control describe "AutoNCP(40, 16)" --inputs 17
    """

    target: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TARGET")]
    """A .safetensors file; a wiring's .json file; a plan such as "AutoNCP(40, 16)"; the folder of a run; a recording's
    .npz file; or rollouts: a Minari id or folder, a folder of traces, a .npy or .npz trace."""

    inputs: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """How many inputs a plan is built for; all else knows its own."""

    figure: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Draw rollouts into a .png, .svg or .pdf file."""

    json: bool = False
    """Print one JSON object; a bound that does not exist is null."""


def run(arguments: Arguments) -> int:
    """Print the description."""
    target, path = arguments.target, Path(arguments.target)
    is_plan = "(" in target and not os.path.exists(path)
    if arguments.inputs is not None and not is_plan:
        raise ValueError(f"--inputs is for plans; {target} knows its own")
    if is_plan:
        found = of_wiring(build(target, arguments.inputs))
    elif path.suffix == ".json":
        found = of_wiring(read_wiring(path))
    elif path.suffix == ".safetensors":
        found = of_file(path)
    else:
        found = of_rollouts_or_run(target, path, arguments.figure)
    described, show = found
    if arguments.figure is not None and "rollouts" not in described:
        raise ValueError(f"--figure draws rollouts, and {target!r} is none")
    if arguments.json:
        print(json.dumps({"target": target, **described}, indent=2, allow_nan=False))
    else:
        show()
    return 0


def of_wiring(wiring: Wiring) -> tuple[Described, Callable[[], None]]:
    """A wiring: what there is to say of it, and how to show it."""
    from ncp_control.cli.describing import network

    return {"wiring": network.describe_wiring(wiring), "checkpoint": None}, lambda: print(wiring.summary())


def of_file(path: Path) -> tuple[Described, Callable[[], None]]:
    """The same of a safetensors file, by what it says that it holds."""
    from ncp_control.cli.describing import checkpoint, model, policy
    from ncp_control.storage.safe_tensors import read_kind

    kind = read_kind(path)
    if kind == "ncp_control.dynamics":
        modelled = model.describe(path)
        return {"model": modelled}, lambda: model.show(modelled)
    if kind == "ncp_control.policy":
        acting, wiring = policy.describe(path)
        return {"policy": acting}, lambda: policy.show(acting, wiring)
    written, wiring = checkpoint.describe(path)
    return written, lambda: checkpoint.show(written, wiring)


def of_rollouts_or_run(target: str, path: Path, figure: Path | None) -> tuple[Described, Callable[[], None]]:
    """The same of what has no name of its own kind."""
    from ncp_control.cli.describing import recording, rollouts, run

    if run.is_run(path):
        running = run.describe(path)
        return {"run": running}, lambda: run.show(running)
    if recording.is_recording(path):
        recorded, wiring = recording.describe(path)
        return {"recording": recorded}, lambda: recording.show(recorded, wiring)
    if rollouts.is_rollouts(target):
        rolled = rollouts.describe(target, figure)
        return {"rollouts": rolled}, lambda: rollouts.show(rolled)
    lead = "there is no file, folder or dataset" if not os.path.exists(path) else "cannot tell what is in"
    raise ValueError(
        f"{lead} {target!r}: describe reads a wiring (.json), a checkpoint or a policy (.safetensors), rollouts "
        "(a Minari id, a folder, .npy, .npz), a recording (.npz), a run's folder, or a plan such as 'AutoNCP(40, 16)'"
    )


def build(text: str, inputs: int | None) -> Wiring:
    """The wiring of a plan written as text."""
    from ncp_control.wiring.plan_text import parse_plan

    plan = parse_plan(text)
    if inputs is None:
        raise ValueError(f"a plan is drawn for a number of inputs: add --inputs, such as describe {text!r} --inputs 8")
    return plan.build(inputs)


def read_wiring(path: Path) -> Wiring:
    """The wiring in a JSON file."""
    try:
        return Wiring.from_json(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise WiringError(f"{path}: this is not text") from error
    except WiringError as error:
        raise WiringError(f"{path}: {error}") from error
