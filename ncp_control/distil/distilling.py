"""`distil`: teaches a circuit what another policy knows, in a folder from which the work can be resumed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ncp_control.distil.environments import EnvRecipe, make_teaching_env, recipe_of_teacher
from ncp_control.distil.finetuning import Finetuned, finetune
from ncp_control.distil.lessons import LAST_SEED, Asking, Cloning, Lessons, settings_for_cloning, share_of, try_out
from ncp_control.distil.loop import DistilLoop, Row
from ncp_control.distil.pruning import Pruned, prune
from ncp_control.distil.recorded import METHOD, Recorded
from ncp_control.distil.rewiring import check_count, check_growable
from ncp_control.distil.settings import DistilSettings, PruneSettings
from ncp_control.distil.smaller import check_prunable
from ncp_control.distil.student import DEFAULT_CELL, Student, make_student, wiring_of
from ncp_control.distil.teachers import about_teacher
from ncp_control.neurons.catalogue import row_named
from ncp_control.rl.evaluation import evaluate
from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_control.rl.files.policy_file import load_policy, with_note
from ncp_control.runs.run import BEST, STATE, Run

PACKAGES = ("ncp-control", "torch", "stable-baselines3", "sb3-contrib", "gymnasium", "mujoco", "numpy")
EPISODES = 20  # of the last evaluation, which chooses nothing


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
        """Returns the mean of some returns as a share of the teacher's mean return."""
        return share_of(float(np.mean(returns)), float(np.mean(self.teacher_returns)))


def distil(
    teacher: Any,
    env: str,
    wiring: Any = None,
    cell: str = DEFAULT_CELL,
    *,
    cell_kwargs: Mapping[str, Any] | None = None,
    env_wrapper: Sequence[Any] = (),
    env_kwargs: Mapping[str, Any] | None = None,
    teacher_env: str | None = None,
    settings: DistilSettings | None = None,
    finetune_steps: int = 0,
    pruning: PruneSettings | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    command: str = "",
    progress: bool = True,
) -> Distilled:
    """Teaches a circuit to act as a teacher does.

    Example::

        teacher = load_policy("checkpoints/halfcheetah-teacher.safetensors")
        found = distil(teacher, "ncp/HalfCheetahNoVel-v0", out="runs/distilled")
        found.agent.predict(observation, state)

    The student acts in its own environment, and the teacher says in every step what it would have done (DAgger). Both
    stand on one simulator: the teacher sees what its own environment shows of it, the student what its environment
    shows. The folder `out` gets `best.safetensors` and `last.safetensors`, policies for `load_policy`; `curve.csv`, a
    row for each iteration; `run.json`, the record; and `state.safetensors`, from which the run can be resumed.

    From recorded episodes the student learns by behaviour cloning: nobody acts, and what the student would have seen of
    each recorded step is labelled with the recorded action. Steps whose action was random are seen and not imitated.

    :param teacher: a policy of `load_policy`, a model of Stable-Baselines3, a function from observations (B, n) to
        actions (B, m), or `Recorded` episodes
    :param env: the id of the student's environment
    :param wiring: the circuit: a plan, also as text, or a number of fully connected neurons; by default an `NCP` of 48
        neurons with all of its synapses, or 48 neurons for a cell that is always fully connected
    :param cell: the name of its cell
    :param cell_kwargs: the cell's settings; by default 3 solver steps for an LTC
    :param env_wrapper: wrappers around the student's environment, as in a recipe
    :param env_kwargs: the arguments of the student's environment; those of the recorded environment by default, if the
        teacher is `Recorded`
    :param teacher_env: the id of the teacher's environment; by default that in its note, or the student's simulator
    :param settings: how the student learns (see `DistilSettings`)
    :param finetune_steps: steps of recurrent PPO after that, in the folder `finetuned` of `out`, in which the student,
        unpruned, learns from the rewards of its environment; in the first of them only its critic learns
    :param pruning: how the student is then made smaller, in the folder `pruned` of `out` (see `PruneSettings`); None
        leaves it as it is
    :param seed: everything random follows from it
    :param out: a folder for this run alone; None keeps nothing but the agent
    :param resume: continue the run in `out`, or begin it if the folder holds none
    :param command: the command line to keep in the record
    :param progress: show a progress bar on stderr
    """
    settings = (settings or DistilSettings()).of_cell(cell)
    if finetune_steps < 0:
        raise ValueError(f"the steps of fine-tuning are at least 0, not {finetune_steps}")
    wiring = wiring_of(cell) if wiring is None else wiring
    cell_kwargs = {**row_named(cell).student, **(cell_kwargs or {})}
    run = Run(out, seed=seed, resume=resume, command=command, progress=progress)
    describe: Callable[[Any], dict[str, Any]] = about_teacher
    method = {}
    known: EnvRecipe | None
    if isinstance(teacher, Recorded):
        teacher, settings = settings_for_cloning(teacher, settings)
        known = teacher.recipe(teacher_env)
        env_kwargs = known.arguments if env_kwargs is None else env_kwargs
        describe, method = Recorded.about, {"method": METHOD}
    else:
        known = recipe_of_teacher(teacher, teacher_env, env)
    recipe = EnvRecipe(env, env_wrapper, env_kwargs or {})
    random.seed(seed)
    student = Student(make_student(recipe, wiring, cell, cell_kwargs, seed))
    check_smaller(student, settings, pruning)
    lessons: Lessons
    if isinstance(teacher, Recorded):
        assert known is not None  # recorded episodes always say it
        lessons = Cloning(teacher, recipe, known, settings, seed)
    else:
        make_env = partial(make_teaching_env, recipe, teacher, known)
        try_out(make_env(), teacher)
        lessons = Asking(teacher, make_env, student, settings, run)
    about = {
        **recipe.note(), "wiring": str(wiring), "cell": cell, "cell_kwargs": cell_kwargs, "seed": seed,
        "teacher": describe(teacher), "teacher_env": None if known is None else known.note(),
        "settings": settings.recorded(), "threads": torch.get_num_threads(), **method,
    }  # fmt: skip
    note = {**recipe.note(), "algo": "RecurrentPPO", "teacher": about["teacher"], "command": command, **method}
    make_smaller = partial(make_student, recipe, cell=cell, cell_kwargs=cell_kwargs, seed=seed)
    with run.open(about, PACKAGES, results=(STATE,), scratch=True):
        with run.doing(lessons.doing, lessons.done(settings.iterations + 1), unit=lessons.unit):
            loop = DistilLoop(run, lessons, student, recipe.make, settings, note, make_smaller)
            loop.run_iterations()
        with run.interruptible():
            distilled = last_evaluation(loop)
        if pruning is not None:
            distilled.pruned = prune(loop, pruning, distilled.agent.note)
        if finetune_steps:
            distilled.finetuned = finetune(distilled.agent, finetune_steps, settings, run, EPISODES)
    return distilled


