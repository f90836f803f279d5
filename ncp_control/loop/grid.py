"""An agent in one disturbance after another: its return in each, as a table and as a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from ncp_control.base.pages import BLUE, GREEN, GREY, ORANGE, PINK, SKY, YELLOW, new_figure, plain
from ncp_control.base.progress import tracked
from ncp_control.base.sections import Section, table
from ncp_control.rl.evaluation import EpisodeReturns, evaluate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = (BLUE, ORANGE, GREEN, PINK, SKY, YELLOW, GREY)
UNDISTURBED = "undisturbed"


@dataclass(frozen=True)
class Disturbed:
    """An agent's episodes in one disturbance.

    :param words: what disturbs
    :param episodes: their returns and lengths
    :param share: the mean return as a share of that without a disturbance; None where that is not above zero
    """

    words: str
    episodes: EpisodeReturns
    share: float | None

    def to_json(self) -> dict[str, Any]:
        """Returns the returns in short, as JSON values."""
        share = {} if self.share is None else {"share": self.share}
        return {"disturbance": self.words, **self.episodes.summary(), **share}


def disturbed(
    agent: Any,
    makers: Mapping[str, Callable[[], gym.Env[Any, Any]]],
    episodes: int = 20,
    seed: int = 0,
    deterministic: bool = True,
    progress: bool = False,
) -> list[Disturbed]:
    """Runs an agent in environments with different disturbances, by the same seeds in each.

    :param agent: has Stable-Baselines3's `predict`, or is a function from observations (B, n) to actions (B, m)
    :param makers: makes the environment of each disturbance, by the words for it; the first one is without any
    :param episodes: the number of episodes in each
    :param seed: everything random follows from it
    :param deterministic: take the agent's deterministic actions rather than samples
    :param progress: show a progress bar on stderr
    """
    rows: list[Disturbed] = []
    with tracked("disturbing", len(makers), unit="disturbances", shown=progress) as tracker:
        for words, make in makers.items():
            found = evaluate(agent, make, episodes, seed, deterministic)
            mean = float(np.mean(found.returns))
            plain_mean = float(np.mean((rows[0].episodes if rows else found).returns))
            rows.append(Disturbed(words, found, mean / plain_mean if plain_mean > 0 else None))
            tracker.advance(1, 1, note=f"{words}: {mean:,.0f}")
    return rows


def grid_section(rows: Sequence[Disturbed]) -> Section:
    """Returns an agent's returns as a table."""
    returns = [np.array(row.episodes.returns) for row in rows]
    columns = [
        ("disturbance", [row.words for row in rows]),
        ("return", [f"{own.mean():,.0f}" for own in returns]),
        ("+-", [f"{own.std():,.0f}" for own in returns]),
        ("lowest", [f"{own.min():,.0f}" for own in returns]),
        ("of undisturbed", ["-" if row.share is None else f"{round(100 * row.share) + 0:d} %" for row in rows]),
    ]
    return table("disturbances", columns)


def grid_figure(grids: Mapping[str, Sequence[Disturbed]]) -> Figure:
    """Draws the mean return of each agent in each disturbance, on a line from the lowest to the highest return."""
    names = list(dict.fromkeys(row.words for rows in grids.values() for row in rows))
    figure = new_figure(7.5, 0.9 + 0.2 * len(names) * (1 + 0.4 * len(grids)))
    axes = figure.subplots()
    for number, (agent, rows) in enumerate(grids.items()):
        colour, shift = COLOURS[number % len(COLOURS)], 0.6 * ((number + 0.5) / len(grids) - 0.5)
        places = np.array([names.index(row.words) + shift for row in rows])
        returns = [row.episodes.returns for row in rows]
        axes.hlines(places, [min(own) for own in returns], [max(own) for own in returns], color=colour, linewidth=1.2)
        axes.plot([np.mean(own) for own in returns], places, "o", color=colour, markersize=4.5, label=agent)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set(xlabel="return: mean, lowest and highest")
    axes.grid(axis="x", color=GREY, alpha=0.3, linewidth=0.6)
    figure.legend(loc="outside upper left", ncols=2, frameon=False, fontsize=8)
    plain(axes)
    return figure
