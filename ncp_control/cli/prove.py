"""`ncp-control prove`: what is certain about a circuit and its body, from every start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass
class Arguments:
    """Prove that a circuit keeps its body where it has to be: from every start in a box, with errors of the sensors and
    the rounding of float32, and for ever. The bodies are single-pendulum, double-pendulum, tora, balanced-cart and
    weak-pendulum.

    Example: ncp-control prove upright.safetensors --body single-pendulum --train
    """

    checkpoint: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="AGENT")]
    """The .safetensors file of a policy with a circuit of DualLTC neurons."""

    body: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The body. The default is the one that the agent was trained on."""

    train: bool = False
    """Train a circuit on the body first, in about a minute, and write it to AGENT."""

    wiring: Annotated[str, tyro.conf.arg(metavar="PLAN")] = "8"
    """With --train: a plan, such as "AutoNCP(12, 4)", or a number of fully connected neurons."""

    seed: int = 0
    """Random seed of --train, --attack and --rests."""

    error: float = 0.01
    """The greatest error of a sensor, as a share of the body's scale."""

    cells: int = 256
    """The number of parts of the starts at which to give up."""

    attack: Annotated[int, tyro.conf.arg(metavar="BODIES")] = 0
    """Look for a body that leaves what was proved, among so many. Ten million take some minutes."""

    rests: Annotated[int, tyro.conf.arg(metavar="BODIES")] = 0
    """Follow so many bodies from anywhere, and prove the rests to which they come."""

    html: Path | None = None
    """A page with phase portraits of the tube, the cells, and the set that no body leaves."""

    monitor: Annotated[Path | None, tyro.conf.arg(metavar="JSON")] = None
    """What was proved, and the ranges that observations and neurons keep, for ncp-control export."""

    json: bool = False
    """Print one JSON object last."""


def run(arguments: Arguments) -> int:
    """Proves the claims, and prints what was shown; exit code 1 if they were not, or if a body left what was."""
    import torch

    from ncp_control.base.files import write_atomically
    from ncp_control.base.sections import text_of
    from ncp_control.cli.arguments import screen_width
    from ncp_control.cli.outputs import check_outputs
    from ncp_control.loop.proof import attacked, monitor_of, prove, with_rests, write_proof
    from ncp_control.loop.proof.printed import sections_of
    from ncp_control.rl import load_policy

    for option, count in (("--attack", arguments.attack), ("--rests", arguments.rests)):
        if count < 0:
            raise ValueError(f"{option} counts bodies, so it is 0 or more, got {count}")
    check_outputs({"--html": arguments.html, "--monitor": arguments.monitor}, [arguments.checkpoint])
    torch.set_num_threads(1)  # for a small circuit, more threads wait longer than they compute
    if arguments.train:
        train(arguments)
    agent = load_policy(arguments.checkpoint)
    body = arguments.body or body_in(agent.note, arguments.checkpoint)
    proof = prove(agent, body, error=arguments.error, most=arguments.cells)
    if arguments.attack and proof.shown:
        proof = attacked(agent, proof, arguments.attack, seed=arguments.seed)
    if arguments.rests:
        proof = with_rests(agent, proof, arguments.rests, seed=arguments.seed)
    certain = proof.shown and not (proof.attack and proof.attack.left)
    if arguments.html is not None:
        write_proof(agent, proof, arguments.html, arguments.seed)
    if arguments.monitor is not None and certain:
        write_atomically(arguments.monitor, monitor_of(proof).to_json().encode("utf-8"))
    print(proof.to_json() if arguments.json else text_of(sections_of(proof), screen_width()).rstrip("\n"))
    if not arguments.json:
        for what, path, written in (("page", arguments.html, True), ("monitor", arguments.monitor, certain)):
            if path is not None:
                print(f"{what}: {path if written else 'not written, for the claims are not shown'}")
    return 0 if certain else 1


def train(arguments: Arguments) -> None:
    """Trains a circuit and writes it."""
    from ncp_control.cli.arguments import typed_command
    from ncp_control.cli.outputs import check_outputs
    from ncp_control.loop.proof import body_named, teach, write_taught
    from ncp_control.wiring.plan_text import parse_plan
    from ncp_envs.equations import BODIES

    if arguments.body is None:
        raise ValueError(f"--train needs a body: add --body NAME, one of {', '.join(BODIES)}")
    body = body_named(arguments.body)
    check_outputs({"AGENT": arguments.checkpoint})
    plan = int(arguments.wiring) if arguments.wiring.isdigit() else parse_plan(arguments.wiring)
    taught = teach(body, plan, seed=arguments.seed, progress=True)
    note = {"command": typed_command(), "seed": arguments.seed}
    write_taught(body, taught, arguments.checkpoint, note)


def body_in(note: dict[str, object], path: Path) -> str:
    """Returns the body that an agent was trained on."""
    from ncp_envs.equations import BODIES

    for name, body in BODIES.items():
        if note.get("env") == body.env:
            return name
    raise ValueError(f"{path} was trained on none of the bodies: add --body NAME, one of {', '.join(BODIES)}")
