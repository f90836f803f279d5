"""`ncp-control describe`: what is in a wiring, a plan, a checkpoint, a policy, a model of the dynamics or rollouts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ncp_control.wiring import Wiring, WiringError

if TYPE_CHECKING:
    from torch import Tensor

    from ncp_control.rnn import RNN

Described = dict[str, Any]


@dataclass
class Arguments:
    """Say what is in a wiring, a plan or a checkpoint: its layers and synapses, and for a checkpoint also its cell, its
    bounds, and whether they are guaranteed. Say what is in rollouts: returns, random actions, ranges, how they were
    made. Say what the file of a policy, or of a model of the dynamics, holds.
    """

    target: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TARGET")]
    """A wiring's .json file, a checkpoint's or a policy's .safetensors file, or a plan such as "AutoNCP(40, 16)"; for
    rollouts a Minari id, a Minari folder, a folder of traces, or one .npy or .npz trace."""

    inputs: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """How many inputs a plan is built for; wirings and checkpoints know theirs."""

    figure: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Draw rollouts into a .png, .svg or .pdf file."""

    json: bool = False
    """Print one JSON object; a bound that does not exist is null."""


def run(arguments: Arguments) -> int:
    """Print the description."""
    from ncp_control.cli import describe_model, describe_policy, describe_rollouts

    target, path = arguments.target, Path(arguments.target)
    is_plan = "(" in target and not os.path.exists(path)
    if arguments.inputs is not None and not is_plan:
        raise ValueError(f"--inputs is for plans; {target} knows its own")
    if not is_plan and path.suffix not in (".json", ".safetensors") and describe_rollouts.is_rollouts(target):
        rollouts = describe_rollouts.describe(target, arguments.figure)
        return tell(arguments, {"rollouts": rollouts}, lambda: describe_rollouts.show(rollouts))
    if arguments.figure is not None:
        raise ValueError(f"--figure draws rollouts, and {target!r} is none")
    kind = kind_of(path) if path.suffix == ".safetensors" else None
    if kind == "ncp_control.dynamics":
        model = describe_model.describe(path)
        return tell(arguments, {"model": model}, lambda: describe_model.show(model))
    if kind == "ncp_control.policy":
        policy = describe_policy.describe(path)
        return tell(arguments, {"policy": policy}, lambda: describe_policy.show(policy))
    checkpoint = None
    if is_plan:
        wiring = build(target, arguments.inputs)
    elif path.suffix == ".json":
        wiring = read_wiring(path)
    elif path.suffix == ".safetensors":
        wiring, checkpoint = read_checkpoint(path)
    else:
        lead = "there is no file, folder or dataset" if not os.path.exists(path) else "cannot tell what is in"
        raise ValueError(
            f"{lead} {target!r}: describe reads a wiring (.json), a checkpoint or a policy (.safetensors), rollouts "
            "(a Minari id, a folder, .npy, .npz) or a plan such as 'AutoNCP(40, 16)'"
        )
    described = {"wiring": describe_wiring(wiring), "checkpoint": checkpoint}
    return tell(arguments, described, lambda: show_wiring(wiring, checkpoint))


def tell(arguments: Arguments, described: Described, show: Callable[[], None]) -> int:
    """Print a description as JSON or in words; always possible, so 0."""
    if arguments.json:
        print(json.dumps({"target": arguments.target, **described}, indent=2, allow_nan=False))
    else:
        show()
    return 0


def kind_of(path: Path) -> str | None:
    """What a safetensors file says that it holds."""
    from ncp_control.safe_file import read_kind

    return read_kind(path)


def show_wiring(wiring: Wiring, checkpoint: Described | None) -> None:
    """A wiring, and the checkpoint that it is of, for the terminal."""
    print(wiring.summary())
    if checkpoint is not None:
        print()
        show_checkpoint(checkpoint)


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


