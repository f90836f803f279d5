"""The lessons of a distillation: where a student's demonstrations come from, iteration by iteration.

`Asking` a teacher is DAgger: the student acts, and the teacher labels what it sees. `Cloning` shows recorded episodes,
in which nobody acts any more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, fields, replace
from typing import Any

import numpy as np

from ncp_control.base.machine import one_thread
from ncp_control.base.progress import say
from ncp_control.data.episodes import copy_of, stack
from ncp_control.distil.collecting import Actor, Collector, TeachingEnv
from ncp_control.distil.demonstrations import Demonstrations
from ncp_control.distil.environments import EnvRecipe
from ncp_control.distil.learning import first_steps
from ncp_control.distil.recorded import METHOD, Recorded
from ncp_control.distil.replaying import replay
from ncp_control.distil.settings import DistilSettings
from ncp_control.distil.student import Student
from ncp_control.runs.run import Run

LONGEST_WAIT = 2  # iterations after which the teacher takes fewer actions although the student does badly
# What the seeds of a run are for: each use has its own numbers.
CLEAN_EPISODES, NOISY_EPISODES, OWN_EPISODES, CHOICES, EVALUATIONS, SYNAPSES = range(6)
LAST_SEED = 2**31  # of the last evaluation, apart from all of these


# These settings say how teacher and student share the actions, and here nobody acts.
WITHOUT_MEANING = ("demonstrations", "disturbance", "handover", "handover_at", "teacher_share", "patience")


def share_of(mean: float, teachers: float) -> float:
    """Returns the share of the teacher's return that a student has: 1 for the same, less for less.

    Returns may be negative, so it is one minus the loss: `1 - (teachers - mean) / |teachers|`.
    """
    return 1 - (teachers - mean) / max(abs(teachers), 1e-12)


class Lessons(ABC):
    """Where the demonstrations come from.

    :param settings: how the student learns
    :ivar demonstrations: all of them so far
    :ivar teachers_return: the mean return of the teacher's undisturbed episodes
    :ivar teachers_part: the largest share of the actions that the teacher took in the last iteration
    :ivar floor: see `Collector`
    :ivar waited: iterations since the teacher last took fewer actions in which the student did badly
    """

    doing = "distilling"  # the words beside the progress bar, and what it counts
    unit = "steps"

    def __init__(self, settings: DistilSettings) -> None:
        self.settings = settings
        self.demonstrations = Demonstrations()
        self.teachers_return, self.teachers_part = float("nan"), 1.0
        self.floor, self.waited = -np.inf, 0

    @abstractmethod
    def collect(self, iteration: int) -> int:
        """Adds the demonstrations of an iteration; returns how many episodes were lost."""

    @abstractmethod
    def returns_of_teacher(self, seed: int, episodes: int) -> list[float]:
        """Returns the teacher's returns over new episodes of the student's environment."""

    @abstractmethod
    def done(self, iterations: int) -> int:
        """Returns how much is done after so many iterations, as the progress bar counts it."""

    def state(self) -> dict[str, Any]:
        """Returns what is remembered from one iteration to the next, besides demonstrations, as JSON values."""
        return {
            "teachers_part": self.teachers_part, "teachers_return": self.teachers_return, "waited": self.waited,
            "floor": self.floor if np.isfinite(self.floor) else None,
        }  # fmt: skip

    def recall(self, state: dict[str, Any], demonstrations: Demonstrations) -> None:
        """Goes on from what was remembered."""
        self.demonstrations = demonstrations
        self.teachers_part, self.teachers_return = float(state["teachers_part"]), float(state["teachers_return"])
        self.floor = -np.inf if state["floor"] is None else float(state["floor"])
        self.waited = int(state["waited"])


class Asking(Lessons):
    """DAgger: the student acts, and the teacher says in every step what it would have done.

    The teacher acts alone at first. Then it hands over the actions, some in each iteration in which the student does
    well, because a beginner's own episodes lead where neither of them needs to be.

    :param teacher: as `Actor` takes it
    :param make_env: makes an environment of the student, with the teacher's view of it
    :param student: the student
    :param settings: how the student learns
    :param run: the run, from whose seed everything random follows
    """

    def __init__(
        self,
        teacher: Any,
        make_env: Callable[[], TeachingEnv],
        student: Student,
        settings: DistilSettings,
        run: Run,
    ) -> None:
        super().__init__(settings)
        space = student.model.action_space
        self.teacher, self.student = Actor(teacher, space, "the teacher"), Actor(student.model, space, "the student")
        self.make_env, self.run = make_env, run

    def collect(self, iteration: int) -> int:
        """Adds the demonstrations of an iteration; returns how many episodes were lost."""
        with self.collector() as collector:
            return self.teach(collector) if iteration == 0 else self.practise(collector, iteration)

    def returns_of_teacher(self, seed: int, episodes: int) -> list[float]:
        """Returns the teacher's returns over new episodes of the student's environment."""
        with self.collector() as collector, one_thread():
            return collector.collect(seed, 1.0, episodes=episodes).returns

    def done(self, iterations: int) -> int:
        """Returns how many steps are taken after so many iterations."""
        return self.settings.steps_until(iterations - 1)

    @contextmanager
    def collector(self) -> Iterator[Collector]:
        """Gives a collector in new environments, which are closed afterwards."""
        envs = [self.make_env() for _ in range(self.settings.envs)]
        try:
            yield Collector(envs, self.teacher, self.student, self.settings.patience)
        finally:
            for env in envs:
                env.close()

    def teach(self, collector: Collector) -> int:
        """Lets the teacher act, first alone and then with noise; returns how many episodes were lost."""
        steps, envs = self.settings.steps_until(0), self.settings.envs
        calm = collector.collect(
            self.run.seed_of(CLEAN_EPISODES, 0), 1.0, steps=steps, episodes=envs, report=self.report
        )
        if not calm.rewards:
            raise ValueError(
                f"no episode of the teacher ended within the first {steps:,} steps of {envs} environments: raise "
                "--steps or --demonstrations, or lower --envs"
            )
        self.teachers_return = float(np.mean(calm.returns))
        collector.set_floor(calm.rewards)
        self.floor = collector.floor
        left = steps - len(calm.demonstrations)
        noisy = collector.collect(
            self.run.seed_of(NOISY_EPISODES, 0), 1.0, self.settings.disturbance, steps=left, report=self.report
        )
        self.demonstrations = Demonstrations.joined([calm.demonstrations, noisy.demonstrations])
        return noisy.lost

    def practise(self, collector: Collector, iteration: int) -> int:
        """Lets the student act, and the teacher label what it sees; returns how many episodes were lost."""
        settings = self.settings
        if self.waited in (0, LONGEST_WAIT):
            self.waited = 0
            self.teachers_part = max(0, round(self.teachers_part * settings.handover) - 1) / settings.handover
        collector.floor = self.floor
        steps = settings.steps_until(iteration) - settings.steps_until(iteration - 1)
        seed = self.run.seed_of(OWN_EPISODES, iteration)
        new = collector.collect(seed, self.teachers_part, steps=steps, report=self.report)
        self.demonstrations = Demonstrations.joined([self.demonstrations, new.demonstrations])
        share = share_of(float(np.mean(new.returns)), self.teachers_return) if new.returns else 1.0
        self.waited = 0 if share >= settings.handover_at else self.waited + 1
        return new.lost

    def report(self, steps: int) -> None:
        """Shows that so many more steps were taken."""
        self.run.tracker.advance(steps, steps)


class Cloning(Lessons):
    """What a student would have seen of recorded episodes, in every iteration the same.

    Episodes from which it could not learn are refused.

    :param recorded: the episodes
    :param student: how the student's environment is made
    :param known: how the environment is made that the episodes were recorded in
    :param settings: as `settings_for_cloning` returns them
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


def try_out(env: TeachingEnv, teacher: Any) -> None:
    """Lets the teacher act once, so that one that does not fit is refused before anything is written."""
    try:
        observation = copy_of(env.reset(seed=0)[0])
        actor = Actor(teacher, env.action_space, "the teacher")
        actor.act(stack([env.seen_by_teacher(observation)]), np.ones(1, dtype=bool))
    finally:
        env.close()


def settings_for_cloning(recorded: Recorded, settings: DistilSettings) -> tuple[Recorded, DistilSettings]:
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
    return used, replace(settings, steps=used.steps, demonstrations=1.0)
