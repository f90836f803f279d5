"""`ncp-control lab`: a web page in which a circuit runs its body live."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass
class Arguments:
    """Write a laboratory: one web page in which the circuit runs its body live, and in which you can silence neurons,
    cut synapses, push the body, and see what happens. The page holds the simulator and uses no network.

    Example: ncp-control lab checkpoints/halfcheetah-positions.safetensors --html lab.html
    """

    checkpoints: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="CHECKPOINT [OTHER]")]
    """The .safetensors file of a policy with a circuit, or two, which run side by side."""

    html: Path | None = None
    """The page, a single file. The default is the first checkpoint's name with -lab.html, in this folder."""

    title: str | None = None
    """The heading of the page. The default is the names of the checkpoints."""

    env: Annotated[str | None, tyro.conf.arg(metavar="ID")] = None
    """The environment. The default is the one that each checkpoint was trained in."""

    random: Annotated[float | None, tyro.conf.arg(metavar="P")] = None
    """The share of random actions at first; by default that of the training."""

    after: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="EPISODE ...")] = ()
    """Begin where these recordings of the circuit ended: seed 0 at the first, seed 1 at the second, and so on."""

    wasm: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None
    """MuJoCo's WebAssembly build: the .tgz of `npm pack`, or a folder with its files. The default is to fetch it with
    npm, once."""

    json: bool = False
    """Print one JSON object last, with the file that was written."""


def run(arguments: Arguments) -> int:
    """Writes the page and says where it is."""
    from ncp_control.activity.laboratory import Exhibit, write_laboratory
    from ncp_control.activity.laboratory.simulator import simulator
    from ncp_control.activity.recording.ends import end_of
    from ncp_control.base.files import name_of
    from ncp_control.cli import trained_in
    from ncp_control.cli.outputs import check_outputs
    from ncp_control.cli.record import recorded_before
    from ncp_control.rl import load_policy

    paths = arguments.checkpoints
    if not 1 <= len(paths) <= 2:
        raise ValueError(f"a laboratory shows one circuit or two, and {len(paths)} checkpoints are named")
    html = Path(f"{paths[0].stem}-lab.html") if arguments.html is None else arguments.html
    check_outputs({"--html": html}, (*paths, *arguments.after, arguments.wasm))
    agents = [load_policy(path) for path in paths]
    if arguments.after and len(agents) > 1:
        raise ValueError("--after begins where one circuit was: name one checkpoint")
    starts = {str(path): end_of(recorded_before(path, agents[0])) for path in arguments.after}
    # The simulator comes before all that takes time, because it may have to be fetched.
    build = simulator(arguments.wasm)
    with ExitStack() as stack:
        exhibits = []
        for path, agent in zip(paths, agents, strict=True):
            name = trained_in.env_name(path, agent.note, arguments.env)
            env = trained_in.make(name, agent.note, random=arguments.random, **trained_in.AS_MADE)
            stack.callback(env.close)
            share = trained_in.strength(agent.note, "random")
            exhibits.append(Exhibit(agent, env, name_of(path), str(path), share, arguments.env, starts))
        write_laboratory(exhibits, html, arguments.title, build)
    size = html.stat().st_size
    if arguments.json:
        print(json.dumps({"page": str(html), "bytes": size}))
    else:
        print(f"laboratory: {html} ({size / 1e6:.2f} MB); open it in a browser, it needs no network")
    return 0
