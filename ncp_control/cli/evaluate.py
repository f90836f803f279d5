"""`ncp-control evaluate`: the return of a policy, in its environment or in a model too, or the errors of a model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

SELDOM = ("sample", "algo", "normalize", "levels", "beside")


@dataclass
class Arguments:
    """Run a policy for whole episodes and print its return, also in many disturbances, or beside what a dynamics model
    predicts; or compare a model's predictions with rollouts, one step ahead and many steps ahead.

    Example: ncp-control evaluate checkpoints/halfcheetah-teacher.safetensors --episodes 20
    Example: ncp-control evaluate checkpoints/halfcheetah.safetensors --grid --figures pictures
    Example: ncp-control evaluate runs/positions/best.safetensors --in runs/cheetah/best.safetensors
    Example: ncp-control evaluate runs/fit-ltc-s0/best.safetensors --data ./cheetah-v0 --figures pictures
    """

    policy: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="CHECKPOINT")]
    """The .safetensors file of a policy or of a model; or a .zip of Stable-Baselines3, a .pt of rsl_rl, or
    module:function."""

    env: Annotated[str | None, tyro.conf.arg(metavar="ID")] = None
    """The environment; by default the one that the checkpoint was trained in, or a model's rollouts were collected
    in."""

    inside: Annotated[tuple[Path, ...], tyro.conf.arg(name="in", metavar="MODEL ...")] = ()
    """For a policy: dynamics models that predict its return; several make an ensemble."""

    episodes: int = 20
    """Number of episodes."""

    seed: int = 0
    """Random seed; the same seed gives the same result."""

    random: Annotated[float | None, tyro.conf.arg(metavar="P")] = None
    """The share of random actions; by default that of the training."""

    noise: Annotated[float | None, tyro.conf.arg(metavar="STD")] = None
    """Gaussian noise on every observation; by default that of the training."""

    dropout: Annotated[float | None, tyro.conf.arg(metavar="P")] = None
    """The probability that an observation is replaced by zeros; by default that of the training."""

    grid: bool = False
    """Disturb a policy in many ways, one after another: noise, lost readings, late actions, pushes, changed bodies."""

    levels: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=N,N ...")] = ()
    """With --grid: the disturbances, such as mass=0.5,2 delay=1."""

    beside: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="AGENT ...")] = ()
    """With --grid: other agents."""

    algo: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The algorithm of a .zip, such as SAC."""

    normalize: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None
    """The file of the VecNormalize that belongs to a .zip."""

    sample: bool = False
    """Sample the policy's actions instead of taking the deterministic ones."""

    data: str | None = None
    """For a model: the rollouts or the table; their test part is used."""

    figures: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """For a model, and with --grid: a folder for pictures."""

    json: bool = False
    """Print one JSON object last."""


def run(arguments: Arguments) -> int:
    """Evaluates a policy or a model and prints the result."""
    from ncp_control.base.kinds import Kind, kind_of

    kind = kind_of(arguments.policy)
    if kind in (Kind.DYNAMICS, Kind.SERIES):
        if arguments.inside:
            raise ValueError(f"--in is for policies, and {arguments.policy} holds {kind.value}")
        return run_model(arguments)
    if arguments.data is not None or (arguments.figures is not None and not arguments.grid):
        raise ValueError(f"--data and --figures are for models of the dynamics, and {arguments.policy} holds none")
    if (arguments.beside or arguments.levels) and not arguments.grid:
        raise ValueError(f"--{'beside' if arguments.beside else 'levels'} goes with --grid: add it")
    agents = (arguments.policy, *arguments.beside)
    if (arguments.algo or arguments.normalize) and not any(path.suffix.lower() == ".zip" for path in agents):
        raise ValueError(
            f"--{'algo' if arguments.algo else 'normalize'} goes with a .zip of Stable-Baselines3: leave it out"
        )
    if arguments.grid:
        return run_grid(arguments, agents)
    if arguments.inside:
        return run_inside(arguments)
    return run_policy(arguments)


