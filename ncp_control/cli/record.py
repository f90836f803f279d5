"""`ncp-control record`: what a circuit does while its agent acts, or a model predicts."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro


@dataclass
class Arguments:
    """Record an agent's rollout, or a model's run over one: every neuron, synapse and time constant, step by step.

    Example: ncp-control record checkpoints/halfcheetah.safetensors --steps 1000 --out episode.npz
    """

    checkpoint: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="CHECKPOINT")]
    """A policy's or a model's .safetensors file."""

    out: Path = Path("episode.npz")
    """The recording; replaced if it exists."""

    steps: int | None = None
    """How many steps; by default 1000, or a model's whole rollout."""

    episodes: int | None = None
    """Or how many whole episodes."""

    seed: int = 0
    """Of the first episode; the next ones follow."""

    env: Annotated[str | None, tyro.conf.arg(metavar="ID")] = None
    """The environment; by default the one that the checkpoint was trained in."""

    random: Annotated[float, tyro.conf.arg(metavar="P")] = 0.0
    """The probability that a step's action is overwritten by a random one."""

    sample: bool = False
    """Draw the policy's actions instead of taking their mode."""

    silence: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NEURON ...")] = ()
    """Hold these neurons at 0."""

    clamp: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NEURON=VALUE ...")] = ()
    """Hold these neurons at other values, such as command1=0.5."""

    cut: Annotated[tuple[str, ...], tyro.conf.arg(metavar="SYNAPSE ...")] = ()
    """Cut these synapses, such as "inter3->command0"."""

    data: str | None = None
    """Of a model: the rollouts, of which it reads one."""

    rollout: int = 0
    """Of a model: which of them."""

    look: int | None = None
    """Of a model: steps for which it looks before it feeds itself; by default all."""

    json: bool = False
    """Print one JSON object last."""


def run(arguments: Arguments) -> int:
    """Record and say where it is."""
    import torch

    from ncp_control.storage.safe_tensors import read_kind

    torch.set_num_threads(1)
    kind = read_kind(arguments.checkpoint) if arguments.checkpoint.is_file() else None
    found = record_model(arguments) if kind == "ncp_control.dynamics" else record_policy(arguments)
    rewards = found.get("rewards")
    episodes = int(found.episode_starts.sum())
    gained = "" if rewards is None else f", reward {float(rewards.sum()):,.1f}"
    size, synapses = arguments.out.stat().st_size, len(found.wiring.synapses) + len(found.wiring.sensory)
    if arguments.json:
        reward = None if rewards is None else float(rewards.sum())
        told = {
            "out": str(arguments.out), "bytes": size, "steps": found.steps, "episodes": episodes, "reward": reward,
            "neurons": found.wiring.units, "synapses": synapses,
        }  # fmt: skip
        print(json.dumps(told))
        return 0
    print(
        f"{found.steps:,} steps of {episodes} episode{'s' if episodes != 1 else ''}{gained}, "
        f"{found.wiring.units} neurons, {synapses} synapses\n"
        f"written to {arguments.out} ({size / 1e6:.1f} MB)\n"
        f"look at it:  ncp-control view {shlex.quote(str(arguments.out))}"
    )
    return 0


def record_policy(arguments: Arguments) -> Any:
    """Of an agent."""
    from ncp_control.activity import record
    from ncp_control.cli import trained_in
    from ncp_control.rl import load_policy

    if arguments.data is not None or arguments.look is not None:
        raise ValueError(f"--data and --look are for models of the dynamics, and {arguments.checkpoint} is none")
    policy = load_policy(arguments.checkpoint)
    note = policy.note
    name = trained_in.env_name(arguments.checkpoint, note, arguments.env)
    wrappers: list[Any] = [{"RandomActionOverwrite": {"probability": arguments.random}}] if arguments.random else []
    env = trained_in.make(name, note, wrappers)
    try:
        return record(
            policy,
            env,
            arguments.out,
            arguments.steps,
            arguments.episodes,
            seed=arguments.seed,
            deterministic=not arguments.sample,
            hold=held(arguments),
            cut=arguments.cut,
            controller=arguments.checkpoint.stem,
            note={"sha256": policy.sha256, **({"steps": note["steps"]} if "steps" in note else {})},
        )
    finally:
        env.close()


def held(arguments: Arguments) -> dict[str, float]:
    """Neurons and the values at which they are held."""
    values = dict.fromkeys(arguments.silence, 0.0)
    for text in arguments.clamp:
        name, equals, value = text.partition("=")
        try:
            values[name] = float(value)
        except ValueError:
            raise ValueError(f"--clamp takes NEURON=VALUE, such as command1=0.5, not {text!r}") from None
        if not equals:
            raise ValueError(f"--clamp takes NEURON=VALUE, such as command1=0.5, not {text!r}")
    return values


def record_model(arguments: Arguments) -> Any:
    """Of a model of the dynamics."""
    from ncp_control.activity import record_model
    from ncp_control.data import Rollouts
    from ncp_control.dynamics import load_model

    if arguments.data is None:
        raise ValueError(f"{arguments.checkpoint} holds a model of the dynamics: add --data, rollouts for it to read")
    if arguments.silence or arguments.clamp or arguments.cut:
        raise ValueError("neurons are silenced in agents; a model's circuit is recorded whole")
    rollouts = Rollouts.load(arguments.data)
    if not 0 <= arguments.rollout < len(rollouts):
        raise ValueError(f"{arguments.data} has {len(rollouts)} rollouts: --rollout is 0 to {len(rollouts) - 1}")
    model = load_model(arguments.checkpoint)
    rollout = rollouts[arguments.rollout]
    return record_model(model, rollout, arguments.out, warm_up=arguments.look, steps=arguments.steps)
