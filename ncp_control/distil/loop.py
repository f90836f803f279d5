"""The iterations of a distillation: collect demonstrations, learn from all of them, evaluate, and keep the state.

Everything random in an iteration follows from the seed and the iteration's number. So the state that is written after
it is all that a stopped distillation needs to go on exactly.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from ncp_control.base.machine import one_thread
from ncp_control.base.notes import read_object
from ncp_control.base.tensors import check_optimizer, described_in, pack, read_tensors, unpack, write_tensors
from ncp_control.distil.demonstrations import Demonstrations
from ncp_control.distil.learning import LabelledWindows, train
from ncp_control.distil.lessons import CHOICES, EVALUATIONS, SYNAPSES, Lessons, share_of
from ncp_control.distil.rewiring import Rewiring
from ncp_control.distil.settings import DistilSettings
from ncp_control.distil.student import Student
from ncp_control.rl.evaluation import evaluate
from ncp_control.rl.files.policy_file import save_policy
from ncp_control.runs.curve import LearningCurve
from ncp_control.runs.run import BEST, LAST, STATE, Run
from ncp_control.wiring import Wiring

FORMAT, VERSION, DESCRIBED = "ncp_control.distil", 1, ("state",)


class Row(NamedTuple):
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


class DistilLoop:
    """A distillation in progress; it continues from the state in its folder if there is one.

    :param run: the run, which is open and shows its progress
    :param lessons: where the demonstrations come from
    :param student: the student
    :param make_env: makes an environment of the student
    :param settings: how the student learns
    :param note: kept in the student's file
    :param make_model: makes an untrained model with another wiring, for a student that learns with few synapses
    """

    def __init__(
        self,
        run: Run,
        lessons: Lessons,
        student: Student,
        make_env: Callable[[], gym.Env[Any, Any]],
        settings: DistilSettings,
        note: dict[str, Any],
        make_model: Callable[[Wiring], Any],
    ) -> None:
        self.run, self.lessons, self.student, self.settings = run, lessons, student, settings
        self.make_env, self.note, self.make_model = make_env, note, make_model
        self.rewiring = None
        if settings.synapses is not None:
            generator = torch.Generator().manual_seed(run.seed_of(SYNAPSES, 0))
            self.rewiring = Rewiring(student, settings.synapses, generator)
        self.optimizer = student.optimizer(settings)
        self.curve: LearningCurve[Row] = LearningCurve(COLUMNS, "mean_return")
        self.best: dict[str, Tensor] = {}  # the weights of the best student
        if run.has(STATE):
            self.read(run.path(STATE))

    def run_iterations(self) -> None:
        """Does all iterations that are left, and gives the student its best weights."""
        with one_thread():
            for iteration in range(len(self.curve.rows), self.settings.iterations + 1):
                self.iterate(iteration)
        self.student.policy.load_state_dict(self.best)

    def iterate(self, iteration: int) -> None:
        """Collects demonstrations, trains the student on all of them, and evaluates it."""
        lost = self.lessons.collect(iteration)
        demonstrations, settings = self.lessons.demonstrations, self.settings
        if iteration == 0:
            self.student.set_statistics(demonstrations)
        windows = LabelledWindows(self.student, demonstrations, settings.length, settings.warm_up)
        generator = torch.Generator().manual_seed(self.run.seed_of(CHOICES, iteration))
        done = iteration * settings.batches
        loss, squares = train(self.student, windows, settings, self.optimizer, done, generator, self.rewiring)
        self.student.set_spread(squares)
        self.evaluate(iteration, loss, lost)
        self.write()
        new = self.lessons.done(iteration + 1) - self.run.tracker.done
        self.run.tracker.advance(new, new)

    def evaluate(self, iteration: int, loss: float, lost: int) -> None:
        """Evaluates the student by itself, and keeps it if it is the best so far."""
        settings, lessons = self.settings, self.lessons
        seed = self.run.seed_of(EVALUATIONS, iteration)
        returns = np.array(evaluate(self.student.model, self.make_env, settings.eval_episodes, seed).returns)
        std = float(returns.std(ddof=1)) if len(returns) > 1 else 0.0
        row = Row(
            settings.steps_until(iteration), loss, float(returns.mean()), std, float(returns.min()),
            lessons.teachers_part, lost, self.run.seconds(),
        )  # fmt: skip
        if self.curve.add(row):
            self.best = self.weights()
        best = (self.curve.best_row or row).mean
        share = 100 * share_of(best, lessons.teachers_return)
        self.run.tracker.advance(note=f"return {row.mean:,.0f}, best {best:,.0f}, {share:.0f} % of the teacher's")

    def weights(self) -> dict[str, Tensor]:
        """Returns a copy of the student's weights."""
        return {name: value.detach().clone() for name, value in self.student.policy.state_dict().items()}

    def write(self) -> None:
        """Writes the policies, the curve and, last, the state."""
        last, rows, best = self.weights(), self.curve.rows, self.curve.best or 0
        self.save(LAST, rows[-1])
        self.student.policy.load_state_dict(self.best)
        self.save(BEST, rows[best])
        self.student.policy.load_state_dict(last)
        self.curve.write(self.run.folder)
        tensors: dict[str, Tensor] = {}
        state = {
            "policy": pack(last, tensors),
            "trained": pack(self.student.trained, tensors),
            "best": pack(self.best, tensors),
            "optimizer": pack(self.optimizer.state_dict(), tensors),
            **({} if self.rewiring is None else {"rewiring": pack(self.rewiring.state(), tensors)}),
            "demonstrations": pack(self.lessons.demonstrations.arrays(), tensors, copy=False),
            "rows": [row._asdict() for row in rows],
            "best_iteration": best,
            **self.lessons.state(),
            "seconds": self.run.seconds(),
        }
        write_tensors(self.run.path(STATE), FORMAT, VERSION, {"state": json.dumps(state)}, tensors)

    def save(self, name: str, row: Row) -> None:
        """Writes the student's policy, with the results of the iteration that its weights come from."""
        note = {"steps": row.steps, "return": row.mean, "teacher_return": self.lessons.teachers_return}
        save_policy(self.kept_student().model, self.run.path(name), {**self.note, "seed": self.run.seed, **note})

    def kept_student(self) -> Student:
        """Returns the student to keep: if it learns with few synapses, one whose wiring lacks the absent ones."""
        return self.student if self.rewiring is None else self.rewiring.sparse_student(self.make_model)

    def read(self, path: Path) -> None:
        """Continues from a state that was written."""
        metadata, tensors = read_tensors(path, FORMAT, VERSION, DESCRIBED, "ncp-control distil")
        with described_in(path, "a distillation that cannot go on"):
            state = read_object(metadata["state"])
            self.best = unpack(state["best"], tensors)
            self.student.policy.load_state_dict(self.best)  # weights that do not fit are refused now, not at the end
            self.student.policy.load_state_dict(unpack(state["policy"], tensors))
            trained = unpack(state["trained"], tensors)
            if [value.shape for value in trained] != [value.shape for value in self.student.trained]:
                raise ValueError("its trained weights are not those of the student")
            self.student.trained = trained
            self.optimizer.load_state_dict(unpack(state["optimizer"], tensors))
            check_optimizer(self.optimizer)
            if self.rewiring is not None:
                self.rewiring.load_state(unpack(state["rewiring"], tensors))
            arrays = {key: value.numpy() for key, value in unpack(state["demonstrations"], tensors).items()}
            self.lessons.recall(state, Demonstrations.of_arrays(arrays))
            for row in state["rows"]:
                self.curve.add(Row(**row))
            self.run.earlier = float(state["seconds"])
        # The statistics of what the student sees are those of the teacher's own episodes, as in the first iteration.
        demonstrations = self.lessons.demonstrations
        self.student.set_statistics(demonstrations.first(int(demonstrations.own.nonzero()[0][-1]) + 1))
        self.run.tracker.advance(self.lessons.done(len(self.curve.rows)))
