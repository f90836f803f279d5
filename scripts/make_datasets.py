"""Make the levels of data of one training: random, medium and expert, each with and without random actions.

The expert is the best policy of the run, and medium the one half-way between random actions and the expert (see
`level_plans.py`). All datasets are Minari's, with reference scores from episodes that this script measures.
The same command again keeps the datasets that are there and makes those that are missing, and goes on after a Ctrl-C.
"""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import tyro
from gymnasium.envs.registration import EnvSpec
from level_plans import (
    LEVELS,
    Checkpoint,
    Level,
    LevelPlan,
    References,
    best_of,
    checkpoints_of,
    medium_of,
    references_in,
)

from ncp_control.base.progress import say, usable_streams
from ncp_control.cli import INTERRUPTED, REFUSED, explain
from ncp_control.cli.trained_in import env_name, make
from ncp_control.data import Rollouts
from ncp_control.data.finite import CheckFinite
from ncp_control.data.summary import summarize
from ncp_control.rl import load_policy

FAR = 0.25  # a medium policy whose score is further from one half than this is worth a word


@dataclass
class Arguments:
    """Make the datasets of all levels from one training run, or from policy files.

    Example: python scripts/make_datasets.py runs/halfcheetah-s0 --rollouts 25
    Example: python scripts/make_datasets.py --expert best.safetensors --medium early.safetensors --out datasets
    """

    run: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = None
    """The folder of a run of `ncp-control train`, or the file of an expert's policy."""

    expert: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """The expert's policy, in place of the run's best one."""

    medium: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """The medium policy, in place of the run's."""

    env: Annotated[str | None, tyro.conf.arg(metavar="ID")] = None
    """The environment, in place of the one that the expert's file names."""

    out: Annotated[Path | None, tyro.conf.arg(metavar="ROOT")] = None
    """The folder for all datasets; by default where Minari looks for them."""

    name: str | None = None
    """The middle of the datasets' ids; by default the environment's name."""

    levels: tuple[Literal["random", "medium", "expert"], ...] = ()
    """Which levels to make; by default all that there are policies for."""

    random: Annotated[tuple[float, ...], tyro.conf.arg(metavar="P ...")] = (0.0, 0.05)
    """The probabilities that a step's action is overwritten by a random one, a dataset of each level for each."""

    rollouts: int = 25
    """The number of episodes in each dataset."""

    reference_episodes: int = 100
    """The number of episodes over which random actions and the expert are measured."""

    seed: int = 0
    """The seed of everything random; each dataset has a seed of its own that follows from it."""

    workers: int = 1
    """The number of processes. The result does not depend on it."""

    group: int = 16
    """The number of episodes that one call of a policy acts for. The result depends on it."""

    author: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Who makes the datasets, for datasets that are published."""

    author_email: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")] = None
    """Where the author is reached."""

    code_link: Annotated[str | None, tyro.conf.arg(metavar="URL")] = None
    """Where the code is that makes the datasets."""

    json: bool = False
    """Print one JSON object last."""


class Source(NamedTuple):
    """Where the policies come from: files, and the evaluations of the run if there is one."""

    expert: Checkpoint | Path
    medium: Path | None
    checkpoints: list[Checkpoint]


def main() -> int:
    """Makes the datasets; an error that the user can correct becomes one line on stderr."""
    arguments = tyro.cli(Arguments)
    with usable_streams():
        try:
            show(make_datasets(arguments), arguments.json)
        except KeyboardInterrupt:
            say("\ninterrupted: what is finished is kept, and the same command goes on")
            return INTERRUPTED
        except (ValueError, OSError) as error:
            say(f"make_datasets: {explain(error)}")
            return REFUSED
    return 0


def make_datasets(arguments: Arguments) -> dict[str, Any]:
    """Makes every dataset that is not there yet, and returns a summary of all in JSON values."""
    source = source_of(arguments)
    path = source.expert if isinstance(source.expert, Path) else source.expert.path
    expert = load_policy(path)
    plan = LevelPlan(
        spec_of_policy(path, expert.note, arguments.env),
        expert,
        arguments.name,
        arguments.out,
        arguments.rollouts,
        arguments.reference_episodes,
        arguments.seed,
        arguments.group,
    )
    wanted = [(name, share) for name in levels_of(arguments, source) for share in arguments.random]
    if not wanted or len({plan.place(*one) for one in wanted}) < len(wanted):
        raise ValueError("--random needs at least one probability, and each only once")
    there = [rollouts for one in wanted if (rollouts := plan.finished(*one)) is not None]
    try:
        if there:
            references = references_in(there[0])
        else:
            say(f"reference scores: random actions and the expert, {plan.reference_episodes} episodes of each")
            references = plan.measure(arguments.workers)
        levels = {name: level_of(name, source, plan, references) for name in dict.fromkeys(name for name, _ in wanted)}
        credits = {key: getattr(arguments, key) for key in ("author", "author_email", "code_link")}
        record = {"command": shlex.join(["python", *sys.argv])} | {key: one for key, one in credits.items() if one}
        rows = []
        for k, (name, share) in enumerate(wanted, 1):
            dataset_id, folder = plan.place(name, share)
            kept = folder.exists()
            if not kept:
                say(f"{dataset_id} ({k} of {len(wanted)})")
            rollouts = plan.collect(levels[name], share, references, arguments.workers, record)
            rows.append({"id": dataset_id, "folder": str(folder), "kept": kept, **row_of(rollouts)})
    except ValueError:  # a refusal; another error may pass, and then the measured episodes are still good
        plan.forget()
        raise
    plan.forget()
    return {"env": plan.spec.id, "references": references.to_json(), "datasets": rows}


def source_of(arguments: Arguments) -> Source:
    """Finds the policies that the arguments name."""
    run, is_run = arguments.run, arguments.run is not None and arguments.run.is_dir()
    if run is not None and not run.exists():
        raise FileNotFoundError(f"there is no run and no policy {run}")
    if run is not None and not is_run and arguments.expert is not None:
        raise ValueError(f"{run} and --expert {arguments.expert} are two experts: give one of them")
    checkpoints = checkpoints_of(run) if run is not None and is_run else []
    expert = arguments.expert or (best_of(checkpoints) if checkpoints else run)
    if expert is None:
        raise ValueError("the levels need an expert: give the folder of a training run, or --expert FILE")
    return Source(expert, arguments.medium, checkpoints if arguments.expert is None else [])


def levels_of(arguments: Arguments, source: Source) -> list[str]:
    """Returns the levels to make; refuses medium where it was asked for and there is no policy for it."""
    earlier = [one for one in source.checkpoints if one.steps < best_of(source.checkpoints).steps]
    has_medium = source.medium is not None or bool(earlier)
    if not has_medium and (not arguments.levels or "medium" in arguments.levels):
        lack = f"{arguments.expert or arguments.run} has no policy before the expert's, so there is no medium"
        fix = "give the folder of a run that kept the policies of its evaluations, or --medium FILE"
        if arguments.levels:
            raise ValueError(f"{lack}: {fix}")
        say(f"{lack} ({fix})")
    chosen: tuple[str, ...] = arguments.levels or tuple(name for name in LEVELS if has_medium or name != "medium")
    return [name for name in LEVELS if name in chosen]


def spec_of_policy(path: Path, note: dict[str, Any], asked: str | None) -> EnvSpec:
    """Returns the spec of the environment that a policy was trained in, with the wrappers of the training except the
    one for random actions, whose share each dataset has for itself.
    """
    with make(env_name(path, note, asked), note, random=0.0) as env:
        spec: EnvSpec = env.spec
    own = tuple(one for one in spec.additional_wrappers if not one.entry_point.endswith(f":{CheckFinite.__name__}"))
    return replace(spec, additional_wrappers=own, disable_env_checker=False)


def level_of(name: str, source: Source, plan: LevelPlan, references: References) -> Level:
    """Returns a level's policy and what its datasets say about it."""
    if name == "random":
        return Level(name, "random", f"uniformly random actions in {plan.spec.id}", {"algorithm": "random"})
    if name == "expert":
        chosen, policy = source.expert, plan.expert
    else:
        chosen = source.medium or medium_of(source.checkpoints, references.random)
        policy = load_policy(chosen if isinstance(chosen, Path) else chosen.path)
    algorithm, steps = policy.note.get("algo"), policy.note.get("steps")
    facts: dict[str, Any] = {"algorithm": algorithm if isinstance(algorithm, str) else policy.name}
    if isinstance(chosen, Path):
        why = f"from the file {chosen.name}"
    else:
        steps, facts["evaluated_return"] = chosen.steps, chosen.level_return
        why = f"the policy with the highest return in the evaluations of the training, {chosen.mean_return:,.1f}"
        if name == "medium":
            why = rule_of_medium(chosen, best_of(source.checkpoints), references.random)
    trained = ""
    if isinstance(steps, int):
        facts["trained_steps"], trained = steps, f" after {steps:,} steps of training"
    return Level(name, policy, f"{facts['algorithm']}{trained} in {plan.spec.id}, {why}", facts)


