"""`ncp-control ablate`: which neurons of an agent matter to its return."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ncp_control.base.text import shown


@dataclass
class Arguments:
    """Silence one neuron after another, and print the agent's return without it.

    Example: ncp-control ablate checkpoints/halfcheetah.safetensors --episodes 2 --out ablation.csv
    """

    checkpoint: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="CHECKPOINT")]
    """The .safetensors file of a policy."""

    neurons: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NEURON ...")] = ()
    """The neurons to silence, such as inter3 command1. The default is all."""

    value: float = 0.0
    """The value at which a silenced neuron is held. Every state starts at 0."""

    episodes: int = 3
    """Episodes for each neuron, with the same seeds for every neuron."""

    seed: int = 0
    """Seed of the first episode; the following episodes use the following numbers."""

    env: Annotated[str | None, tyro.conf.arg(metavar="ID")] = None
    """The environment. The default is the one that the checkpoint was trained in."""

    out: Path | None = None
    """A .csv file for the table; it is updated after every neuron."""

    json: bool = False
    """Print one JSON object last."""


def run(arguments: Arguments) -> int:
    """Silences the neurons and prints the table."""
    import numpy as np
    import torch

    from ncp_control.activity.recording.interventions import ablate
    from ncp_control.cli import trained_in
    from ncp_control.rl import load_policy

    torch.set_num_threads(1)  # for a small circuit, more threads wait longer than they compute
    policy = load_policy(arguments.checkpoint)
    note = policy.note
    name = trained_in.env_name(arguments.checkpoint, note, arguments.env)
    if arguments.out is not None and not arguments.out.parent.is_dir():
        raise FileNotFoundError(f"the folder {arguments.out.parent} does not exist: create it first")
    whole, silenced = ablate(
        policy,
        lambda: trained_in.make(name, note),
        arguments.neurons or None,
        value=arguments.value,
        episodes=arguments.episodes,
        seed=arguments.seed,
        out=arguments.out,
    )
    mean = float(np.mean(whole))
    if arguments.json:
        rows = [{"neuron": neuron.name, "layer": neuron.layer, "returns": neuron.returns} for neuron in silenced]
        print(json.dumps({"whole": whole, "neurons": rows}))
        return 0
    names = [shown(neuron.name) for neuron in silenced]
    width = max(map(len, ("whole circuit", *names)))
    has_share = mean > 0  # a share of a negative return would mean nothing
    print(f"{'silenced'.ljust(width)}  {'layer':<8}  {'return':>10}  {'change':>10}" + "    left" * has_share)
    print(f"{'whole circuit'.ljust(width)}  {'':<8}  {mean:>10,.1f}")
    for name, neuron in zip(names, silenced, strict=True):
        left = f"  {neuron.mean / mean:>6.0%}" if has_share else ""
        print(f"{name.ljust(width)}  {neuron.layer:<8}  {neuron.mean:>10,.1f}  {neuron.mean - mean:>+10,.1f}{left}")
    if arguments.out is not None:
        print(f"written to {arguments.out}")
    return 0
