"""Levels of data: random, medium and expert, from policies that one training kept at its evaluations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ncp_control.base.run_folder import CURVE, read_curve

LEVELS = ("random", "medium", "expert")
# What a run of `ncp-control train` keeps: a folder with the policy of each evaluation, and the best of these policies.
POLICIES, BEST = "policies", "best.safetensors"
# The columns of its curve that are read here; the recipes of teachers evaluate undisturbed too.
NEEDED, UNDISTURBED = ("steps", "mean_return"), "undisturbed_mean_return"


class Checkpoint(NamedTuple):
    """A policy on its way through a training.

    :param steps: the steps of training behind it
    :param mean_return: its mean return in the evaluation after these steps
    :param path: its file
    :param undisturbed: its mean return there without disturbances; None if the training evaluated in one way only
    """

    steps: int
    mean_return: float
    path: Path
    undisturbed: float | None = None

    @property
    def level_return(self) -> float:
        """The return that says which level it has: without disturbances, if that is known, as reference scores are."""
        return self.mean_return if self.undisturbed is None else self.undisturbed


def checkpoints_of(run: str | Path) -> list[Checkpoint]:
    """Returns the policies that a run of `ncp-control train` kept at its evaluations, the earliest first.

    Example::

        expert = best_of(checkpoints_of("runs/halfcheetah-s0"))

    Runs of versions that kept only the best policy have that one.

    :param run: the run's folder
    """
    run = Path(run)
    rows = [row for row in read_curve(run) if all(math.isfinite(row.get(key, math.nan)) for key in NEEDED)]
    if not rows:
        raise ValueError(f"{run} has no evaluation in {CURVE}: give the folder of a run of `ncp-control train`")
    found = [
        Checkpoint(
            steps := int(row["steps"]),
            row["mean_return"],
            run / POLICIES / f"{steps:09d}.safetensors",
            row.get(UNDISTURBED),
        )
        for row in rows
    ]
    best = best_of(found)
    found = [one if one.path.is_file() or one != best else one._replace(path=run / BEST) for one in found]
    kept = [one for one in found if one.path.is_file()]
    if best_of(found) not in kept:
        raise ValueError(f"{run} keeps neither the policy of step {best.steps:,}, the best one, nor {BEST}")
    return kept


def best_of(checkpoints: Sequence[Checkpoint]) -> Checkpoint:
    """Returns the policy with the highest return; of equal ones the earliest."""
    return max(checkpoints, key=lambda one: one.mean_return)


def medium_of(checkpoints: Sequence[Checkpoint], random: float) -> Checkpoint:
    """Returns the policy half-way from random actions to the best one.

    It is the policy whose return is nearest to the middle between the return of random actions and that of the best
    policy, among those that come before the best one; of equally near ones the earliest. Returns without disturbances
    count, if the training has them.

    :param checkpoints: the policies of one training
    :param random: the mean return of uniformly random actions
    """
    best = best_of(checkpoints)
    middle = (random + best.level_return) / 2
    before = [one for one in checkpoints if one.steps < best.steps]
    if not before:
        raise ValueError(
            f"there is no policy between random actions and the best one, of step {best.steps:,}: train with more "
            "evaluations (--eval-every), or give another policy for medium"
        )
    return min(before, key=lambda one: abs(one.level_return - middle))
