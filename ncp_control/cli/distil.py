"""`ncp-control distil`: teaches a circuit what another policy knows."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from ncp_control.cli.arguments import typed_command
from ncp_control.distil.settings import DistilSettings, PruneSettings
from ncp_control.neurons.catalogue import words

SELDOM = (
    "threads", "learning_rate", "optimizer", "iterations", "demonstrations", "disturbance", "handover",
    "handover_at", "batches", "batch", "length", "warm_up", "teacher_share", "start_share", "average", "max_grad_norm",
    "patience", "envs", "eval_episodes", "prune_rounds", "teacher_env", "normalize",
)  # fmt: skip


@dataclass
class Arguments:
    """Teach a circuit to imitate a policy, which may see more than it, or a dataset.

    Example: ncp-control distil checkpoints/halfcheetah-teacher.safetensors --env ncp/HalfCheetahNoVel-v0 --out runs/d
    Example: ncp-control distil sac_pendulum.zip --algo SAC --env ncp/PendulumNoVel-v0 --steps 40000
    Example: ncp-control distil ./cheetah-v0 --env ncp/HalfCheetahNoVel-v0 --out runs/cloned
    """

    teacher: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TEACHER")]
    """A policy's file, .zip, .pt, module:function, or dataset."""

    env: Annotated[str | None, tyro.conf.arg(metavar="ID")] = None
    """The student's environment; by default the teacher's."""

    cell: Annotated[str, tyro.conf.arg(help=f"One of {words()}.")] = "dualltc"

    wiring: Annotated[str | None, tyro.conf.arg(metavar="PLAN")] = None
    """A plan or a number of neurons; by default an NCP of 48."""

    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE ...")] = ()
    """Settings of the cell, such as time_constants=[0.05,3.5]."""

    noise: Annotated[float, tyro.conf.arg(metavar="STD")] = 0.0
    """Add Gaussian noise to what the student sees."""

    dropout: Annotated[float, tyro.conf.arg(metavar="P")] = 0.0
    """The probability that the student sees zeros."""

    random: Annotated[float, tyro.conf.arg(metavar="P")] = 0.0
    """Replace this share of the actions by random ones."""

    wrap: Annotated[tuple[str, ...], tyro.conf.arg(metavar="WRAPPER ...")] = ()
    """Wrap the student's environment, as a recipe does."""

    finetune: Annotated[int, tyro.conf.arg(metavar="STEPS")] = 0
    """Then train the student on its own rewards, with PPO."""

    prune: bool = False
    """Then make the student smaller, round by round."""

    prune_rounds: Annotated[int, tyro.conf.arg(metavar="N")] = 12
    """The most rounds of pruning; each removes a fifth of the synapses left."""

    algo: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The algorithm of a .zip, such as SAC."""

    normalize: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None
    """The file of the VecNormalize that belongs to a .zip."""

    teacher_env: Annotated[str | None, tyro.conf.arg(metavar="ID")] = None
    """The teacher's environment; by default that in its file."""

    seed: int = 0
    """Random seed; the same seed gives the same result."""

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
    found, text = outcome(arguments, typed_command())
    print(json.dumps(found) if arguments.json else text)
    return 0


