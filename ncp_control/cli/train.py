"""`ncp-control train`: trains an agent from a recipe."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from ncp_control.cli.arguments import typed_command

SELDOM = ("branch", "checkpoint_every", "threads")


@dataclass
class Arguments:
    """Train an agent from a recipe, in a folder from which the run can be resumed.

    Example: ncp-control train pendulum-novel --seed 1 --out runs/pendulum
    """

    recipe: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RECIPE")]
    """The name of a recipe, or a .yml file; "list" shows all recipes, with what each is for."""

    seed: int = 0
    """Everything random follows from it."""

    steps: int | None = None
    """Steps of training, instead of the recipe's number."""

    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE ...")] = ()
    """New values for keys of the recipe, such as policy_kwargs.cell=cfc learning_rate=lin_1e-3."""

    out: Path | None = None
    """The run's folder; by default runs/RECIPE-sSEED."""

    start: Annotated[Path | None, tyro.conf.arg(metavar="POLICY")] = None
    """Begin with the circuit in a policy's file, with its weights, instead of the recipe's."""

    inside: Annotated[tuple[Path, ...], tyro.conf.arg(name="in", metavar="MODEL ...")] = ()
    """Train in short branches that a model of the dynamics imagines; several are an ensemble. Evaluate in truth."""

    data: Annotated[tuple[str, ...], tyro.conf.arg(metavar="DATA ...")] = ()
    """With --in: the rollouts that the model was fitted to, from whose moments the branches go off."""

    branch: Annotated[int, tyro.conf.arg(metavar="N")] = 20
    """With --in: the number of steps of a branch."""

    resume: bool = False
    """Resume the run in the folder, or begin it if the folder holds none."""

    eval_every: int | None = None
    """Steps between evaluations; by default a twentieth of the training."""

    eval_episodes: int = 8
    """Episodes in an evaluation."""

    checkpoint_every: int | None = None
    """Steps between checkpoints; by default a tenth of the training, but at least 10 000."""

    watch: Annotated[int | None, tyro.conf.arg(metavar="STEPS")] = None
    """Record an episode every so many steps, and show all of them on one page in the run's folder, watch/page.html."""

    vec: Annotated[str, tyro.conf.arg(metavar="PLACE")] = "same"
    """Where environments are stepped: the same process, or "processes", one each, if steps take milliseconds."""

    device: str = "cpu"
    """The device for the networks: cpu, cuda or auto."""

    threads: int = 1
    """Threads of torch; small networks gain little from more than one."""

    json: bool = False
    """Print one JSON object last."""


def run(arguments: Arguments) -> int:
    """Trains the agent, or lists the recipes."""
    from ncp_control.cli.arguments import screen_width, wrapped
    from ncp_control.rl.recipes.recipe import ALGORITHMS, about, shipped

    if arguments.recipe == "list":
        column = max(map(len, shipped())) + 2
        for name in shipped():
            lines = wrapped(about(name), max(screen_width() - column, 20))
            print(f"{name:<{column}}" + f"\n{'':<{column}}".join(lines))
        told = f"A recipe of your own may name the algorithms {', '.join(ALGORITHMS)}."
        print("\n" + "\n".join(wrapped(told, screen_width())))
        return 0
    found, text = outcome(arguments, typed_command())
    print(json.dumps(found) if arguments.json else text)
    return 0


def outcome(arguments: Arguments, command: str) -> tuple[dict[str, Any], str]:
    """Trains the agent; returns the result as JSON values and in words.

    :param command: kept in the record
    """
    from ncp_control.base.machine import use_threads
    from ncp_control.base.plain_yaml import read_changes
    from ncp_control.rl.files.policy_file import load_policy
    from ncp_control.rl.recipes.recipe import load_recipe
    from ncp_control.rl.training import train

    changes = read_changes(list(arguments.set))
    if arguments.steps is not None:
        changes["n_timesteps"] = arguments.steps
    recipe = load_recipe(arguments.recipe, changes)
    out = arguments.out or Path("runs") / f"{Path(arguments.recipe).stem}-s{arguments.seed}"
    use_threads(arguments.threads)
    watching = []
    if arguments.watch is not None:
        from ncp_control.activity.live import LivePage
        from ncp_control.rl.recipes.building import make_env

        def make() -> Any:
            return make_env(recipe.env, recipe.env_wrapper, recipe.env_kwargs)

        watching.append(LivePage(make, out / "watch", arguments.watch))
    result = train(
        recipe,
        out,
        seed=arguments.seed,
        resume=arguments.resume,
        eval_every=arguments.eval_every,
        eval_episodes=arguments.eval_episodes,
        checkpoint_every=arguments.checkpoint_every,
        device=arguments.device,
        command=command,
        callbacks=watching,
        start=None if arguments.start is None else load_policy(arguments.start),
        vec=arguments.vec,
        inside=imagined(arguments),
    )
    _, last, spread = result.curve[-1]
    best_step, best = result.best or (0, float("nan"))
    found = {
        "out": str(out), "steps": result.steps, "seconds": result.seconds, "last_return": last,
        "best_return": best, "best_steps": best_step,
    }  # fmt: skip
    return found, (
        f"{result.steps:,} steps in {result.seconds / 60:.1f} minutes: return {last:,.1f} +- {spread:,.1f}, "
        f"the best {best:,.1f} at step {best_step:,}\n"
        f"written to {out}\n"
        f"see it act:  ncp-control evaluate {shlex.quote(str(out / 'best.safetensors'))}"
    )


def imagined(arguments: Arguments) -> Any:
    """Returns what the agent is trained in, if this is a model."""
    from ncp_control.cli.models import read_model
    from ncp_control.data import Rollouts, Split
    from ncp_control.dynamics import Branches

    if bool(arguments.inside) != bool(arguments.data):
        raise ValueError("a training in a model needs both: the model, --in MODEL, and its rollouts, --data DATA")
    if not arguments.inside:
        return None
    parts = Split.joined([Rollouts.load(source).split() for source in arguments.data])
    return Branches(read_model(arguments.inside), parts.train, arguments.branch)
