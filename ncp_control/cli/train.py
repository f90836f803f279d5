"""`ncp-control train`: trains an agent in any environment, or from a recipe."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from ncp_control.cli.arguments import typed_command
from ncp_control.cli.outputs import save_picture
from ncp_control.neurons.catalogue import words

SELDOM = (
    "start", "in", "data", "branch", "eval_every", "eval_episodes", "checkpoint_every", "vec", "threads", "profile",
)  # fmt: skip


@dataclass
class Arguments:
    """Train an agent in any environment, or from a recipe, in a folder from which the run can be resumed.

    Example: ncp-control train --env InvertedPendulum-v5
    Example: ncp-control train --env mycart:Cart --cell cfc --steps 200000 --out runs/cart
    Example: ncp-control train pendulum-positions --seed 1 --out runs/pendulum
    """

    recipe: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[RECIPE]")] = ()
    """A recipe's name, or a .yml file; by default one for any environment. "list" shows all,
    "show RECIPE" prints one."""

    env: Annotated[str | None, tyro.conf.arg(metavar="ID")] = None
    """The environment, in place of the recipe's: an id of Gymnasium, module:id, or module:Class."""

    algo: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The algorithm, in place of the recipe's or RecurrentPPO."""

    cell: Annotated[str | None, tyro.conf.arg(metavar="NAME", help=f"One of {words()}.")] = None

    wiring: Annotated[str | None, tyro.conf.arg(metavar="PLAN")] = None
    """A plan, such as "AutoNCP(32, 8)", or a number of neurons."""

    seed: int = 0
    """Random seed; the same seed gives the same result."""

    steps: int | None = None
    """Environment steps of the training, instead of the recipe's number."""

    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE ...")] = ()
    """New values of the recipe, such as learning_rate=1e-3 policy_kwargs.critic=mlp."""

    out: Path | None = None
    """The run's folder; by default runs/RECIPE-sSEED or runs/ID-sSEED."""

    start: Annotated[Path | None, tyro.conf.arg(metavar="POLICY")] = None
    """Begin with the circuit in a policy's file, instead of a new one."""

    inside: Annotated[tuple[Path, ...], tyro.conf.arg(name="in", metavar="MODEL ...")] = ()
    """Train in short rollouts (branches) of a dynamics model, or of several as an ensemble; evaluate in the real
    environment."""

    data: Annotated[tuple[str, ...], tyro.conf.arg(metavar="DATA ...")] = ()
    """With --in: the rollouts that the model was fitted to; branches start from their states."""

    branch: Annotated[int, tyro.conf.arg(metavar="N")] = 20
    """With --in: the number of steps of a branch."""

    resume: bool = False
    """Resume the run in the folder, or begin it if there is none."""

    eval_every: int | None = None
    """Steps between evaluations; by default a twentieth of the training."""

    eval_episodes: int = 8
    """Episodes in an evaluation."""

    checkpoint_every: int | None = None
    """Steps between checkpoints; by default a tenth of the training, but at least 10 000."""

    watch: Annotated[int | None, tyro.conf.arg(metavar="STEPS")] = None
    """Record an episode every STEPS steps, and show them on a page in the run's folder, watch/page.html."""

    vec: Annotated[str, tyro.conf.arg(metavar="PLACE")] = "same"
    """Where environments run: in the "same" process, or in "processes" of their own, if a step takes milliseconds."""

    device: str = "cpu"
    """The device: cpu, cuda, or auto, which takes a GPU if there is one."""

    threads: int = 1
    """Threads of torch; small networks gain little from more than one."""

    profile: bool = False
    """Say where the time went: environments, acting, updates, evaluations. Draws profile.svg in the run's folder."""

    json: bool = False
    """Print one JSON object last."""


def run(arguments: Arguments) -> int:
    """Trains the agent; or lists the recipes, or prints one."""
    match arguments.recipe:
        case ("list",):
            list_recipes()
        case ("show", *names) if len(names) < 2:
            show_recipe(replace(arguments, recipe=tuple(names)))
        case _:
            found, text = outcome(arguments, typed_command())
            print(json.dumps(found) if arguments.json else text)
    return 0


