"""`ncp-control export`: an agent as C, as ONNX, or as a program of torch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

KINDS = {"c": "C99", "onnx": "ONNX", "leapp": "a bundle of LEAPP", "pt2": "a program of torch.export"}


@dataclass
class Arguments:
    """Export an agent as code that runs without this package, compare the two, and say how to use the code.

    Example: ncp-control export checkpoints/halfcheetah.safetensors --to c --out robot
    """

    checkpoint: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="CHECKPOINT")]
    """The .safetensors file of a policy."""

    to: Annotated[str, tyro.conf.arg(metavar="KIND")]
    """What to write: c (C99, also for microcontrollers), onnx, leapp (for ROS 2), or pt2 (torch.export)."""

    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")]
    """The folder to make. One with files in it is refused."""

    names: Annotated[str, tyro.conf.arg(metavar="WHOSE")] = "ncp_control"
    """The names and shapes of an ONNX file's inputs and outputs: ncp_control, or rsl_rl."""

    monitor: Annotated[Path | None, tyro.conf.arg(metavar="JSON")] = None
    """The certified ranges, written by `ncp-control audit`; the code raises a flag if they are left."""

    steps: int = 1000
    """Number of environment steps in which the agent and the export are compared; 0: no comparison."""

    seed: int = 0
    """Seed of the first episode; the following episodes use the following numbers."""

    env: Annotated[str | None, tyro.conf.arg(metavar="ID")] = None
    """The environment. The default is the one that the checkpoint was trained in."""

    json: bool = False
    """Print one JSON object last."""


def run(arguments: Arguments) -> int:
    """Exports the agent and prints what was written."""
    import torch

    from ncp_control.cli import trained_in
    from ncp_control.cli.named_numbers import names_of
    from ncp_control.export import checking
    from ncp_control.export.readme import Origin, write_readme
    from ncp_control.export.shared import check_free, new_folder
    from ncp_control.rl import Controller, load_policy

    if arguments.to not in KINDS:
        raise ValueError(f"--to takes {', '.join(KINDS)}, not {arguments.to!r}")
    if arguments.steps < 0:
        raise ValueError(f"--steps takes a number of at least 0, not {arguments.steps}")
    check_free(arguments.out)
    torch.set_num_threads(1)  # for a small circuit, more threads wait longer than they compute
    agent, monitor = load_policy(arguments.checkpoint), read_monitor(arguments.monitor)
    # "reference", so that the code consists of torch's own operations
    refuse_early(arguments, Controller(agent, "reference", monitor))
    if arguments.steps and not arguments.env and not agent.note.get("env"):
        raise ValueError(
            f"{arguments.checkpoint} does not say which environment it was trained in: add --env, or --steps 0 to "
            "compare nothing"
        )
    named: dict[str, Any] = {}
    origin, acted = Origin(agent.name, agent.sha256), None
    if arguments.steps:
        name = trained_in.env_name(arguments.checkpoint, agent.note, arguments.env)
        env = trained_in.make(name, agent.note)
        try:
            named = names_of(env, agent)
            origin = Origin(agent.name, agent.sha256, name, seconds_of(env))
            acted = checking.act(agent, env, arguments.steps, arguments.seed)
        finally:
            env.close()
    controller = Controller(agent, "reference", monitor, **named)
    with new_folder(arguments.out) as folder:
        write(arguments, controller, origin, folder)
        check = checking.compare(arguments.to, folder, controller, acted)
        form = "rsl_rl" if arguments.names == "rsl_rl" else arguments.to
        text = write_readme(form, controller, origin, check)
        (folder / "README.txt").write_text(text, encoding="utf-8")
        sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    show(arguments, controller, check, sizes)
    return 0


def refuse_early(arguments: Arguments, controller: Any) -> None:
    """Refuses what has no C or ONNX form before the agent acts."""
    if arguments.to == "c":
        from ncp_control.export.c.write import check_form

        check_form(controller)
    if arguments.to in ("onnx", "leapp"):
        from ncp_control.export.onnx_file import check_onnx

        check_onnx(controller, arguments.names)
    if arguments.to != "onnx" and arguments.names != "ncp_control":
        raise ValueError(f"--names is for an ONNX file: leave it out, or choose --to onnx instead of {arguments.to}")


def read_monitor(path: Path | None) -> Any:
    """Reads the certified ranges; None without a file."""
    from ncp_control.rl.monitor import NO_MONITOR, Monitor

    if path is None:
        return None
    try:
        return Monitor.from_json(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: {NO_MONITOR}") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def seconds_of(env: Any) -> float | None:
    """Returns how long a step of an environment with a physics engine takes; None if that varies or nobody knows."""
    from ncp_envs import IrregularTime

    seconds, inner = getattr(env.unwrapped, "dt", None), env
    while inner is not env.unwrapped:
        if isinstance(inner, IrregularTime):
            return None
        inner = inner.env
    return float(seconds) if isinstance(seconds, float) else None


def write(arguments: Arguments, controller: Any, origin: Any, folder: Path) -> None:
    """Writes the files of one kind into an existing folder."""
    if arguments.to == "onnx":
        from ncp_control.export.onnx_file import NAMES, write_onnx

        write_onnx(controller, folder, NAMES[arguments.names])
    elif arguments.to == "leapp":
        from ncp_control.export.leapp_bundle import write_leapp

        write_leapp(controller, folder, origin.seconds)
    elif arguments.to == "pt2":
        from ncp_control.export.program_file import write_program

        write_program(controller, folder)
    else:
        from ncp_control.export.c.write import write_c

        write_c(controller, folder, origin.name, origin.sha256)


def show(arguments: Arguments, controller: Any, check: Any, sizes: dict[str, int]) -> None:
    """Prints what was written and how it was compared."""
    from ncp_control.export.readme import COMPILE, told

    if arguments.json:
        difference = None if check.refused else check.difference
        summary = {
            "out": str(arguments.out), "to": arguments.to, "files": sizes, "sensors": len(controller.sensors),
            "actions": len(controller.actions), "state": controller.state_size, "checked_by": check.how,
            "steps": check.steps, "difference": difference, "flagged": check.flagged,
            "refused": check.refused,
        }  # fmt: skip
        print(json.dumps(summary))
        return
    listed = ", ".join(f"{name} ({size / 1000:,.1f} kB)" for name, size in sizes.items())
    sensors, actions = (
        f"{len(names)} {what}{'s' * (len(names) != 1)}"
        for names, what in (
            (controller.sensors, "sensor"),
            (controller.actions, "choice" if controller.chooses else "action"),
        )
    )
    uses = {
        "c": f"compile it with:  {COMPILE}",
        "onnx": 'run it with:  onnxruntime.InferenceSession("controller.onnx")',
        "leapp": 'run it with:  leapp.InferenceManager("controller.yaml")',
        "pt2": 'run it with:  torch.export.load("controller.pt2").module()',
    }
    print(
        f"{arguments.checkpoint.name} as {KINDS[arguments.to]}: {sensors}, {actions}, a state of "
        f"{controller.state_size} numbers\n"
        f"{told(check, controller)}\n"
        f"written to {arguments.out}: {listed}\n"
        f"{uses[arguments.to]}; {arguments.out / 'README.txt'} says how"
    )
