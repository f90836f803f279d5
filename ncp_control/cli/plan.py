"""`ncp-control plan`: runs a body with a planner that imagines the future in a model, or in the simulator itself."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from ncp_control.dynamics.planning import PlanSettings

SELDOM = ("doubt", "best", "spread", "colour")


@dataclass
class Arguments:
    """Control the real body by planning: before every step, try many plans in a dynamics model and execute the first
    action of the best one. Print the returns.

    Example: ncp-control plan runs/cheetah/best.safetensors --env HalfCheetah-v5 --steps 200
    """

    models: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="MODEL ...")] = ()
    """Files of dynamics models that read actions; several make an ensemble."""

    simulator: bool = False
    """Plan in MuJoCo itself instead of a model, as an upper bound for any model."""

    env: Annotated[str, tyro.conf.arg(metavar="ID")] = "HalfCheetah-v5"
    """The environment, whose observations and actions are those of the model."""

    steps: int = 1000
    """The most steps of an episode."""

    episodes: int = 1
    """Number of episodes."""

    seed: int = 0
    """Seed of the first episode; the following episodes use the following numbers."""

    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """A new folder for the episodes as traces, to fit another model to them."""

    doubt: float = 0.0
    """Subtract this many standard deviations of an ensemble's returns from their mean."""

    json: bool = False
    """Print one JSON object last."""

    search: Annotated[PlanSettings, tyro.conf.arg(name="")] = field(default_factory=PlanSettings)


def run(arguments: Arguments) -> int:
    """Runs the episodes, and prints their returns; after a Ctrl-C, those of the steps until then."""
    import torch

    from ncp_control.base.progress import tracked
    from ncp_control.cli.models import read_model
    from ncp_control.data.env_specs import make, spec_of
    from ncp_control.dynamics import ImaginedFutures, PlannedEpisode, Planner, SimulatorFutures
    from ncp_control.dynamics.imitated import check_imitates

    for name in ("steps", "episodes"):
        if getattr(arguments, name) < 1:
            raise ValueError(f"{name} must be at least 1, got {getattr(arguments, name)}")
    if bool(arguments.models) == arguments.simulator:
        raise ValueError("name either a model to imagine in, or --simulator")
    if arguments.out is not None and arguments.out.exists():
        raise FileExistsError(f"{arguments.out} exists already: choose another --out")
    torch.set_num_threads(1)  # for a small circuit, more threads wait longer than they compute
    env: Any = make(spec_of(arguments.env))
    if arguments.simulator:
        futures: Any = SimulatorFutures(env)
    else:
        model = read_model(arguments.models)
        check_imitates(model, env, arguments.env)
        futures = ImaginedFutures(model, doubt=arguments.doubt)
    space, start, episodes = env.action_space, time.monotonic(), []
    try:
        with tracked("planning", arguments.episodes * arguments.steps, shown=not arguments.json) as tracker:
            for seed in range(arguments.seed, arguments.seed + arguments.episodes):
                planner = Planner(space.low, space.high, arguments.search, seed)
                # before its first step, so that it counts after a Ctrl-C
                episodes.append(episode := PlannedEpisode(env, planner, futures, seed))
                while not episode.over and len(episode.steps) < arguments.steps:
                    episode.step()
                    tracker.advance(1, 1, f"return {episode.rewards.sum():,.0f}")
                save(episode, arguments.out)
    except KeyboardInterrupt:
        show(arguments, episodes, time.monotonic() - start)
        raise
    finally:
        env.close()
    show(arguments, episodes, time.monotonic() - start)
    return 0


def save(episode: Any, folder: Path | None) -> None:
    """Writes an episode as a trace."""
    import numpy as np

    from ncp_control.data import Rollout
    from ncp_control.data.sources import write_trace

    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    seen, acted, rewards = map(np.array, zip(*episode.steps, strict=True))
    rollout = Rollout(
        np.concatenate([seen, episode.observation[None]]), acted, rewards,
        terminated=bool(episode.terminated), seed=episode.seed,
    )  # fmt: skip
    write_trace(rollout, folder / f"episode-{episode.seed:04}.npz")


def show(arguments: Arguments, episodes: Sequence[Any], seconds: float) -> None:
    """Prints the results of the episodes; a Ctrl-C may have cut the last one short."""
    import numpy as np

    episodes = [episode for episode in episodes if episode.steps]
    returns = [float(episode.rewards.sum()) for episode in episodes]
    steps = sum(len(episode.steps) for episode in episodes)
    if not steps:
        return
    summary = {
        "env": arguments.env,
        "model": [str(path) for path in arguments.models] or "the simulator",
        "returns": returns,
        "mean_return": float(np.mean(returns)),
        "mean_reward": sum(returns) / steps,
        "steps": steps,
        "seconds": seconds,
        "imagined_steps": sum(episode.planner.imagined for episode in episodes),
        "seed": arguments.seed,
    }
    if arguments.json:
        print(json.dumps(summary))
        return
    spread = f" +- {np.std(returns):,.1f}" if len(returns) > 1 else ""
    many = f"{len(returns)} episodes" if len(returns) > 1 else "one episode"
    print(
        f"return {summary['mean_return']:,.1f}{spread}, {summary['mean_reward']:.3f} a step, over {many} and {steps:,} "
        f"steps of {arguments.env}; {summary['imagined_steps']:,} steps imagined in {seconds:,.0f} s"
    )