def list_recipes() -> None:
    """Prints the names of the shipped recipes, what each is for, and the algorithms that a recipe may name."""
    from ncp_control.cli.arguments import screen_width, wrapped
    from ncp_control.rl.recipes.recipe import ALGORITHMS, about, shipped

    column = max(map(len, shipped())) + 2
    for name in shipped():
        lines = wrapped(about(name), max(screen_width() - column, 20))
        print(f"{name:<{column}}" + f"\n{'':<{column}}".join(lines))
    algorithms = f"A recipe of your own may name the algorithms {', '.join(ALGORITHMS)}."
    print("\n" + "\n".join(wrapped(algorithms, screen_width())))


def show_recipe(arguments: Arguments) -> None:
    """Prints a recipe, with the changes that the other arguments make."""
    from ncp_control.rl.recipes.recipe import recipe_text

    print(recipe_text(*chosen(arguments)))


def chosen(arguments: Arguments) -> tuple[str, dict[str, Any]]:
    """Returns the recipe's name or file, and the changes to it, from the command line."""
    from ncp_control.base.plain_yaml import read_changes
    from ncp_control.base.values import read_number
    from ncp_control.rl.recipes.recipe import default_for

    if len(arguments.recipe) > 1:
        raise ValueError(f"train takes one recipe, and got {len(arguments.recipe)}: {', '.join(arguments.recipe)}")
    changes = {
        "env": arguments.env, "algo": arguments.algo, "n_timesteps": arguments.steps,
        "policy_kwargs.cell": arguments.cell, "policy_kwargs.wiring": read_number(arguments.wiring),
    }  # fmt: skip
    named = {key: value for key, value in changes.items() if value is not None}
    return (*arguments.recipe, default_for(arguments.algo))[0], named | read_changes(list(arguments.set))


def run_name(arguments: Arguments) -> str:
    """Returns the name of the recipe, or that of the environment in lower case, for the run's folder."""
    if arguments.recipe or arguments.env is None:
        return Path((*arguments.recipe, "default")[0]).stem
    return re.split("[:/]", arguments.env)[-1].lower()


def outcome(arguments: Arguments, command: str) -> tuple[dict[str, Any], str]:
    """Trains the agent; returns the result as JSON values and in words.

    :param command: kept in the record
    """
    from ncp_control.base.machine import use_threads
    from ncp_control.rl.files.policy_file import load_policy
    from ncp_control.rl.recipes.recipe import load_recipe
    from ncp_control.rl.training import train

    source, changes = chosen(arguments)
    recipe = load_recipe(source, changes)
    out = arguments.out or Path("runs") / f"{run_name(arguments)}-s{arguments.seed}"
    use_threads(arguments.threads)
    watching: list[Any] = []
    if arguments.watch is not None:
        from ncp_control.activity.live import LivePage
        from ncp_control.rl.recipes.building import make_env

        def make() -> Any:
            return make_env(recipe.env, recipe.env_wrapper, recipe.env_kwargs)

        watching.append(LivePage(make, out / "watch", arguments.watch))
    profile = None
    if arguments.profile:
        from ncp_control.rl.time_profile import TimeProfile

        watching.append(profile := TimeProfile())
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
    said = ""
    if profile is not None:
        picture = save_picture(profile.draw, out / "profile.svg")
        found["time"] = profile.seconds
        said = f"time: {profile}{f', in {picture}' if picture else ''}\n"
    see = ["ncp-control", "evaluate", str(out / "best.safetensors")]
    if ":" in recipe.env:  # a file never chooses which module is imported
        see += ["--env", recipe.env]
    return found, (
        f"{result.steps:,} environment steps in {result.seconds / 60:.1f} minutes: return {last:,.1f} +- "
        f"{spread:,.1f}, the best {best:,.1f} at step {best_step:,}\n"
        f"{said}"
        f"written to {out}\n"
        f"see it act:  {shlex.join(see)}"
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
