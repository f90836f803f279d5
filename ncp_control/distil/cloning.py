"""Behaviour cloning: a distillation that learns from recorded episodes alone."""

from __future__ import annotations

from dataclasses import MISSING, fields, replace

import numpy as np

from ncp_control.base.progress import say
from ncp_control.distil.environments import EnvRecipe
from ncp_control.distil.lessons import Lessons
from ncp_control.distil.recorded import METHOD, Recorded
from ncp_control.distil.replaying import replay
from ncp_control.distil.settings import DistilSettings
from ncp_control.distil.training import first_steps

# These settings say how teacher and student share the actions, and here nobody acts.
WITHOUT_MEANING = ("first", "disturbance", "handover", "well", "kept", "patience")


class Cloning(Lessons):
    """What a student would have seen of recorded episodes, in every iteration the same.

    Episodes from which it could not learn are refused.

    :param recorded: the episodes
    :param student: how the student's environment is made
    :param known: how the environment is made that the episodes were recorded in
    :param settings: as `settings_for` returns them
    :param seed: for episodes without a seed of their own
    """

    doing, unit = METHOD, "batches"

    def __init__(
        self, recorded: Recorded, student: EnvRecipe, known: EnvRecipe, settings: DistilSettings, seed: int
    ) -> None:
        super().__init__(settings)
        shown = replay(recorded, student, known, seed)
        try:
            first_steps(shown.demonstrations, settings.length, settings.warm_up)
        except ValueError as error:
            raise ValueError(
                f"{recorded.name} has too few steps that were chosen by its policy ({error}): lower --length and "
                "--warm-up, or record more"
            ) from error
        self.demonstrations, self.returns = shown.demonstrations, shown.returns
        self.teachers_return = float(np.mean(shown.returns))

    def collect(self, iteration: int) -> int:
        """Collects nothing, as all demonstrations are there; no episode is ever lost."""
        return 0

    def returns_of_teacher(self, seed: int, episodes: int) -> list[float]:
        """Returns the returns of the recorded episodes."""
        return self.returns

    def done(self, iterations: int) -> int:
        """Returns how many batches are done after so many iterations."""
        return iterations * self.settings.batches


def settings_for(recorded: Recorded, settings: DistilSettings) -> tuple[Recorded, DistilSettings]:
    """Returns the episodes that are used, and settings with their number of steps.

    :param recorded: all episodes
    :param settings: `steps` is the largest number of recorded steps; settings of how a teacher and a student share the
        actions are refused
    """
    usual = {field.name: field.default for field in fields(settings) if field.default is not MISSING}
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
