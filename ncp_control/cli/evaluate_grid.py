"""`ncp-control evaluate --grid`: an agent, and others beside it, in one disturbance after another."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

# How strong each disturbance is, by its name in `trained_in.DISTURBANCES`.
LEVELS: dict[str, tuple[float, ...]] = {
    "random": (0.05,),
    "noise": (0.03, 0.1),
    "dropout": (0.1, 1 / 3),
    "delay": (1, 2),
    "push": (1, 2),
    "mass": (0.5, 2),
    "gear": (0.7, 1.4),
    "friction": (0.4, 2),
    "limbs": (0.9, 1.1),
}


def run(arguments: Any, agents: dict[Path, Any]) -> int:
    """Runs agents in every disturbance, and prints a table for each.

    :param arguments: those of `ncp-control evaluate`
    :param agents: the agents, by the files that hold them
    """
    from ncp_control.base.files import name_of
    from ncp_control.base.pages import save_figure
    from ncp_control.base.sections import text_of
    from ncp_control.base.text import counted, shown
    from ncp_control.cli.arguments import screen_width
    from ncp_control.loop.grid import disturbed, grid_figure, grid_section

    asked = levels_of(arguments.levels)
    # Refuses before any work.
    makers = {path: makers_of(path, agent, arguments.env, asked) for path, agent in agents.items()}
    grids, listed = {}, []
    for path, agent in agents.items():
        env, named = makers[path]
        rows = disturbed(
            agent, named, arguments.episodes, arguments.seed, not arguments.sample, progress=not arguments.json
        )
        name = name_of(path) if name_of(path) not in grids else str(path)
        if not arguments.json:
            print(f"{shown(name)} in {env}, {counted(arguments.episodes, 'episode')} in each disturbance")
            print(text_of([grid_section(rows)], screen_width()))
        grids[name] = rows
        listed.append({"agent": str(path), "env": env, "seed": arguments.seed, "rows": [row.to_json() for row in rows]})
    if arguments.figures is not None:
        arguments.figures.mkdir(parents=True, exist_ok=True)
        save_figure(grid_figure(grids), arguments.figures / "grid.svg", dpi=100)
    if arguments.json:
        print(json.dumps({"agents": listed}))
    elif arguments.figures is not None:
        print(f"figure: {arguments.figures / 'grid.svg'}")
    return 0


def makers_of(
    path: Path, agent: Any, env_id: str | None = None, levels: Mapping[str, Sequence[float]] | None = None
) -> tuple[str, dict[str, Callable[[], Any]]]:
    """Returns the name of an agent's environment, and what makes it in every disturbance, by words for it.

    :param path: the agent's file
    :param agent: the agent
    :param env_id: the environment's id; by default the one in the file
    :param levels: how strong each disturbance is; by default all of `LEVELS` that the environment can have
    """
    from ncp_control.cli import trained_in
    from ncp_control.loop.grid import UNDISTURBED

    note = getattr(agent, "note", {})
    name = trained_in.env_name(path, note, env_id)
    with closing(trained_in.make(name, note, **trained_in.UNDISTURBED)) as env:
        left_out = () if levels else unfit(env)
    found: dict[str, Callable[[], Any]] = {UNDISTURBED: partial(trained_in.make, name, note, **trained_in.UNDISTURBED)}
    for which, strengths in (levels or LEVELS).items():
        for level in strengths if which not in left_out else ():
            make = partial(trained_in.make, name, note, **(trained_in.UNDISTURBED | {which: level}))
            make().close()
            found[trained_in.DISTURBANCES[which].written(level)] = make
    return name, found


def unfit(env: Any) -> tuple[str, ...]:
    """Returns the disturbances that an environment cannot have."""
    import numpy as np
    from gymnasium import spaces

    from ncp_control.cli import trained_in

    body = () if hasattr(getattr(env.unwrapped, "model", None), "body_inertia") else tuple(trained_in.AS_MADE)
    seen, done = env.observation_space, env.action_space
    numbers = isinstance(seen, spaces.Box) and np.issubdtype(seen.dtype, np.floating)
    acted = isinstance(done, spaces.Box)
    return (*body, *(() if numbers else ("noise", "dropout")), *(() if acted else ("delay",)))


def levels_of(words: tuple[str, ...]) -> dict[str, tuple[float, ...]]:
    """Returns how strong each disturbance is that was asked for, such as mass=0.5,2."""
    found: dict[str, tuple[float, ...]] = {}
    for word in words:
        name, _, text = word.partition("=")
        if name not in LEVELS:
            raise ValueError(f"--levels knows no disturbance {name!r}: choose from {', '.join(LEVELS)}")
        try:
            found[name] = tuple(float(part) for part in text.split(",")) if text else LEVELS[name]
        except ValueError:
            raise ValueError(f"--levels takes numbers, such as {name}=0.5,2, and got {word!r}") from None
    return found
