"""`ncp-control convert`: a model of Stable-Baselines3 as a policy file, which runs no code."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from ncp_control.cli.arguments import typed_command


@dataclass
class Arguments:
    """Convert a model of Stable-Baselines3 or sb3-contrib, for example with an LSTM, to a policy file, which runs no
    code and which all other commands read. Reading the .zip does run code from it, in a process of its own.

    Example: ncp-control convert model.zip --algo RecurrentPPO --env CartPole-v1 --out agent.safetensors
    Example: ncp-control convert sac.zip --algo SAC --normalize vecnormalize.pkl --out agent.safetensors
    """

    model: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """The .zip that the model's save wrote."""

    out: Annotated[Path, tyro.conf.arg(metavar="FILE")]
    """The .safetensors file to write; replaced if it exists."""

    algo: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The algorithm that trained the model, such as RecurrentPPO."""

    normalize: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None
    """The file of the VecNormalize that the model was trained under."""

    env: Annotated[str | None, tyro.conf.arg(metavar="ID")] = None
    """The environment that it was trained in, which a .zip does not hold; noted in the new file."""

    json: bool = False
    """Print one JSON object last."""


def run(arguments: Arguments) -> int:
    """Converts a model, and prints what the new file holds and how it was compared."""
    import torch

    from ncp_control.integrations.stock_policies import convert

    torch.set_num_threads(1)  # for a small circuit, more threads wait longer than they compute
    conversion = convert(
        arguments.model,
        arguments.out,
        arguments.algo,
        arguments.normalize,
        arguments.env,
        {"command": typed_command()},
    )
    summary = summary_of(conversion)
    if arguments.json:
        print(json.dumps({"out": str(arguments.out), **summary}))
    else:
        print(in_words(arguments, summary))
    return 0


def summary_of(conversion: Any) -> dict[str, Any]:
    """Returns what was converted, and how it was compared, as JSON values."""
    from gymnasium import spaces

    from ncp_control.rl.policies.circuit import actor_circuit

    policy = conversion.agent.policy
    circuit = actor_circuit(policy)
    wiring = None if circuit is None else circuit.cell.wiring
    return {
        "algorithm": conversion.algorithm,
        "cell": None if circuit is None else type(circuit.cell).__name__,
        "inputs": None if wiring is None else wiring.inputs,
        "units": None if wiring is None else wiring.units,
        "synapses": None if wiring is None else len(wiring.sensory) + len(wiring.synapses),
        "critic": getattr(policy, "circuit_kwargs", {}).get("critic"),
        "parameters": sum(parameter.numel() for parameter in policy.parameters()),
        "normalizes_observations": conversion.agent.normalizes,
        "chooses": not isinstance(conversion.agent.action_space, spaces.Box),
        "observations": conversion.steps,
        "difference": conversion.difference,
        "sha256": conversion.agent.sha256,
    }


CRITICS = {
    "lstm": "its critic's own LSTM",
    "linear": "its critic, a linear map without a memory,",
    "shared": "its critic, which reads the actor's LSTM,",
}


def in_words(arguments: Arguments, summary: dict[str, Any]) -> str:
    """Returns the lines that the command prints."""
    head = f"{arguments.model.name}, {summary['algorithm']}: {summary['parameters']:,} parameters"
    if summary["cell"] is None:
        head += ", without a circuit"
    else:
        head += (
            f"; its circuit has {summary['units']:,} {summary['cell']} neurons, {summary['inputs']:,} inputs and "
            f"{summary['synapses']:,} synapses"
        )
    lines = [head]
    if summary["cell"] == "LSTM" and summary["critic"] in CRITICS:
        lines.append(f"{CRITICS[summary['critic']]} is in the new file too, with the same weights")
    difference = summary["difference"]
    if summary["chooses"]:
        same = "all are the same" if not difference else f"{difference} are others, as at a tie"
        lines.append(f"compared with the model on {summary['observations']} observations: of its choices {same}")
    else:
        lines.append(
            f"compared with the model on {summary['observations']} observations: its actions differ by at most "
            f"{difference:.2g}"
        )
    out, env = shlex.quote(str(arguments.out)), "" if arguments.env else " --env ID"
    if ":" in (arguments.env or ""):  # a file never chooses which module is imported
        env = f" --env {shlex.quote(str(arguments.env))}"
    lines += [
        f"written to {arguments.out}, which runs no code; look at it with",
        f"  ncp-control evaluate {out}{env}",
        f"  ncp-control record {out}{env} --out episode.npz",
    ]
    if summary["cell"] is not None:
        lines.append(f"  ncp-control audit {out} --box 3")
    return "\n".join(lines)
