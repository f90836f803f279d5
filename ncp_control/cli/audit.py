"""`ncp-control audit`: what is proved about an agent."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from ncp_control.base.text import shown
from ncp_control.cli.outputs import check_outputs

BROKEN = 1  # the exit code if an attack has broken a claim


@dataclass
class Arguments:
    """Prove what an agent can never do: the ranges of its actions and neurons, how far errors move it, whether it
    forgets, which parts cannot matter. The proof holds for all observations inside a box, and an attack tests it.

    Example: ncp-control audit checkpoints/halfcheetah-positions.safetensors --box 3 --attack 1000000
    """

    checkpoint: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="CHECKPOINT")]
    """The .safetensors file of a policy."""

    other: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[OTHER]")] = None
    """A second policy, to compare with the first."""

    within: Annotated[Path | None, tyro.conf.arg(metavar="EPISODE")] = None
    """Take the range of a recording's observations, widened by a tenth, as the box. Default: the observation space."""

    box: float | None = None
    """Take this many standard deviations around the mean of the training as the box."""

    elapsed: Annotated[tuple[float, ...], tyro.conf.arg(metavar="LEAST MOST")] = ()
    """The shortest and the longest time between two observations. The default is one step of the training."""

    error: float = 0.01
    """The size of the errors of each observation, in standard deviations of the training."""

    epsilon: float = 0.01
    """A difference counts as forgotten if it is below this share of the range of the neuron or action."""

    attack: int = 200_000  # ATTACK of ncp_control.audit.attack, without an import of torch
    """Number of observations with which to attack the claims; 0: no attack. If a claim breaks, the exit code is 1."""

    seed: int = 0
    """Seed of the attack."""

    env: Annotated[str | None, tyro.conf.arg(metavar="ID")] = None
    """The environment that names observations and actions. The default is the one that the checkpoint was trained in.
    """

    html: Path | None = None
    """A page with the wiring, every neuron and every synapse."""

    markdown: Path | None = None
    """A file with all tables, in Markdown."""

    monitor: Annotated[Path | None, tyro.conf.arg(metavar="JSON")] = None
    """The certified ranges, for `Controller` and `ncp-control export`."""

    json: bool = False
    """Print one JSON object last."""


def run(arguments: Arguments) -> int:
    """Audits one agent or two, and prints the certificate."""
    check(arguments)
    import torch

    from ncp_control.rl import load_policy

    torch.set_num_threads(1)  # for a small circuit, more threads wait longer than they compute
    agents = [load_policy(path) for path in (arguments.checkpoint, arguments.other) if path is not None]
    certificates = [certificate_of(arguments, agent) for agent in agents]
    held = all(certificate.holds for certificate in certificates)
    write(arguments, certificates)
    show(arguments, certificates)
    return 0 if held else BROKEN


def check(arguments: Arguments) -> None:
    """Refuses what cannot be done before the work begins."""
    if arguments.within is not None and arguments.box is not None:
        raise ValueError("--within and --box are two boxes: give one of the two")
    if len(arguments.elapsed) not in (0, 2):
        raise ValueError(
            f"--elapsed takes two numbers, the shortest and the longest time, and got {len(arguments.elapsed)}"
        )
    outputs = {"--html": arguments.html, "--markdown": arguments.markdown, "--monitor": arguments.monitor}
    if arguments.other is not None:
        for option, path in outputs.items():
            if path is not None and option != "--markdown":
                raise ValueError(f"{option} shows one agent: name one checkpoint")
    check_outputs(outputs, (arguments.checkpoint, arguments.other, arguments.within))


def certificate_of(arguments: Arguments, agent: Any) -> Any:
    """Audits one agent."""
    from dataclasses import replace

    from ncp_control.audit import audit

    recording = None if arguments.within is None else recorded(arguments.within, agent)
    elapsed = (arguments.elapsed[0], arguments.elapsed[1]) if arguments.elapsed else None
    certificate = audit(
        agent,
        box=arguments.box if recording is None else recording.observations,
        elapsed=elapsed,
        error=arguments.error,
        epsilon=arguments.epsilon,
        recording=recording,
        attack=arguments.attack,
        seed=arguments.seed,
        **names_in(agent, arguments.env),
    )
    if arguments.within is None:
        return certificate
    return replace(certificate, box=f"{certificate.box}, of {arguments.within.name}")


