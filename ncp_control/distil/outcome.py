"""The outcome of a distillation, and its last evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ncp_control.distil.finetuning import Finetuned
from ncp_control.distil.loop import BEST, DistilLoop, Row, share_of
from ncp_control.distil.pruning import Pruned
from ncp_control.rl.evaluation import evaluate
from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_control.rl.files.policy_file import load_policy, with_note

EPISODES = 20  # of the last evaluation, which chooses nothing
LAST_SEED = 2**31  # apart from the seeds of all iterations


@dataclass
class Distilled:
    """The outcome of a distillation.

    :param agent: the best student
    :param rows: what each iteration gave
    :param returns: the student's returns over new episodes
    :param teacher_returns: the teacher's returns over as many episodes of the same environment; of behaviour cloning,
        those of the recorded episodes
    :param steps: the steps of the student's environment; of behaviour cloning, the recorded steps
    :param seconds: the duration, with all resumptions
    :param parameters: the number of parameters of the circuit and of the layer behind it
    :param finetuned: what further training by rewards gave; None without it
    :param pruned: the smaller students; None without pruning
    """

    agent: LoadedPolicy
    rows: list[Row]
    returns: list[float]
    teacher_returns: list[float]
    steps: int
    seconds: float
    parameters: int
    finetuned: Finetuned | None = None
    pruned: Pruned | None = None

    @property
    def share(self) -> float:
        """The share of the teacher's mean return that the student has."""
        return self.share_of(self.returns)

    def share_of(self, returns: list[float]) -> float:
        """Returns the share of the teacher's mean return that other returns have on average."""
        return share_of(float(np.mean(returns)), float(np.mean(self.teacher_returns)))


def last_evaluation(loop: DistilLoop, seed: int) -> Distilled:
    """Evaluates the best student over new episodes, beside its teacher, and notes the returns in its file.

    :param loop: the distillation that is done
    :param seed: of the new episodes
    """
    returns = evaluate(loop.student.model, loop.make_env, EPISODES, seed).returns
    teachers = loop.returns_of_teacher(seed, EPISODES)
    seconds, path = loop.seconds(), loop.out / BEST
    with_note(path, path, final_note(loop, returns, teachers, seconds))
    parameters = sum(parameter.numel() for parameter in loop.kept_student().parameters)
    rows, steps = loop.progress.rows, loop.settings.steps
    return Distilled(load_policy(path), rows, returns, teachers, steps, seconds, parameters)


def final_note(loop: DistilLoop, returns: list[float], teachers: list[float], seconds: float) -> dict[str, Any]:
    """Returns the note of the best student's file after the last evaluation."""
    rows = loop.progress.rows
    return {
        **loop.note,
        "seed": loop.seed,
        "steps": rows[loop.progress.best].steps,
        "seconds": seconds,
        "episodes": EPISODES,
        "return": float(np.mean(returns)),
        "return_std": float(np.std(returns, ddof=1)),
        "return_min": min(returns),
        "teacher_return": float(np.mean(teachers)),
        "teacher_std": float(np.std(teachers, ddof=1)) if len(teachers) > 1 else 0.0,
        "teacher_min": min(teachers),
        "share": share_of(float(np.mean(returns)), float(np.mean(teachers))),
        "curve": [[loop.done(k + 1), row.mean] for k, row in enumerate(rows)],
    }
