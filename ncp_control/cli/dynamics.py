"""`ncp-control dynamics`: what an agent and its body do together in the long run."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import tyro

RECORDED = 300  # steps on each attractor


@dataclass
class Arguments:
    """Analyse an agent and its body as one system: where many starts lead, whether the agent comes to rest, repeats a
    cycle or moves chaotically, how fast small differences grow, and how far errors of its sensors carry.

    Example: ncp-control dynamics checkpoints/halfcheetah.safetensors --html loop.html
    """

    checkpoint: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="AGENT")]
    """The .safetensors file of a policy, with or without a memory."""

    starts: int = 10
    """Number of episodes that are followed, and of starts from which exponents are measured."""

    thrown: int = 30
    """Number of further starts from any pose, such as on its back."""

    steps: int = 1000
    """Steps of each, after which it counts as settled."""

    measured: int = 500
    """Steps over which exponents are measured."""

    seed: int = 0
    """Seed of the first episode, and of the poses."""

    synapses: bool = False
    """Go on without each synapse as well, which takes a tenth of a second for each."""

    env: Annotated[str | None, tyro.conf.arg(metavar="ID")] = None
    """The environment. The default is the one that the agent was trained in, without its disturbances."""

    html: Path | None = None
    """A page with tables and figures."""

    figures: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """A folder for the figures, as SVG."""

    record: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """A folder for recordings, 300 steps on each attractor, for ncp-control view."""

    lab: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None
    """A laboratory in which the agent runs on from the ends of the recordings of --record."""

    json: bool = False
    """Print one JSON object last."""


def run(arguments: Arguments) -> int:
    """Analyses the agent, and prints what was found."""
    import torch

    from ncp_control.activity.recording.environment import seconds_per_step
    from ncp_control.activity.recording.interventions import circuit_of
    from ncp_control.base.files import name_of
    from ncp_control.base.kinds import Kind, kind_of
    from ncp_control.base.pages import save_figure
    from ncp_control.base.sections import text_of
    from ncp_control.cli import trained_in
    from ncp_control.cli.arguments import screen_width
    from ncp_control.cli.outputs import check_outputs
    from ncp_control.loop import analyse, write_dynamics
    from ncp_control.loop.figures import figures_of
    from ncp_control.loop.printed import sections_of
    from ncp_control.rl import load_policy

    path, html = arguments.checkpoint, arguments.html
    if path.suffix.lower() == ".zip":
        raise ValueError(
            f"{path} is a model of Stable-Baselines3: write it as a policy file first, with ncp-control convert {path} "
            "--algo NAME --env ID --out agent.safetensors"
        )
    if kind_of(path) is Kind.DYNAMICS:
        raise ValueError(f"{path} holds a dynamics model, which acts on nothing: name a policy")
    check_outputs({"--html": html, "--lab": arguments.lab}, [path])
    if arguments.lab is not None and arguments.record is None:
        raise ValueError("--lab runs on from recordings: add --record DIR")
    torch.set_num_threads(1)  # for a small circuit, more threads wait longer than they compute
    agent = load_policy(path)
    if arguments.record is not None:
        circuit_of(agent.policy)  # refuses an agent without one
    name = trained_in.env_name(path, agent.note, arguments.env)
    with closing(trained_in.make(name, agent.note, **trained_in.UNDISTURBED)) as env:
        report = analyse(
            agent, env, arguments.starts, arguments.thrown, arguments.steps, arguments.measured, arguments.seed,
            synapses=arguments.synapses, name=name_of(path), seconds=seconds_per_step(env), progress=True,
        )  # fmt: skip
    if arguments.figures is not None:
        arguments.figures.mkdir(parents=True, exist_ok=True)
        for what, figure in figures_of(report).items():
            save_figure(figure, arguments.figures / f"{what}.svg", dpi=100)
    recordings = [] if arguments.record is None else write_recordings(arguments, agent, name, report)
    links = {}
    if arguments.lab is not None:
        write_lab(arguments, agent, name, recordings)
        address = quote(os.path.relpath(arguments.lab, "." if html is None else html.parent).replace(os.sep, "/"))
        links = {path.stem: f"{address}#seed={seed}" for seed, path in enumerate(recordings)}
    if html is not None:
        write_dynamics(report, html, links)
    if arguments.json:
        print(report.to_json())
        return 0
    print(text_of(sections_of(report), screen_width()), end="")
    for what, written in (
        ("page", html),
        ("figures", arguments.figures),
        ("recordings", arguments.record),
        ("laboratory", arguments.lab),
    ):
        if written is not None:
            print(f"{what}: {written}")
    return 0


def write_recordings(arguments: Arguments, agent: Any, name: str, report: Any) -> list[Path]:
    """Records the agent on each attractor that was measured, and returns the files."""
    from ncp_control.activity import record
    from ncp_control.base.files import name_of
    from ncp_control.cli import trained_in
    from ncp_control.loop.printed import letter

    assert arguments.record is not None
    arguments.record.mkdir(parents=True, exist_ok=True)
    written = []
    with closing(trained_in.make_drawing(name, agent.note, **trained_in.UNDISTURBED)) as env:
        for k, one in enumerate(report.attractors):
            if one.moment is None or not one.exponents:
                continue
            written.append(arguments.record / f"{letter(k)}.npz")
            record(
                agent, env, written[-1], RECORDED, seed=arguments.seed, after=one.moment,
                controller=name_of(arguments.checkpoint), note={"sha256": agent.sha256, "attractor": one.kind},
            )  # fmt: skip
    return written


def write_lab(arguments: Arguments, agent: Any, name: str, recordings: list[Path]) -> None:
    """Writes the laboratory in which seed 0 begins at the end of the first recording, and so on."""
    from ncp_control.activity.laboratory import Exhibit, write_laboratory
    from ncp_control.activity.recording.activity import Activity
    from ncp_control.activity.recording.ends import end_of
    from ncp_control.base.files import name_of
    from ncp_control.cli import trained_in

    assert arguments.lab is not None
    starts = {str(path): end_of(Activity.load(path)) for path in recordings}
    with closing(trained_in.make(name, agent.note, **trained_in.UNDISTURBED)) as env:
        share = trained_in.strength(agent.note, "random")
        path = arguments.checkpoint
        write_laboratory([Exhibit(agent, env, name_of(path), str(path), share, arguments.env, starts)], arguments.lab)
