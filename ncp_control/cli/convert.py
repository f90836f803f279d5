"""`ncp-control convert`: a model of Stable-Baselines3, or what any recurrent network does, as a policy file."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from ncp_control.cli.arguments import typed_command

CLOSE = 0.02  # of the outputs' variance
# The options for one kind of source only.
MODEL, NETWORK = ("algo", "normalize", "env"), ("data", "synapses", "steps", "seed")


@dataclass
class Arguments:
    """Convert a model of Stable-Baselines3 or sb3-contrib, for example with an LSTM, to a policy file, which runs no
    code and which all other commands read. Reading the .zip does run code from it, in a process of its own.

    Any other recurrent network becomes a small liquid circuit that is fitted to its outputs: a torch.nn.LSTM or GRU, an
    LTC or CfC of ncps, or a file of nc.save.

    Example: ncp-control convert model.zip --algo RecurrentPPO --env CartPole-v1 --out agent.safetensors
    Example: ncp-control convert sac.zip --algo SAC --normalize vecnormalize.pkl --out agent.safetensors
    Example: ncp-control convert my_networks:lstm --data inputs.npy --out circuit.safetensors
    """

    model: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """The .zip that the model's save wrote; or a network: MODULE:NAME, which names a module of torch or a function that
    returns one, or a file of nc.save."""

    out: Annotated[Path, tyro.conf.arg(metavar="FILE")]
    """The .safetensors file to write; replaced if it exists."""

    algo: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The algorithm that trained the model, such as RecurrentPPO."""

    normalize: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None
    """The file of the VecNormalize that the model was trained under."""

    env: Annotated[str | None, tyro.conf.arg(metavar="ID")] = None
    """The environment that it was trained in, which a .zip does not hold; noted in the new file."""

    data: Annotated[str | None, tyro.conf.arg(metavar="INPUTS")] = None
    """For a network: sequences of its inputs, a .npy or .npz of (sequences, steps, inputs), or MODULE:FUNCTION, a
    function of a number of sequences and a numpy Generator. By default noise, random walks and sines are drawn."""

    synapses: Annotated[int, tyro.conf.arg(metavar="N")] = 300
    """For a network: the most synapses of the circuit."""

    steps: Annotated[int, tyro.conf.arg(metavar="N")] = 8_000_000
    """For a network: how many steps of sequences the circuit learns from, about half a minute."""

    seed: Annotated[int, tyro.conf.arg(metavar="N")] = 0
    """For a network: the inputs, the wiring and the fit follow from it."""

    json: bool = False
    """Print one JSON object last."""


def run(arguments: Arguments) -> int:
    """Converts a model or a network, and prints what the new file holds and how it was compared."""
    import torch

    torch.set_num_threads(1)  # for a small circuit, more threads wait longer than they compute
    if arguments.model.suffix == ".zip":
        refuse_options(arguments, NETWORK, "a network")
        summary, lines = convert_model(arguments)
    else:
        refuse_options(arguments, MODEL, "a .zip of Stable-Baselines3")
        summary, lines = convert_network(arguments)
    print(json.dumps({"out": str(arguments.out), **summary}) if arguments.json else lines)
    return 0


def refuse_options(arguments: Arguments, names: tuple[str, ...], what: str) -> None:
    """Refuses options that were given and go with another kind of source."""
    for name in names:
        if getattr(arguments, name) != getattr(Arguments, name):
            raise ValueError(f"--{name} goes with {what}, and {arguments.model} is none: leave it out")


def convert_model(arguments: Arguments) -> tuple[dict[str, Any], str]:
    """Converts a model of Stable-Baselines3; returns what was done as JSON values and in words."""
    from ncp_control.integrations.stock_policies import convert

    conversion = convert(
        arguments.model, arguments.out, arguments.algo, arguments.normalize, arguments.env,
        {"command": typed_command()},
    )  # fmt: skip
    summary = summary_of(conversion)
    return summary, in_words(arguments, summary)


def convert_network(arguments: Arguments) -> tuple[dict[str, Any], str]:
    """Fits a circuit to a network; returns what was done as JSON values and in words."""
    from ncp_control.integrations.foreign_networks import follow_network, load_inputs, load_source
    from ncp_control.rl.policies.circuit import actor_circuit

    source, seed = str(arguments.model), arguments.seed
    data = None if arguments.data is None else load_inputs(arguments.data, seed)
    followed = follow_network(
        load_source(source), arguments.out, data, synapses=arguments.synapses, steps=arguments.steps, seed=seed,
        note={"command": typed_command()},
    )  # fmt: skip
    circuit = actor_circuit(followed.agent.policy)
    assert circuit is not None
    wiring, outputs = circuit.cell.wiring, len(followed.errors)
    summary = {
        "source": source, "source_parameters": followed.parameters, "inputs": followed.inputs, "outputs": outputs,
        "data": arguments.data, "units": wiring.units, "synapses": wiring.existing_synapses,
        "sequences": followed.sequences, "steps": followed.steps, "error": followed.error,
        "errors": followed.errors.tolist(), "sha256": followed.agent.sha256,
    }  # fmt: skip
    return summary, network_in_words(arguments, summary)


def network_in_words(arguments: Arguments, summary: dict[str, Any]) -> str:
    """Returns the lines that the command prints of a network."""
    worst = ""
    if summary["outputs"] > 1:
        k = max(range(summary["outputs"]), key=lambda k: summary["errors"][k])
        worst = f" (at most {100 * summary['errors'][k]:.2g} %, of output {k})"
    data = arguments.data or "drawn: noise, random walks and sines with a standard deviation of 1"
    out = shlex.quote(str(arguments.out))
    lines = [
        f"{summary['source']}: {summary['source_parameters']:,} parameters; inputs: {summary['inputs']}, outputs: "
        f"{summary['outputs']}",
        f"fitted to its outputs: a circuit of {summary['units']} DualLTC neurons with {summary['synapses']} synapses",
        f"sequences of inputs: {data}",
        f"on {summary['sequences']} test sequences of {summary['steps']} steps, the circuit's error is "
        f"{100 * summary['error']:.2g} % of the outputs' variance{worst}",
    ]
    if summary["error"] > CLOSE:
        lines.append("that is not close: try --data with the inputs that the network knows, more --synapses or --steps")
    lines += [
        f"written to {arguments.out}, an agent whose observations are the inputs and whose actions are the outputs:",
        f"  ncp-control describe {out}",
        f"  ncp-control audit {out} --box 3",
        f"  ncp-control export {out} --to c --steps 0 --out robot",
    ]
    return "\n".join(lines)


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
        "synapses": None if wiring is None else wiring.existing_synapses,
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
