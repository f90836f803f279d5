"""The iterations of a distillation, and the state from which they are resumed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from ncp_control.base.files import write_atomically
from ncp_control.base.machine import one_thread
from ncp_control.base.notes import read_object
from ncp_control.base.progress import Tracker
from ncp_control.base.run_folder import CURVE, seed_of
from ncp_control.base.tensors import check_optimizer, described_in, pack, read_tensors, unpack, write_tensors
from ncp_control.distil.acting import Actor
from ncp_control.distil.collecting import Collector, Place
from ncp_control.distil.demonstrations import Demonstrations
from ncp_control.distil.rewiring import Rewiring
from ncp_control.distil.settings import DistilSettings
from ncp_control.distil.student import Student
from ncp_control.distil.training import LabelledWindows, train
from ncp_control.rl.evaluation import evaluate
from ncp_control.rl.files.policy_file import save_policy
from ncp_control.wiring import Wiring

STATE, BEST, LAST = "state.safetensors", "best.safetensors", "last.safetensors"
FORMAT, VERSION, DESCRIBED = "ncp_control.distil", 1, ("state",)
LONGEST_WAIT = 2  # iterations after which the teacher takes fewer actions although the student does badly
# What the seeds of a run are for: each use has its own numbers.
CLEAN_EPISODES, NOISY_EPISODES, OWN_EPISODES, CHOICES, EVALUATIONS, SYNAPSES = range(6)


def share_of(found: float, teachers: float) -> float:
    """Returns the share of the teacher's return that a student has: 1 for the same, less for less.

    Returns may be negative, so it is one minus the loss: `1 - (teachers - found) / |teachers|`.
    """
    return 1 - (teachers - found) / max(abs(teachers), 1e-12)


@dataclass
class Row:
    """What one iteration gave.

    :param steps: the steps so far
    :param loss: the mean loss of the training
    :param mean: the mean return of the evaluation
    :param std: the standard deviation of these returns, with n - 1
    :param lowest: the lowest of these returns
    :param teachers_part: the largest share of the actions that the teacher took
    :param lost: how many episodes were lost
    :param seconds: the time since the beginning
    """

    steps: int
    loss: float
    mean: float
    std: float
    lowest: float
    teachers_part: float
    lost: int
    seconds: float


COLUMNS = ("steps", "loss", "mean_return", "std_return", "min_return", "teachers_part", "lost", "seconds")


@dataclass
class Progress:
    """What a distillation remembers from one iteration to the next, besides weights and demonstrations.

    :param rows: a row for every iteration that is done
    :param best: the number of the iteration with the best student
    :param teachers_part: the largest share of the actions that the teacher took in the last iteration
    :param teachers_return: the mean return of the teacher's undisturbed episodes
    :param floor: see `Collector`
    :param waited: iterations since the teacher last took fewer actions in which the student did badly
    """

    rows: list[Row] = field(default_factory=list)
    best: int = 0
    teachers_part: float = 1.0
    teachers_return: float = float("nan")
    floor: float = -np.inf
    waited: int = 0


class DistilLoop:
    """A distillation in progress; it continues from the state in its folder if there is one.

    :param teacher: as `Actor` takes it
    :param make_place: makes an environment of the student, with the teacher's view of it
    :param student: the student
    :param make_env: makes an environment of the student alone
    :param settings: how the student learns
    :param seed: everything random follows from it
    :param out: the run's folder
    :param note: kept in the student's file
    :param tracker: shows the progress, in steps
    :param make_model: makes an untrained model with another wiring, for a student that learns with few synapses
    """

    def __init__(
        self,
        teacher: Any,
        make_place: Callable[[], Place],
        student: Student,
        make_env: Callable[[], gym.Env[Any, Any]],
        settings: DistilSettings,
        seed: int,
        out: Path,
        note: dict[str, Any],
        tracker: Tracker,
        make_model: Callable[[Wiring], Any],
    ) -> None:
        self.student, self.settings, self.seed, self.out = student, settings, seed, out
        self.make_place, self.make_env, self.note, self.tracker = make_place, make_env, note, tracker
        space = student.model.action_space
        self.teacher = Actor(teacher, space, "the teacher")
        self.pupil = Actor(student.model, space, "the student")
        self.rewiring, self.make_model = None, make_model
        if settings.synapses is not None:
            generator = torch.Generator().manual_seed(self.seed_of(SYNAPSES))
            self.rewiring = Rewiring(student, settings.synapses, generator)
        self.optimizer = student.optimizer(settings)
        self.demonstrations = Demonstrations()
        self.progress = Progress()
        self.best: dict[str, Tensor] = {}
        self.began, self.before = time.monotonic(), 0.0
        if (out / STATE).exists():
            self.read(out / STATE)

    def run(self) -> None:
        """Does all iterations that are left."""
        with one_thread():
            for iteration in range(len(self.progress.rows), self.settings.iterations + 1):
                self.iterate(iteration)

    def iterate(self, iteration: int) -> None:
        """Collects demonstrations, trains the student on all of them, and evaluates it."""
        lost = self.collect(iteration)
        windows = LabelledWindows(self.student, self.demonstrations, self.settings.length, self.settings.warm_up)
        generator = torch.Generator().manual_seed(self.seed_of(CHOICES, iteration))
        done = iteration * self.settings.batches
        loss, squares = train(self.student, windows, self.settings, self.optimizer, done, generator, self.rewiring)
        self.student.set_spread(squares)
        self.evaluate(iteration, loss, lost)
        self.write()

    def collect(self, iteration: int) -> int:
        """Adds the demonstrations of an iteration; returns how many episodes were lost."""
        places = [self.make_place() for _ in range(self.settings.envs)]
        collector = Collector(places, self.teacher, self.pupil, self.settings.patience)
        try:
            return self.teach(collector) if iteration == 0 else self.practise(collector, iteration)
        finally:
            for place in places:
                place.env.close()

    def returns_of_teacher(self, seed: int, episodes: int) -> list[float]:
        """Returns the teacher's returns over new episodes of the student's environment."""
        places = [self.make_place() for _ in range(self.settings.envs)]
        collector = Collector(places, self.teacher, self.pupil, self.settings.patience)
        try:
            with one_thread():
                return collector.collect(seed, 1.0, episodes=episodes).returns
        finally:
            for place in places:
                place.env.close()

    def teach(self, collector: Collector) -> int:
        """Lets the teacher act, first alone and then with noise; returns how many episodes were lost."""
        steps, envs = self.settings.steps_until(0), self.settings.envs
        calm = collector.collect(self.seed_of(CLEAN_EPISODES), 1.0, steps=steps, episodes=envs, report=self.report)
        if not calm.rewards:
            raise ValueError(
                f"no episode of the teacher ended within the first {steps:,} steps of {envs} environments: raise "
                "--steps or --first, or lower --envs"
            )
        self.progress.teachers_return = float(np.mean(calm.returns))
        collector.set_floor(calm.rewards)
        self.progress.floor = collector.floor
        left = steps - len(calm.demonstrations)
        noisy = collector.collect(
            self.seed_of(NOISY_EPISODES), 1.0, self.settings.disturbance, steps=left, report=self.report
        )
        parts, lost = [calm.demonstrations, noisy.demonstrations], noisy.lost
        self.demonstrations = Demonstrations.joined(parts)
        self.student.set_statistics(self.demonstrations)
        return lost

    def practise(self, collector: Collector, iteration: int) -> int:
        """Lets the student act, and the teacher label what it sees; returns how many episodes were lost."""
        progress, settings = self.progress, self.settings
        if progress.waited in (0, LONGEST_WAIT):
            progress.waited = 0
            progress.teachers_part = max(0, round(progress.teachers_part * settings.handover) - 1) / settings.handover
        collector.floor = progress.floor
        steps = settings.steps_until(iteration) - settings.steps_until(iteration - 1)
        seed = self.seed_of(OWN_EPISODES, iteration)
        found = collector.collect(seed, progress.teachers_part, steps=steps, report=self.report)
        self.demonstrations = Demonstrations.joined([self.demonstrations, found.demonstrations])
        share = share_of(float(np.mean(found.returns)), progress.teachers_return) if found.returns else 1.0
        progress.waited = 0 if share >= settings.well else progress.waited + 1
        return found.lost

    def evaluate(self, iteration: int, loss: float, lost: int) -> None:
        """Evaluates the student by itself, and keeps it if it is the best so far."""
        settings, progress = self.settings, self.progress
        seed = self.seed_of(EVALUATIONS, iteration)
        returns = np.array(evaluate(self.student.model, self.make_env, settings.eval_episodes, seed).returns)
        std = float(returns.std(ddof=1)) if len(returns) > 1 else 0.0
        row = Row(
            settings.steps_until(iteration), loss, float(returns.mean()), std, float(returns.min()),
            progress.teachers_part, lost, self.seconds(),
        )  # fmt: skip
        progress.rows.append(row)
        if len(progress.rows) == 1 or row.mean > progress.rows[progress.best].mean:
            progress.best = iteration
            self.best = {name: value.detach().clone() for name, value in self.student.policy.state_dict().items()}
        best, teachers = progress.rows[progress.best].mean, progress.teachers_return
        self.tracker.advance(
            note=f"return {row.mean:,.0f}, best {best:,.0f}, {100 * share_of(best, teachers):.0f} % of the teacher's"
        )

    def seed_of(self, use: int, iteration: int = 0) -> int:
        """Returns the seed for one use in an iteration."""
        return seed_of(seed_of(self.seed, use), iteration)

    def report(self, steps: int) -> None:
        """Shows that so many more steps were taken."""
        self.tracker.advance(steps, steps)

    def seconds(self) -> float:
        """Returns the duration so far, including all resumptions."""
        return self.before + time.monotonic() - self.began

    def write(self) -> None:
        """Writes the policies, the curve and, last, the state."""
        progress = self.progress
        last = {name: value.detach().clone() for name, value in self.student.policy.state_dict().items()}
        self.save(LAST, len(progress.rows) - 1)
        self.student.policy.load_state_dict(self.best)
        self.save(BEST, progress.best)
        self.student.policy.load_state_dict(last)
        lines = [COLUMNS, *(tuple(vars(row).values()) for row in progress.rows)]
        write_atomically(self.out / CURVE, "".join(",".join(map(str, line)) + "\n" for line in lines).encode())
        tensors: dict[str, Tensor] = {}
        state = {
            "policy": pack(last, tensors),
            "trained": pack(self.student.trained, tensors),
            "best": pack(self.best, tensors),
            "optimizer": pack(self.optimizer.state_dict(), tensors),
            **({} if self.rewiring is None else {"rewiring": pack(self.rewiring.state(), tensors)}),
            "demonstrations": pack(self.demonstrations.arrays(), tensors, copy=False),
            "rows": [vars(row) for row in progress.rows],
            "best_iteration": progress.best,
            "teachers_part": progress.teachers_part,
            "teachers_return": progress.teachers_return,
            "floor": progress.floor if np.isfinite(progress.floor) else None,
            "waited": progress.waited,
            "seconds": self.seconds(),
        }
        write_tensors(self.out / STATE, FORMAT, VERSION, {"state": json.dumps(state)}, tensors)

    def save(self, name: str, iteration: int) -> None:
        """Writes the student's policy as it is after an iteration."""
        row, teachers = self.progress.rows[iteration], self.progress.teachers_return
        found = {"steps": row.steps, "return": row.mean, "teacher_return": teachers}
        save_policy(self.kept_student().model, self.out / name, {**self.note, "seed": self.seed, **found})

    def kept_student(self) -> Student:
        """Returns the student that is kept: one that learns with few synapses without those that are absent."""
        return self.student if self.rewiring is None else self.rewiring.sparse_student(self.make_model)

    def read(self, path: Path) -> None:
        """Continues from a state that was written."""
        metadata, tensors = read_tensors(path, FORMAT, VERSION, DESCRIBED, "ncp-control distil")
        with described_in(path, "a distillation that cannot go on"):
            found = read_object(metadata["state"])
            self.best = unpack(found["best"], tensors)
            self.student.policy.load_state_dict(self.best)  # weights that do not fit are refused now, not at the end
            self.student.policy.load_state_dict(unpack(found["policy"], tensors))
            trained = unpack(found["trained"], tensors)
            if [value.shape for value in trained] != [value.shape for value in self.student.trained]:
                raise ValueError("its trained weights are not those of the student")
            self.student.trained = trained
            self.optimizer.load_state_dict(unpack(found["optimizer"], tensors))
            check_optimizer(self.optimizer)
            if self.rewiring is not None:
                self.rewiring.load_state(unpack(found["rewiring"], tensors))
            arrays = {key: value.numpy() for key, value in unpack(found["demonstrations"], tensors).items()}
            self.demonstrations = Demonstrations.of_arrays(arrays)
            rows = [Row(**row) for row in found["rows"]]
            floor = -np.inf if found["floor"] is None else float(found["floor"])
            self.progress = Progress(
                rows=rows,
                best=int(found["best_iteration"]),
                teachers_part=float(found["teachers_part"]),
                teachers_return=float(found["teachers_return"]),
                floor=floor,
                waited=int(found["waited"]),
            )
            self.before = float(found["seconds"])
        own = self.demonstrations.own.nonzero()[0]
        self.student.set_statistics(self.demonstrations.first(int(own[-1]) + 1))
        self.tracker.advance(self.done(len(rows)))

    def done(self, iterations: int) -> int:
        """Returns how much is done after so many iterations, as the progress bar counts it: the steps."""
        return self.progress.rows[iterations - 1].steps

    def finish(self) -> None:
        """Gives the student its best weights."""
        self.student.policy.load_state_dict(self.best)


# What makes a loop, from its arguments from the student on, and what shows its progress.
Begun = tuple[Callable[..., DistilLoop], Callable[..., AbstractContextManager[Tracker]]]