def outcome(arguments: Arguments, command: str) -> tuple[dict[str, Any], str]:
    """Distils a teacher; returns the result as JSON values and in words.

    :param command: kept in the record
    """
    import numpy as np

    from ncp_control.base.machine import use_threads
    from ncp_control.base.plain_yaml import read_changes, read_yaml
    from ncp_control.cli.trained_in import disturbances, env_name
    from ncp_control.distil import distil
    from ncp_control.distil.finetuning import FOLDER
    from ncp_control.distil.prune_table import smallest_in_words, table_text
    from ncp_control.distil.pruning import PRUNED
    from ncp_control.distil.recorded import METHOD, Recorded, random_in_words
    from ncp_control.distil.teachers import load_teacher
    from ncp_control.runs.run import BEST

    use_threads(arguments.threads)
    teacher = load_teacher(arguments.teacher, arguments.algo, arguments.normalize)
    note: dict[str, Any] = getattr(teacher, "note", None) or {}
    if isinstance(teacher, Recorded):
        env = arguments.env or teacher.recipe(arguments.teacher_env).env
    else:
        env = env_name(Path(arguments.teacher), note, arguments.env)
    wiring, pruning = arguments.wiring, PruneSettings(rounds=arguments.prune_rounds)
    out = arguments.out or Path("runs") / f"distil-{arguments.cell}-s{arguments.seed}"
    distilled = distil(
        teacher,
        env,
        int(wiring) if wiring is not None and wiring.isdigit() else wiring,
        arguments.cell,
        cell_kwargs=read_changes(list(arguments.set), "unfolds=6"),
        env_kwargs=None if arguments.env else note.get("env_kwargs"),
        env_wrapper=[
            *disturbances(random=arguments.random, noise=arguments.noise, dropout=arguments.dropout),
            *(read_yaml(word, f"--wrap {word!r}") for word in arguments.wrap),
        ],
        teacher_env=arguments.teacher_env,
        settings=arguments.settings,
        finetune_steps=arguments.finetune,
        pruning=pruning if arguments.prune else None,
        seed=arguments.seed,
        out=out,
        resume=arguments.resume,
        command=command,
    )
    teachers = float(np.mean(distilled.teacher_returns))
    summary = {
        "out": str(out), **in_numbers(distilled.returns), "teacher_return": teachers, "share": distilled.share,
        "episodes": len(distilled.returns), "steps": distilled.steps, "seconds": distilled.seconds,
        "parameters": distilled.parameters,
    }  # fmt: skip
    took, whose = f"{distilled.steps:,} environment steps in {distilled.seconds / 60:.1f} minutes", "the teacher's"
    if distilled.agent.note.get("method") == METHOD:
        random = distilled.agent.note["teacher"]["random"]
        summary |= {"method": METHOD, "recorded_random": random}
        took = f"{METHOD} of {distilled.steps:,} recorded steps in {distilled.seconds / 60:.1f} minutes"
        whose = f"the recorded episodes'{random_in_words(random)}"
    text = (
        f"{took}: return {in_words(distilled.returns)} over {len(distilled.returns)} "
        f"episodes, {100 * distilled.share:.1f} % of {whose} {teachers:,.1f}, with {distilled.parameters:,} "
        f"parameters\nwritten to {out}\n"
    )
    best = out / BEST
    if distilled.pruned is not None:
        rows, smallest = distilled.pruned.rows, distilled.pruned.smallest
        summary |= {"pruned": [vars(row) for row in rows], "smallest": vars(smallest)}
        words = smallest_in_words(rows, smallest, pruning.keep)
        text += f"\n{table_text(rows)}\n\n{words}\nwritten to {out / PRUNED}\n"
        best = best if smallest is rows[0] else out / PRUNED / smallest.file
    if distilled.finetuned is not None:
        more, folder = distilled.finetuned, out / FOLDER
        share = distilled.share_of(more.returns)
        summary["finetuned"] = {
            **in_numbers(more.returns), "share": share, "steps": more.steps, "seconds": more.seconds,
        }  # fmt: skip
        is_better = np.mean(more.returns) >= np.mean(distilled.returns)
        best = folder / BEST if distilled.pruned is None and is_better else best
        text += (
            f"fine-tuned for {more.steps:,} environment steps in {more.seconds / 60:.1f} minutes: return "
            f"{in_words(more.returns)}, {100 * share:.1f} % of {whose}\n"
            f"written to {folder}\n"
        )
    see, made_in = ["ncp-control", "evaluate", str(best)], str(distilled.agent.note.get("env"))
    if ":" in made_in:  # a file never chooses which module is imported
        see += ["--env", made_in]
    return summary, f"{text}see it act:  {shlex.join(see)}"


def in_numbers(returns: list[float]) -> dict[str, float]:
    """Returns the mean, the standard deviation and the lowest of returns, as they are named in JSON."""
    import numpy as np

    found = np.array(returns)
    return {"return": float(found.mean()), "std_return": float(found.std(ddof=1)), "min_return": float(found.min())}


def in_words(returns: list[float]) -> str:
    """Returns the mean, the standard deviation and the lowest of returns, as they are printed."""
    found = in_numbers(returns)
    return f"{found['return']:,.1f} +- {found['std_return']:,.1f} (lowest {found['min_return']:,.1f})"
