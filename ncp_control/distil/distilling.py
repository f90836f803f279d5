"""`distil`: teaches a circuit what another policy knows, in a folder from which the work can be resumed."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from ncp_control.cells import named_cell
from ncp_control.data.episodes import copy_of, stack
from ncp_control.distil.acting import Actor
from ncp_control.distil.collecting import Collector, Place
from ncp_control.distil.environments import EnvRecipe, make_place, recipe_of_teacher
from ncp_control.distil.loop import BEST, STATE, DistilLoop, Row, share_of
from ncp_control.distil.settings import DistilSettings
from ncp_control.distil.student import Student
from ncp_control.distil.teachers import about_teacher
from ncp_control.rl.evaluation import evaluate
from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_control.rl.files.policy_file import load_policy, with_note
from ncp_control.rl.on_policy import RecurrentPPO
from ncp_control.rl.policies.circuit import ALWAYS_DENSE
from ncp_control.rl.recipes.building import make_envs
from ncp_control.rl.recipes.recipe import Recipe
from ncp_control.storage.run_folder import prepare_run, seed_of, versions
from ncp_control.storage.temporary import temporary_folder
from ncp_control.support.devices import one_thread
from ncp_control.support.progress import tracked
from ncp_control.support.streams import say
from ncp_control.wiring import NCP
from ncp_control.wiring.plan_text import parse_plan

PACKAGES = ("ncp-control", "torch", "stable-baselines3", "sb3-contrib", "gymnasium", "mujoco", "numpy")
DEFAULT_CELL = "ltc"
# 48 neurons with every synapse that an NCP can have. With the half of them that AutoNCP(48, 16) has, a liquid circuit
# does not hold a fast gait.
DEFAULT_WIRING = NCP(
    20, 12, 16, sensory_fanout=20, inter_fanout=12, recurrent_command=144, motor_fanin=12, recurrent_inter=400
)
EPISODES = 20  # of the last evaluation, which chooses nothing
LAST_SEED = 2**31  # apart from the seeds of all iterations


@dataclass
class Distilled:
    """The outcome of a distillation.

    :param agent: the best student
    :param rows: what each iteration gave
    :param returns: the student's returns over new episodes
    :param teacher_returns: the teacher's returns over as many episodes of the same environment
    :param steps: the steps of the student's environment
    :param seconds: the duration, with all resumptions
    :param parameters: the number of parameters of the circuit and of the layer behind it
    """

    agent: LoadedPolicy
    rows: list[Row]
    returns: list[float]
    teacher_returns: list[float]
    steps: int
    seconds: float
    parameters: int

    @property
    def share(self) -> float:
        """The share of the teacher's mean return that the student has."""
        return share_of(float(np.mean(self.returns)), float(np.mean(self.teacher_returns)))


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
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    command: str = "",
    progress: bool = True,
) -> Distilled:
    """Teaches a circuit to act as a teacher does.

    Example::

        teacher = load_policy("checkpoints/halfcheetah-teacher.safetensors")
        found = distil(teacher, "ncp/HalfCheetahNoVel-v0", cell="ltc", out="runs/distilled")
        found.agent.predict(observation, state)

    The student acts in its own environment, and the teacher says in every step what it would have done (DAgger). Both
    stand on one simulator: the teacher sees what its own environment shows of it, the student what its environment
    shows. The folder `out` gets `best.safetensors` and `last.safetensors`, policies for `load_policy`; `curve.csv`, a
    row for each iteration; `run.json`, the record; and `state.safetensors`, from which the run can be resumed.

    :param teacher: a policy of `load_policy`, a model of Stable-Baselines3, or a function from observations (B, n) to
        actions (B, m)
    :param env: the id of the student's environment
    :param wiring: the circuit: a plan, also as text, or a number of fully connected neurons; by default an `NCP` of 48
        neurons with all of its synapses, or 48 neurons for a cell that is always fully connected
    :param cell: the name of its cell
    :param cell_kwargs: the cell's settings
    :param env_wrapper: wrappers around the student's environment, as in a recipe
    :param env_kwargs: the arguments of the student's environment
    :param teacher_env: the id of the teacher's environment; by default that in its note, or the student's simulator
    :param settings: how the student learns (see `DistilSettings`)
    :param seed: everything random follows from it
    :param out: a folder for this run alone; None keeps nothing but the agent
    :param resume: continue the run in `out`, or begin it if the folder holds none
    :param command: the command line to keep in the record
    :param progress: show a progress bar on stderr
    """
    settings = (settings or DistilSettings()).of_cell(cell)
    wiring = wiring_of(cell) if wiring is None else wiring
    recipe = EnvRecipe(env, env_wrapper, env_kwargs or {})
    known = recipe_of_teacher(teacher, teacher_env)
    random.seed(seed)
    student = Student(make_student(recipe, wiring, cell, cell_kwargs, seed))
    try_out(make_place(recipe, teacher, known), teacher)
    about = {
        **recipe.note(), "wiring": str(wiring), "cell": cell, "cell_kwargs": dict(cell_kwargs or {}), "seed": seed,
        "teacher": about_teacher(teacher), "teacher_env": None if known is None else known.note(),
        "settings": asdict(settings), "threads": torch.get_num_threads(),
    }  # fmt: skip
    note = {**recipe.note(), "algo": "RecurrentPPO", "teacher": about["teacher"], "command": command}
    with ExitStack() as held:
        if out is None:
            folder = held.enter_context(temporary_folder(Path(tempfile.gettempdir()) / "ncp-control"))
        else:
            folder = Path(out)
            record = {"command": command, "versions": versions(PACKAGES)}
            held.enter_context(prepare_run(folder, about, resume, results=(STATE,), **record))
        tracker = held.enter_context(tracked("distilling", settings.steps, shown=progress))
        loop = DistilLoop(
            student, teacher, lambda: make_place(recipe, teacher, known), recipe.make, settings, seed, folder, note,
            tracker,
        )  # fmt: skip
        try:
            loop.run()
        except KeyboardInterrupt:
            advice = f"--resume continues from {folder / STATE}" if loop.progress.rows and out else "nothing is kept"
            say(f"\ninterrupted after {len(loop.progress.rows)} iterations: {advice}")
            raise
        loop.finish()
        last = seed_of(seed, LAST_SEED)
        returns = evaluate(student.model, recipe.make, EPISODES, last).returns
        teachers = returns_of_teacher(loop, last)
        seconds = loop.seconds()
        with_note(folder / BEST, folder / BEST, final_note(loop, returns, teachers, seconds))
        agent = load_policy(folder / BEST)
    parameters = sum(parameter.numel() for parameter in student.parameters)
    return Distilled(agent, loop.progress.rows, returns, teachers, settings.steps, seconds, parameters)