def rule_of_medium(chosen: Checkpoint, best: Checkpoint, random: float) -> str:
    """Says why a policy is the medium one, and on stderr also if it is far from the middle."""
    middle = (random + best.level_return) / 2
    if abs(chosen.level_return - middle) > FAR * (best.level_return - random):
        say(
            f"the return of the medium policy, {chosen.level_return:,.1f} at step {chosen.steps:,}, is far from the "
            f"middle between random actions and the expert, {middle:,.1f}: a training with more evaluations "
            "(--eval-every) has a nearer one"
        )
    return (
        f"of all policies before the expert's the one whose return in the evaluations of the training, "
        f"{chosen.level_return:,.1f}, is nearest to {middle:,.1f}, the middle between random actions ({random:,.1f}) "
        f"and the expert ({best.level_return:,.1f} at step {best.steps:,})"
    )


def row_of(rollouts: Rollouts) -> dict[str, Any]:
    """Summarises a dataset for the table, in JSON values."""
    about, found = rollouts.about, summarize(rollouts)
    return {
        **{key: about.get(key) for key in ("level", "algorithm", "trained_steps", "evaluated_return")},
        **{key: found[key] for key in ("rollouts", "steps", "returns", "score", "random_actions")},
    }


def show(found: dict[str, Any], as_json: bool) -> None:
    """Prints the levels and the datasets, a table each."""
    if as_json:
        print(json.dumps(found))
        return
    from rich.console import Console
    from rich.table import Table

    references, datasets = found["references"], found["datasets"]
    form: dict[str, Any] = {"box": None, "pad_edge": False, "padding": (0, 2, 0, 0)}
    named = ("steps of training", "return in its evaluations")
    levels = Table("level", "policy", *map(right, named), **form)
    for one in {one["level"]: one for one in datasets}.values():
        levels.add_row(one["level"], one["algorithm"], words(one["trained_steps"], ","), words(one["evaluated_return"]))
    table = Table("dataset", *map(right, ("return", "lowest", "score", "random", "")), **form)
    table.columns[0].no_wrap = True
    for one in datasets:
        returns, random = one["returns"], one["random_actions"]
        table.add_row(
            one["id"],
            f"{returns['mean']:,.1f} +- {returns['std']:,.1f}",
            words(returns["least"]),
            words(one["score"]["mean"], ".3f"),
            words(random["share"], ".2%"),
            "kept" if one["kept"] else "made",
        )
    for made in (levels, table):
        Console(highlight=False).print(made, "")
    print(
        f"score 0 is the mean return of random actions, {references['random']:,.1f}, and 1 the expert's,\n"
        f"{references['expert']:,.1f}: {references['episodes']} episodes of each in {found['env']}"
    )


def right(name: str) -> Any:
    """Returns a column of numbers."""
    from rich.table import Column

    return Column(name, justify="right")


def words(value: float | None, form: str = ",.1f") -> str:
    """Writes a number; an empty text where there is none."""
    return "" if value is None else f"{value:{form}}"


if __name__ == "__main__":
    sys.exit(main())
