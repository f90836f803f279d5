"""`ncp-control record`: what a circuit does while its agent acts or its model predicts."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro


@dataclass
class Arguments:
    """Record a rollout of an agent, or a model's predictions over a rollout: every neuron, synapse and time constant.

    Example: ncp-control record checkpoints/halfcheetah.safetensors --steps 1000 --out episode.npz
    """

    checkpoint: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="CHECKPOINT")]
    """The .safetensors file of a policy or a dynamics model."""

    out: Path = Path("episode.npz")
    """The file for the recording. It is replaced if it exists."""

    steps: int | None = None
    """How many steps to record. The default is 1000, or a model's whole rollout."""

    episodes: int | None = None
    """Number of whole episodes to record, instead of --steps."""

    seed: int = 0
    """Seed of the first episode; the following episodes use the following numbers."""

    env: Annotated[str | None, tyro.conf.arg(metavar="ID")] = None
    """The environment. The default is the one that the checkpoint was trained in."""

    random: Annotated[float | None, tyro.conf.arg(metavar="P")] = None
    """Share of random actions. The default is the training's."""

    sample: bool = False
    """Sample the policy's actions instead of taking the deterministic action."""

    after: Annotated[Path | None, tyro.conf.arg(metavar="EPISODE")] = None
    """Go on where this recording ended."""

    silence: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NEURON ...")] = ()
    """Hold these neurons at 0."""

    clamp: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NEURON=VALUE ...")] = ()
    """Hold these neurons at the given values, such as command1=0.5."""

    cut: Annotated[tuple[str, ...], tyro.conf.arg(metavar="SYNAPSE ...")] = ()
    """Cut these synapses, such as "inter3->command0"."""

    data: str | None = None
    """For a dynamics model: the rollouts; the model reads one of them."""

    rollout: int = 0
    """For a dynamics model: the number of the rollout that it reads, from 0."""

    look: int | None = None
    """For a dynamics model: in how many steps it reads the rollout's observations; afterwards it reads its own
    predictions. The default is all steps."""

    json: bool = False
    """Print one JSON object last."""


def run(arguments: Arguments) -> int:
    """Records, and prints what was recorded and where it is."""
    import torch

    from ncp_control.base.kinds import Kind, kind_of
    from ncp_control.base.progress import say

    torch.set_num_threads(1)  # for a small circuit, more threads wait longer than they compute
    is_model = kind_of(arguments.checkpoint) is Kind.DYNAMICS
    activity = record_model(arguments) if is_model else record_policy(arguments)
    if reason := activity.about.get("pictures", {}).get("reason"):
        say(f"a video of this recording shows the circuit alone: {reason}")
    rewards = activity.get("rewards")
    episodes = max(1, int(activity.episode_starts.sum()))
    gained = "" if rewards is None else f", reward {float(rewards.sum()):,.1f}"
    size, synapses = arguments.out.stat().st_size, activity.wiring.existing_synapses
    if arguments.json:
        reward = None if rewards is None else float(rewards.sum())
        summary = {
            "out": str(arguments.out), "bytes": size, "steps": activity.steps, "episodes": episodes, "reward": reward,
            "neurons": activity.wiring.units, "synapses": synapses,
        }  # fmt: skip
        print(json.dumps(summary))
        return 0
    print(
        f"{activity.steps:,} steps of {episodes} episode{'s' if episodes != 1 else ''}{gained}, "
        f"{activity.wiring.units} neurons, {synapses} synapses\n"
        f"written to {arguments.out} ({size / 1e6:.1f} MB)\n"
        f"look at it:  ncp-control view {shlex.quote(str(arguments.out))}"
    )
    return 0


def record_policy(arguments: Arguments) -> Any:
    """Records an agent."""
    from ncp_control.activity import record
    from ncp_control.base.files import name_of
    from ncp_control.cli import trained_in
    from ncp_control.rl import load_policy

    policy = load_policy(arguments.checkpoint)
    before = None if arguments.after is None else recorded_before(arguments.after, policy)
    if arguments.data is not None or arguments.look is not None:
        raise ValueError(f"--data and --look are for dynamics models, but {arguments.checkpoint} holds a policy")
    note = policy.note
    name = trained_in.env_name(arguments.checkpoint, note, arguments.env)
    env = trained_in.make_drawing(name, note, random=arguments.random, **trained_in.AS_MADE)
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
            controller=name_of(arguments.checkpoint),
            after=before,
            note={"sha256": policy.sha256, **({"steps": note["steps"]} if "steps" in note else {})},
        )
    finally:
        env.close()


def recorded_before(path: Path, policy: Any) -> Any:
    """Reads the recording that is to be continued, and refuses one of another agent."""
    from ncp_control.activity.recording.activity import Activity

    activity = Activity.load(path)
    if activity.about.get("note", {}).get("sha256") != policy.sha256:
        raise ValueError(f"{path} was recorded with another agent than {policy.name}: name the agent that it shows")
    return activity


def held(arguments: Arguments) -> dict[str, float]:
    """Returns the neurons that are held, and the values at which they are held."""
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
    """Records a dynamics model."""
    from ncp_control.activity import record_model
    from ncp_control.base.files import name_of
    from ncp_control.cli.models import check_columns
    from ncp_control.data import Rollouts
    from ncp_control.dynamics import load_model

    if arguments.data is None:
        raise ValueError(f"{arguments.checkpoint} holds a dynamics model: add --data, the rollouts that it should read")
    if arguments.silence or arguments.clamp or arguments.cut or arguments.after is not None:
        raise ValueError("--silence, --clamp, --cut and --after are for agents: a model is recorded unchanged")
    rollouts = Rollouts.load(arguments.data)
    if not 0 <= arguments.rollout < len(rollouts):
        raise ValueError(f"{arguments.data} has {len(rollouts)} rollouts: --rollout is 0 to {len(rollouts) - 1}")
    model = load_model(arguments.checkpoint)
    check_columns(model, arguments.checkpoint, rollouts, arguments.data)
    rollout = rollouts[arguments.rollout]
    return record_model(
        model, rollout, arguments.out, warm_up=arguments.look, steps=arguments.steps,
        controller=name_of(arguments.checkpoint),
    )  # fmt: skip
