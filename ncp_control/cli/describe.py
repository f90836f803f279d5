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
    """Show what is in a file, a folder or a wiring plan. Wirings and checkpoints: layers, synapses, the cell, its
    bounds, and whether they are guaranteed; policies and models: also how they were made. Rollouts: returns, random
    actions and ranges. Recordings: what was recorded. Runs: their progress.

    Example: ncp-control describe checkpoints/halfcheetah.safetensors
    Example: ncp-control describe "AutoNCP(40, 16)" --inputs 17
    """

    target: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TARGET")]
    """A .safetensors file; a wiring's .json file; a plan such as "AutoNCP(40, 16)"; the folder of a run; a recording's
    .npz file; or rollouts: a Minari id or folder, a folder of traces, a .npy or .npz trace, a table
    such as FILE.csv:time=COLUMN,group=COLUMN."""

    inputs: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """The number of inputs of a plan; files know theirs."""

    figure: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Also draw the rollouts, into a .png, .svg or .pdf file."""

    json: bool = False
    """Print one JSON object; a bound that does not exist is null."""


def run(arguments: Arguments) -> int:
    """Prints the description."""
    target, path = arguments.target, Path(arguments.target)
    # a file may have brackets in its name
    is_plan = "(" in target and not os.path.exists(path)
    if arguments.inputs is not None and not is_plan:
        raise ValueError(f"--inputs is for plans; {target} knows how many it has")
    description, show = (
        of_wiring(build(target, arguments.inputs)) if is_plan else of_file(target, path, arguments.figure)
    )
    if arguments.figure is not None and "rollouts" not in description:
        raise ValueError(f"--figure draws rollouts, and there are none in {target!r}")
    if arguments.json:
        print(json.dumps({"target": target, **description}, indent=2, allow_nan=False))
    else:
        show()
    return 0


def of_wiring(wiring: Wiring) -> tuple[Described, Callable[[], None]]:
    """Describes a wiring: returns JSON values, and a function that shows them in the terminal."""
    from ncp_control.cli.describing import network

    return {"wiring": network.describe_wiring(wiring), "checkpoint": None}, lambda: print(wiring.summary())


def of_file(target: str, path: Path, figure: Path | None) -> tuple[Described, Callable[[], None]]:
    """Describes a file, a folder or a Minari dataset; returns the same as `of_wiring`."""
    from ncp_control.base.kinds import Kind, kind_of
    from ncp_control.cli.describing import checkpoint, model, policy, recording, rollouts, series_data, series_model
    from ncp_control.cli.describing import run as run_folder

    kind = kind_of(path)
    description: Described
    if kind is Kind.WIRING:
        return of_wiring(read_wiring(path))
    if kind is Kind.RUN:
        description = run_folder.describe(path)
        return {"run": description}, lambda: run_folder.show(description)
    if kind is Kind.RECORDING:
        description, wiring = recording.describe(path)
        return {"recording": description}, lambda: recording.show(description, wiring)
    if kind is Kind.DYNAMICS:
        description = model.describe(path)
        return {"model": description}, lambda: model.show(description)
    if kind is Kind.SERIES:
        description = series_model.describe(path)
        return {"series_model": description}, lambda: series_model.show(description)
    if kind is Kind.POLICY:
        description, circuit = policy.describe(path)
        return {"policy": description}, lambda: policy.show(description, circuit)
    if kind in (Kind.NETWORK, Kind.TRAINING_STATE, Kind.FIT_STATE, Kind.DISTIL_STATE, Kind.STABLE_BASELINES):
        # the reader of networks refuses the other kinds with a sentence that says what they are
        description, wiring = checkpoint.describe(path)
        return description, lambda: checkpoint.show(description, wiring)
    if series_data.is_series(target):
        description = series_data.describe(target)
        return {"series": description}, lambda: series_data.show(description)
    if kind is Kind.ROLLOUTS or rollouts.is_dataset(target):
        description = rollouts.describe(target, figure)
        return {"rollouts": description}, lambda: rollouts.show(description)
    lead = "cannot tell what is in" if os.path.exists(path) else "there is no file, folder or dataset"
    raise ValueError(
        f"{lead} {target!r}: describe reads a wiring (.json), a checkpoint or a policy (.safetensors), rollouts "
        "(a Minari id, a folder, .npy, .npz, .csv, .parquet), a recording (.npz), a run's folder, or a plan such as "
        "'AutoNCP(40, 16)'"
    )


def build(text: str, inputs: int | None) -> Wiring:
    """Builds the wiring of a plan that is written as text."""
    from ncp_control.wiring.plan_text import parse_plan

    plan = parse_plan(text)
    if inputs is None:
        raise ValueError(f"a plan is built for a number of inputs: add --inputs, such as describe {text!r} --inputs 8")
    return plan.build(inputs)


def read_wiring(path: Path) -> Wiring:
    """Reads the wiring in a JSON file."""
    try:
        return Wiring.from_json(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise WiringError(f"{path}: this is not text") from error
    except WiringError as error:
        raise WiringError(f"{path}: {error}") from error
