"""`ncp-control distil`: teaches a circuit what another policy knows."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from ncp_control.distil.settings import DistilSettings

SELDOM = (
    "threads", "learning_rate", "iterations", "first", "disturbance", "handover", "well", "batches", "batch", "length",
    "warm_up", "kept", "begins", "average", "max_grad_norm", "patience", "envs", "eval_episodes",
)  # fmt: skip


@dataclass
class Arguments:
    """Teach a circuit to act as a teacher does. It acts in its own environment, which may show less than the teacher's,
    and the teacher says in every step what it would have done.

    Example: ncp-control distil checkpoints/halfcheetah-teacher.safetensors --env ncp/HalfCheetahNoVel-v0 --out runs/d
    Example: ncp-control distil sac_pendulum.zip --algo SAC --env ncp/PendulumNoVel-v0 --steps 40000
    """

    teacher: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TEACHER")]
    """A policy's file, a .zip of Stable-Baselines3, or module:function."""

    env: Annotated[str | None, tyro.conf.arg(metavar="ID")] = None
    """The student's environment; by default the teacher's."""

    cell: str = "ltc"
    """The circuit's cell: ltc, cfc, ctrnn, lstm, gru, ..."""

    wiring: Annotated[str | None, tyro.conf.arg(metavar="PLAN")] = None
    """A plan, or a number of neurons; by default an NCP of 48 neurons."""

    noise: Annotated[float, tyro.conf.arg(metavar="STD")] = 0.0
    """Add Gaussian noise to what the student sees."""

    dropout: Annotated[float, tyro.conf.arg(metavar="P")] = 0.0
    """Show the student zeros at random, with this probability."""

    random: Annotated[float, tyro.conf.arg(metavar="P")] = 0.0
    """Overwrite this share of the actions by random ones."""

    algo: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The algorithm of a .zip, such as SAC."""

    normalize: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None
    """The file of the VecNormalize that belongs to a .zip."""

    teacher_env: Annotated[str | None, tyro.conf.arg(metavar="ID")] = None
    """The teacher's environment; by default that in its file."""

    seed: int = 0
    """Everything random follows from it."""

    out: Path | None = None
    """The run's folder; by default runs/distil-CELL-sSEED."""

    resume: bool = False
    """Continue the run in the folder, if there is one."""

    threads: int = 1
    """Number of threads for torch; small networks gain little from more than one."""

    json: bool = False
    """Print one JSON object last."""

    settings: Annotated[DistilSettings, tyro.conf.arg(name="")] = field(default_factory=DistilSettings)


def run(arguments: Arguments) -> int:
    """Distils a teacher and prints how much of its return the student has."""
    import numpy as np

    from ncp_control.cli.trained_in import disturbances, env_name
    from ncp_control.distil import distil
    from ncp_control.distil.loop import BEST
    from ncp_control.distil.teachers import load_teacher
    from ncp_control.support.devices import use_threads

    use_threads(arguments.threads)
    teacher = load_teacher(arguments.teacher, arguments.algo, arguments.normalize)
    note: dict[str, Any] = getattr(teacher, "note", None) or {}
    wiring = arguments.wiring
    out = arguments.out or Path("runs") / f"distil-{arguments.cell}-s{arguments.seed}"
    found = distil(
        teacher,
        env_name(Path(arguments.teacher), note, arguments.env),
        int(wiring) if wiring is not None and wiring.isdigit() else wiring,
        arguments.cell,
        env_kwargs=None if arguments.env else note.get("env_kwargs"),
        env_wrapper=disturbances(arguments.noise, arguments.dropout, arguments.random),
        teacher_env=arguments.teacher_env,
        settings=arguments.settings,
        seed=arguments.seed,
        out=out,
        resume=arguments.resume,
        command=shlex.join(["ncp-control", *(word for word in sys.argv[1:] if word != "--resume")]),
    )
    mean, teachers = float(np.mean(found.returns)), float(np.mean(found.teacher_returns))
    if arguments.json:
        summary = {
            "out": str(out), "return": mean, "std_return": float(np.std(found.returns, ddof=1)),
            "min_return": min(found.returns), "teacher_return": teachers, "share": found.share,
            "episodes": len(found.returns), "steps": found.steps, "seconds": found.seconds,
            "parameters": found.parameters,
        }  # fmt: skip
        print(json.dumps(summary))
    else:
        print(
            f"{found.steps:,} steps in {found.seconds / 60:.1f} minutes: return {mean:,.1f} "
            f"+- {np.std(found.returns, ddof=1):,.1f} (lowest {min(found.returns):,.1f}) over {len(found.returns)} "
            f"episodes, {100 * found.share:.1f} % of the teacher's {teachers:,.1f}, with {found.parameters:,} "
            f"parameters\nwritten to {out}"
            f"\nsee it act:  ncp-control evaluate {shlex.quote(str(out / BEST))}"
        )
    return 0