def check_smaller(student: Student, settings: DistilSettings, pruning: PruneSettings | None) -> None:
    """Refuses to make a student smaller if its cell cannot be, or if two ways were asked for."""
    cell = student.circuit.cell
    if pruning is not None:
        check_prunable(cell)
        if settings.synapses is not None:
            raise ValueError("a student that learns with few synapses is not pruned too: leave out synapses or pruning")
    if settings.synapses is not None:
        check_growable(cell)
        check_count(settings.synapses, cell.wiring)


def last_evaluation(loop: DistilLoop) -> Distilled:
    """Evaluates the best student over new episodes, beside its teacher, and notes the returns in its file."""
    seed = loop.run.seed_of(LAST_SEED)
    returns = evaluate(loop.student.model, loop.make_env, EPISODES, seed).returns
    teachers = loop.lessons.returns_of_teacher(seed, EPISODES)
    seconds, path = loop.run.seconds(), loop.run.path(BEST)
    with_note(path, path, final_note(loop, returns, teachers, seconds))
    parameters = sum(parameter.numel() for parameter in loop.kept_student().parameters)
    rows, steps = loop.curve.rows, loop.settings.steps
    return Distilled(load_policy(path), rows, returns, teachers, steps, seconds, parameters)


def final_note(loop: DistilLoop, returns: list[float], teachers: list[float], seconds: float) -> dict[str, Any]:
    """Returns the note of the best student's file after the last evaluation."""
    rows, best = loop.curve.rows, loop.curve.best or 0
    return {
        **loop.note,
        "seed": loop.run.seed,
        "steps": rows[best].steps,
        "seconds": seconds,
        "episodes": EPISODES,
        "return": float(np.mean(returns)),
        "return_std": float(np.std(returns, ddof=1)),
        "return_min": min(returns),
        "teacher_return": float(np.mean(teachers)),
        "teacher_std": float(np.std(teachers, ddof=1)) if len(teachers) > 1 else 0.0,
        "teacher_min": min(teachers),
        "share": share_of(float(np.mean(returns)), float(np.mean(teachers))),
        "curve": [[loop.lessons.done(k), row.mean] for k, row in enumerate(rows, 1)],
    }