def recorded(path: Path, agent: Any) -> Any:
    """Reads a recording, and refuses one that the agent cannot read, or that was made with another circuit than its
    own.
    """
    import numpy as np

    from ncp_control.activity.recording.activity import Activity
    from ncp_control.audit.recorded import RecordedPath
    from ncp_control.rl.controller import Controller, read_vector

    activity = Activity.load(path)
    observations = np.asarray(activity.observations, dtype=np.float64)
    size = read_vector(agent.observation_space)[1].shape[0]
    if observations.ndim != 2 or observations.shape[1] != size:
        reads = (
            f"{observations.shape[1]} observations" if observations.ndim == 2 else "observations that are no vectors"
        )
        raise ValueError(f"{path} holds {reads} a step, and {agent.name} reads {size}: record one of its own episodes")
    if not len(observations) or not np.isfinite(observations).all():
        raise ValueError(f"{path} holds no observations, or some that are not finite: record another episode")
    changed = activity.about.get("silenced")
    if changed:
        raise ValueError(
            f"{path} was recorded with {', '.join(map(shown, changed))} held or cut, and the audit is of the whole "
            "circuit: record it without --silence, --clamp and --cut"
        )
    if activity.about.get("after"):
        raise ValueError(
            f"{path} continues another recording, and an audit begins at an episode's start: name that one"
        )
    elapsed = activity.get("elapsed")
    if elapsed is None:  # it lies among what the circuit reads, or was always 1
        elapsed = activity.inputs[:, -1] if Controller(agent).reads_elapsed else np.ones(len(observations))
    return RecordedPath(observations, np.asarray(elapsed, dtype=np.float64), activity.episode_starts.astype(bool))


def names_in(agent: Any, asked: str | None) -> dict[str, Any]:
    """Returns the names of sensors and actions in the environment that was asked for, or else in that of the training,
    as far as it can be made here.
    """
    from ncp_control.cli import trained_in
    from ncp_control.cli.named_numbers import names_of

    try:
        env = trained_in.make(trained_in.env_name(Path(agent.name), agent.note, asked), agent.note)
    except Exception:  # whatever is missing here: names are a service, and an audit needs no environment
        if asked:
            raise
        return {}
    try:
        return names_of(env, agent)
    finally:
        env.close()


def write(arguments: Arguments, certificates: list[Any]) -> None:
    """Writes the files that were asked for."""
    from ncp_control.base.files import write_atomically

    if arguments.html is not None:
        from ncp_control.audit.page import write_certificate

        write_certificate(certificates[0], arguments.html)
    if arguments.markdown is not None:
        from ncp_control.audit.printed import as_markdown, side_by_side_markdown

        text = (
            as_markdown(certificates[0])
            if len(certificates) == 1
            else side_by_side_markdown(certificates[0], certificates[1])
        )
        write_atomically(arguments.markdown, text.encode("utf-8"))
    if arguments.monitor is not None:
        write_atomically(arguments.monitor, certificates[0].monitor().to_json().encode("utf-8"))


def show(arguments: Arguments, certificates: list[Any]) -> None:
    """Prints one certificate, or two beside each other, and where the files are."""
    from ncp_control.audit.printed import as_text, side_by_side
    from ncp_control.base.progress import say
    from ncp_control.cli.arguments import screen_width

    if arguments.json:
        for certificate in certificates:
            for broken in () if certificate.attack is None else certificate.attack.violations:
                say(f"{certificate.agent}: an attack broke a claim: {broken}")
        values = [json.loads(certificate.to_json()) for certificate in certificates]
        print(json.dumps(values[0] if len(values) == 1 else {"certificates": values}))
        return
    width = screen_width()
    print(
        as_text(certificates[0], width)
        if len(certificates) == 1
        else side_by_side(certificates[0], certificates[1], width),
        end="",
    )
    for what, path in (("page", arguments.html), ("tables", arguments.markdown), ("monitor", arguments.monitor)):
        if path is not None:
            print(f"{what}: {path}")