def try_out(place: Place, teacher: Any) -> None:
    """Lets the teacher act once, so that one that does not fit is refused before anything is written."""
    try:
        observation = copy_of(place.env.reset(seed=0)[0])
        actor = Actor(teacher, place.env.action_space, "the teacher")
        actor.act(stack([place.seen_by_teacher(observation)]), np.ones(1, dtype=bool))
    finally:
        place.env.close()


def wiring_of(cell: str) -> NCP | int:
    """Returns the wiring of a student for which only a cell was named."""
    return DEFAULT_WIRING.units if issubclass(named_cell(cell), ALWAYS_DENSE) else DEFAULT_WIRING


def make_student(recipe: EnvRecipe, wiring: Any, cell: str, cell_kwargs: Mapping[str, Any] | None, seed: int) -> Any:
    """Makes an untrained model of recurrent PPO, whose critic, which nothing trains here, is as small as can be."""
    arguments: dict[str, Any] = {
        "wiring": parse_plan(wiring) if isinstance(wiring, str) else wiring,
        "cell": cell,
        "cell_kwargs": dict(cell_kwargs or {}),
        "critic": "shared",
    }
    found = Recipe(
        env=recipe.env,
        algo="RecurrentPPO",
        n_timesteps=1,
        env_wrapper=list(recipe.wrappers),
        env_kwargs=dict(recipe.arguments),
        normalize=True,
    )
    envs = make_envs(found, 1, training=False)
    space = envs.action_space
    if not isinstance(space, gym.spaces.Box | gym.spaces.Discrete):
        envs.close()
        raise ValueError(
            f"a student chooses actions from a Box or a Discrete space, and those of {recipe.env} are {space}"
        )
    return RecurrentPPO("NCPPolicy", envs, policy_kwargs=arguments, seed=seed, device="cpu")


def returns_of_teacher(loop: DistilLoop, seed: int) -> list[float]:
    """Returns the teacher's returns over new episodes of the student's environment."""
    places = [loop.make_place() for _ in range(loop.settings.envs)]
    collector = Collector(places, loop.teacher, loop.pupil, loop.settings.patience)
    try:
        with one_thread():
            return collector.collect(seed, 1.0, episodes=EPISODES).returns
    finally:
        for place in places:
            place.env.close()


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
        "teacher_std": float(np.std(teachers, ddof=1)),
        "teacher_min": min(teachers),
        "share": share_of(float(np.mean(returns)), float(np.mean(teachers))),
        "curve": [[row.steps, row.mean] for row in rows],
    }