def run_model(arguments: Arguments) -> int:
    """Evaluates a model of the dynamics or of series."""
    import torch

    from ncp_control.base.kinds import Kind, kind_of
    from ncp_control.cli import evaluate_model, evaluate_series

    kind = kind_of(arguments.policy)
    if arguments.data is None:
        needs = "the table for it" if kind is Kind.SERIES else "the rollouts for it"
        raise ValueError(f"{arguments.policy} holds {kind.value if kind else 'a model'}: add --data, {needs}")
    torch.set_num_threads(1)  # for a small circuit, more threads wait longer than they compute
    if arguments.env:
        from ncp_control.data.env_specs import import_for

        import_for(arguments.env)
    if kind is Kind.SERIES:
        result = evaluate_series.evaluate(arguments.policy, arguments.data, arguments.figures)
    else:
        result = evaluate_model.evaluate(arguments.policy, arguments.data, arguments.figures, not arguments.json)
    if arguments.json:
        print(json.dumps(result))
    else:
        (evaluate_series if kind is Kind.SERIES else evaluate_model).show(result)
    return 0


def run_inside(arguments: Arguments) -> int:
    """Evaluates a policy in a model and in its environment."""
    from ncp_control.cli import evaluate_inside

    result = evaluate_inside.evaluate(arguments)
    if arguments.json:
        print(json.dumps(result))
    else:
        evaluate_inside.show(result)
    return 0


def run_grid(arguments: Arguments, agents: tuple[Path, ...]) -> int:
    """Evaluates a policy, and others beside it, in many disturbances."""
    from ncp_control.cli import evaluate_grid, trained_in

    asked = [name for name, level in trained_in.asked_of(arguments).items() if level is not None]
    if asked or arguments.inside:
        raise ValueError(f"--grid has disturbances of its own: leave out --{asked[0] if asked else 'in'}")
    return evaluate_grid.run(arguments, {path: agent_of(arguments, path) for path in agents})


def agent_of(arguments: Arguments, path: Path) -> Any:
    """Loads a policy, or anything else that can teach."""
    from ncp_control.rl import load_policy

    is_function = ":" in str(path) and not path.exists()
    if path.suffix.lower() not in (".zip", ".pt") and not is_function:
        return load_policy(path)
    from ncp_control.distil.teachers import load_teacher

    of_zip = (arguments.algo, arguments.normalize) if path.suffix.lower() == ".zip" else ()
    return load_teacher(str(path), *of_zip)


def run_policy(arguments: Arguments) -> int:
    """Evaluates a policy."""
    import numpy as np

    from ncp_control.cli import trained_in
    from ncp_control.rl import evaluate

    policy = agent_of(arguments, arguments.policy)
    note = getattr(policy, "note", {})
    env = trained_in.env_name(arguments.policy, note, arguments.env)
    asked = trained_in.asked_of(arguments)
    performance: list[float] = []
    episodes = evaluate(
        policy,
        lambda: trained_in.make(env, note, **asked),
        arguments.episodes,
        arguments.seed,
        deterministic=not arguments.sample,
        progress=not arguments.json,
        performance=performance,
    )
    summary: dict[str, Any] = {
        "checkpoint": str(arguments.policy),
        "env": env,
        **trained_in.conditions(note, **asked),
        "seed": arguments.seed,
        **episodes.summary(),
    }
    if trials := len(performance):
        summary |= {"trials": trials, "correct": float(np.mean(performance))}
    teachers = note.get("teacher_return")
    if isinstance(teachers, float) and arguments.env in (None, note.get("env")) and set(asked.values()) == {None}:
        from ncp_control.distil.lessons import share_of

        summary |= {"teacher_return": teachers, "share": share_of(summary["mean_return"], teachers)}
    if arguments.json:
        print(json.dumps(summary))
    else:
        disturbed = trained_in.in_words(summary["env_wrapper"])
        low, high, count = summary["min_return"], summary["max_return"], len(episodes.returns)
        print(
            f"{arguments.policy.name} in {env}{disturbed}: return {summary['mean_return']:,.1f} "
            f"+- {summary['std_return']:,.1f} ({low:,.1f} to {high:,.1f}) over {count} "
            f"episode{'s' if count > 1 else ''} of {summary['mean_length']:.0f} steps"
            + (f", {100 * summary['share']:.1f} % of its teacher's {teachers:,.1f}" if "share" in summary else "")
            + (f"; {100 * summary['correct']:.1f} % of {trials:,} trials correct" if trials else "")
        )
    return 0