def read_checkpoint(path: Path) -> tuple[Wiring, Described]:
    """The wiring of a checkpoint, and what there is to say about its cell."""
    from ncp_control.checkpoint import load, read_metadata

    metadata, rnn = read_metadata(path), load(path)
    written = {"by": f"ncp-control {metadata['package']}", "format": metadata["version"], "note": metadata["note"]}
    return rnn.wiring, {**describe_rnn(rnn), "written": written}


def describe_wiring(wiring: Wiring) -> Described:
    """Sizes and counts, as JSON values."""
    return {
        "inputs": wiring.inputs,
        "units": wiring.units,
        "outputs": wiring.outputs,
        "layers": {name: neurons.stop - neurons.start for name, neurons in wiring.layers.items()},
        "sensory_synapses": len(wiring.sensory),
        "synapses": len(wiring.synapses),
        "gap_junctions": len(wiring.gap_junctions),
        "density": wiring.density,
    }


def describe_rnn(rnn: RNN) -> Described:
    """A cell, its settings, its size, the backend that would run it, and its bounds, as JSON values."""
    import torch

    from ncp_control.ops import explain_backends

    cell = rnn.cell
    backends = explain_backends(cell, torch.zeros(1, 1, cell.inputs, dtype=cell.dtype))
    runs = next((name for name, (able, _) in backends.items() if able), None) if rnn.backend == "auto" else rnn.backend
    parts = rnn.wiring.layers
    if cell.state_size > rnn.wiring.units:
        parts = {**parts, "memory": slice(rnn.wiring.units, cell.state_size)}
    time_constants, states = cell.time_constant_bounds(), cell.state_bounds()
    return {
        "cell": type(cell).__name__,
        "config": cell.config(),
        "parameters": sum(parameter.numel() for parameter in rnn.parameters()),
        "backend": {"asked": rnn.backend, "runs": runs},
        "guarantee": {"holds": cell.guarantee.holds, "reason": cell.guarantee.reason},
        "time_constants": bounds(time_constants, rnn.wiring.layers),
        "states": bounds(states, parts),
    }


def bounds(low_and_high: tuple[Tensor, Tensor], parts: dict[str, slice]) -> dict[str, list[float | None]]:
    """The lowest and the highest bound among all neurons and among each part of them; None where there is no bound."""
    import torch

    low, high = (bound.detach() for bound in low_and_high)
    found: dict[str, list[float | None]] = {}
    for name, neurons in {"all": slice(None), **parts}.items():
        ends = torch.stack([low[neurons].min(), high[neurons].max()])
        found[name] = [end if torch.isfinite(torch.tensor(end)) else None for end in ends.tolist()]
    return found


def show_checkpoint(checkpoint: Described) -> None:
    """What `read_checkpoint` found, for the terminal."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    facts = Table.grid(padding=(0, 2))
    backend, guarantee, written = checkpoint["backend"], checkpoint["guarantee"], checkpoint["written"]
    facts.add_row("cell", checkpoint["cell"])
    facts.add_row("settings", escape(listed(checkpoint["config"])))
    facts.add_row("parameters", f"{checkpoint['parameters']:,}")
    facts.add_row("backend", backend["asked"] + (f", here {backend['runs']}" if backend["asked"] == "auto" else ""))
    facts.add_row("bounds hold", f"{'yes' if guarantee['holds'] else 'no'}: {escape(guarantee['reason'])}")
    facts.add_row("written by", f"{written['by']}, format {written['format']}")
    if written["note"]:
        facts.add_row("note", escape(listed(written["note"])))
    console.print(facts)

    table = Table("layer", "time constants", "states")
    for name in checkpoint["states"]:
        table.add_row(name, interval(checkpoint["time_constants"].get(name)), interval(checkpoint["states"][name]))
    console.print(table)


def listed(values: dict[str, Any]) -> str:
    """Names and values in one line."""
    return ", ".join(f"{key}={value!r}" for key, value in values.items())


def interval(ends: list[float | None] | None) -> str:
    """Two bounds in words."""
    if ends is None:
        return ""
    low, high = ("unbounded" if end is None else f"{end:.4g}" for end in ends)
    return low if low == high else f"{low} to {high}"
