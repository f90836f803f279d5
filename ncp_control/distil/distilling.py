"""`distil`: teaches a circuit what another policy knows, in a folder from which the work can be resumed."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ncp_control.base.files import temporary_folder
from ncp_control.base.progress import say, tracked
from ncp_control.base.run_folder import prepare_run, seed_of, versions
from ncp_control.distil import cloning
from ncp_control.distil.environments import EnvRecipe, make_place, recipe_of_teacher
from ncp_control.distil.finetuning import FOLDER, finetune
from ncp_control.distil.loop import STATE, Begun, DistilLoop
from ncp_control.distil.making import DEFAULT_CELL, make_student, try_out, wiring_of
from ncp_control.distil.outcome import EPISODES, LAST_SEED, Distilled, last_evaluation
from ncp_control.distil.prune_settings import PruneSettings
from ncp_control.distil.pruning import prune
from ncp_control.distil.recorded import METHOD, Recorded
from ncp_control.distil.rewiring import check_count, check_growable
from ncp_control.distil.settings import DistilSettings
from ncp_control.distil.smaller import check_prunable
from ncp_control.distil.student import Student
from ncp_control.distil.teachers import about_teacher
from ncp_control.neurons.catalogue import row_named

PACKAGES = ("ncp-control", "torch", "stable-baselines3", "sb3-contrib", "gymnasium", "mujoco", "numpy")


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
    begin: Callable[..., Begun] = begin_asking
    describe: Callable[[Any], dict[str, Any]] = about_teacher
    method = {}
    if isinstance(teacher, Recorded):
        teacher, settings = cloning.settings_for(teacher, settings)
        known = teacher.recipe(teacher_env)
        env_kwargs = known.arguments if env_kwargs is None else env_kwargs
        begin, describe, method = cloning.begin, Recorded.about, {"method": METHOD}
    else:
        known = recipe_of_teacher(teacher, teacher_env)
    recipe = EnvRecipe(env, env_wrapper, env_kwargs or {})
    random.seed(seed)
    student = Student(make_student(recipe, wiring, cell, cell_kwargs, seed))
    if pruning is not None:
        check_prunable(student.circuit.cell)
        if settings.synapses is not None:
            raise ValueError("a student that learns with few synapses is not pruned too: leave out synapses or pruning")
    if settings.synapses is not None:
        check_growable(student.circuit.cell)
        check_count(settings.synapses, student.circuit.cell.wiring)
    make_loop, bar = begin(teacher, recipe, known, settings, seed)
    about = {
        **recipe.note(), "wiring": str(wiring), "cell": cell, "cell_kwargs": cell_kwargs, "seed": seed,
        "teacher": describe(teacher), "teacher_env": None if known is None else known.note(),
        "settings": settings.recorded(), "threads": torch.get_num_threads(), **method,
    }  # fmt: skip
    note = {**recipe.note(), "algo": "RecurrentPPO", "teacher": about["teacher"], "command": command, **method}
    with ExitStack() as held:
        if out is None:
            folder = held.enter_context(temporary_folder(Path(tempfile.gettempdir()) / "ncp-control"))
        else:
            folder = Path(out)
            record = {"command": command, "versions": versions(PACKAGES)}
            held.enter_context(prepare_run(folder, about, resume, results=(STATE,), **record))
        make_smaller = partial(make_student, recipe, cell=cell, cell_kwargs=cell_kwargs, seed=seed)
        try:
            with bar(shown=progress) as tracker:
                loop = make_loop(student, recipe.make, settings, seed, folder, note, tracker, make_smaller)
                loop.run()
            loop.finish()
            found = last_evaluation(loop, seed_of(seed, LAST_SEED))
        except KeyboardInterrupt:
            is_kept = out is not None and (folder / STATE).exists()
            say(f"\ninterrupted: {f'--resume continues from {folder / STATE}' if is_kept else 'nothing is kept'}")
            raise
        if pruning is not None:
            found.pruned = prune(loop, make_smaller, pruning, found.agent.note, out is not None, progress)
        if finetune_steps:
            found.finetuned = finetune(
                found.agent, finetune_steps, folder / FOLDER, seed, settings, EPISODES, seed_of(seed, LAST_SEED),
                resume, command, progress,
            )  # fmt: skip
    return found


def begin_asking(
    teacher: Any, student: EnvRecipe, known: EnvRecipe | None, settings: DistilSettings, seed: int
) -> Begun:
    """Tries out a teacher that says what it would do; returns what makes the loop, and what shows its progress.

    :param student: how the student's environment is made
    :param known: how the teacher's environment is made; None if that is not known
    """
    place = partial(make_place, student, teacher, known)
    try_out(place(), teacher)
    return partial(DistilLoop, teacher, place), partial(tracked, "distilling", settings.steps)
