"""Behaviour cloning: the iterations of a distillation that learns from recorded episodes alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from ncp_control.base.progress import Tracker, say, tracked
from ncp_control.distil.collecting import Place
from ncp_control.distil.environments import EnvRecipe
from ncp_control.distil.loop import Begun, DistilLoop
from ncp_control.distil.recorded import METHOD, Recorded
from ncp_control.distil.replaying import Replay, replay
from ncp_control.distil.settings import DistilSettings
from ncp_control.distil.student import Student
from ncp_control.distil.training import first_steps
from ncp_control.wiring import Wiring

# These settings say how teacher and student share the actions, and here nobody acts.
WITHOUT_MEANING = ("first", "disturbance", "handover", "well", "kept", "patience")


class CloningLoop(DistilLoop):
    """A behaviour cloning in progress: every iteration learns from the same demonstrations.

    :param recorded: the episodes
    :param shown: what the student saw of them
    :param student: the student
    :param make_env: makes an environment of the student
    :param settings: as `settings_for` returns them
    :param seed: everything random follows from it
    :param out: the run's folder
    :param note: kept in the student's file
    :param tracker: shows the progress, in batches
    :param make_model: as in `DistilLoop`
    """

    def __init__(
        self,
        recorded: Recorded,
        shown: Replay,
        student: Student,
        make_env: Callable[[], gym.Env[Any, Any]],
        settings: DistilSettings,
        seed: int,
        out: Path,
        note: dict[str, Any],
        tracker: Tracker,
        make_model: Callable[[Wiring], Any],
    ) -> None:
        self.shown = shown
        given = student, make_env, settings, seed, out, note, tracker, make_model
        super().__init__(recorded, lambda: Place(make_env()), *given)

    def iterate(self, iteration: int) -> None:
        """Trains the student on the demonstrations, and evaluates it."""
        super().iterate(iteration)
        self.tracker.advance(self.settings.batches, self.settings.batches)

    def collect(self, iteration: int) -> int:
        """Takes the demonstrations in the first iteration; no episode is ever lost."""
        if iteration == 0:
            self.demonstrations = self.shown.demonstrations
            self.student.set_statistics(self.demonstrations)
            self.progress.teachers_return = float(np.mean(self.shown.returns))
        return 0

    def returns_of_teacher(self, seed: int, episodes: int) -> list[float]:
        """Returns the returns of the recorded episodes."""
        return self.shown.returns

    def done(self, iterations: int) -> int:
        """Returns how much is done after so many iterations, as the progress bar counts it: the batches."""
        return iterations * self.settings.batches


def settings_for(recorded: Recorded, settings: DistilSettings) -> tuple[Recorded, DistilSettings]:
    """Returns the episodes that are used, and settings with their number of steps.

    :param recorded: all episodes
    :param settings: `steps` is the largest number of recorded steps; settings of how a teacher and a student share the
        actions are refused
    """
    usual = {one.name: one.default for one in fields(settings) if one.default is not MISSING}
    odd = [name for name in WITHOUT_MEANING if getattr(settings, name) != usual[name]]
    if odd:
        words, them = " and ".join(f"--{name}" for name in odd), "them" if odd[1:] else "it"
        raise ValueError(
            f"{METHOD} learns from {recorded.name} alone, where {words} would mean nothing: leave {them} out"
        )
    used = recorded.first(settings.steps)
    if used.steps < recorded.steps:
        say(
            f"{len(used.rollouts):,} of the {len(recorded.rollouts):,} episodes of {recorded.name} are used: "
            f"--steps {recorded.steps} takes all of them"
        )
    return used, replace(settings, steps=used.steps, first=1.0)


def begin(recorded: Recorded, student: EnvRecipe, known: EnvRecipe, settings: DistilSettings, seed: int) -> Begun:
    """Shows recorded episodes to a student, and refuses those from which it could not learn.

    :param recorded: the episodes
    :param student: how the student's environment is made
    :param known: how the environment is made that the episodes were recorded in
    :param settings: how the student learns
    :param seed: for episodes without a seed of their own
    :return: what makes the loop, and what shows its progress
    """
    found = replay(recorded, student, known, seed)
    try:
        first_steps(found.demonstrations, settings.length, settings.warm_up)
    except ValueError as error:
        raise ValueError(
            f"{recorded.name} has too few steps that were chosen by its policy ({error}): lower --length and --warm-up,"
            " or record more"
        ) from error
    bar = partial(tracked, METHOD, settings.all_batches, unit="batches")
    return partial(CloningLoop, recorded, found), bar
