"""The environments of a distillation: the student's, and what its teacher sees of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from ncp_control.data.env_specs import check_policy
from ncp_control.distil.collecting import TeachingEnv
from ncp_control.distil.views import TeacherView
from ncp_control.rl.recipes.env_making import make_env
from ncp_control.rl.recipes.recipe import refuse_import


@dataclass(frozen=True)
class EnvRecipe:
    """How an environment is made, in JSON values.

    :param env: its id
    :param wrappers: wrappers from `ncp_envs` around it, the innermost first, as in a recipe's `env_wrapper`
    :param arguments: its arguments
    """

    env: str
    wrappers: Sequence[Any] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def make(self) -> gym.Env[Any, Any]:
        """Makes the environment."""
        return make_env(self.env, self.wrappers, self.arguments)

    def note(self) -> dict[str, Any]:
        """Returns what the note in a policy's file says of the environment."""
        return {"env": self.env, "env_wrapper": list(self.wrappers), "env_kwargs": dict(self.arguments)}


def recipe_of_teacher(teacher: Any, env: str | None = None, students: str | None = None) -> EnvRecipe | None:
    """Returns how the teacher's environment is made, as far as it is known.

    :param teacher: a policy of `load_policy` says it in its note; other teachers do not
    :param env: the id that the user named
    :param students: the id of the student's environment, whose module is imported anyway
    """
    if env is not None:
        return EnvRecipe(env)
    note = getattr(teacher, "note", None)
    if not isinstance(note, dict) or not isinstance(note.get("env"), str):
        return None
    name, wrappers, arguments = note["env"], note.get("env_wrapper") or [], note.get("env_kwargs") or {}
    if name != students:
        refuse_import(name, f"the teacher was trained in {name}", f"--teacher-env {name}")
    if not isinstance(wrappers, list) or not isinstance(arguments, dict):
        raise ValueError("the note on the teacher's environment in its file is not readable: name it, --teacher-env ID")
    return EnvRecipe(name, [without_noise(wrapper) for wrapper in wrappers], arguments)


def without_noise(described: Any) -> Any:
    """Returns a wrapper of the teacher's training without the noise that it puts on observations, or the readings that
    it loses: a teacher is asked with the truth.
    """
    for name, calm in (("ObservationNoise", {"std": 0.0}), ("ObservationDropout", {"probability": 0.0})):
        if isinstance(described, dict) and list(described) == [name]:
            return {name: {**(described[name] or {}), **calm}}
    return described


def make_teaching_env(student: EnvRecipe, teacher: Any, known: EnvRecipe | None) -> TeachingEnv:
    """Makes an environment of the student, and the teacher's view of it.

    A teacher whose environment is not known sees what its observation space fits: what the student sees, or everything
    that the simulator shows. A function, which has no observation space, sees all of it.

    :param student: how the student's environment is made
    :param teacher: the teacher
    :param known: how the teacher's environment is made; None if that is not known
    """
    env = student.make()
    try:
        if known is None and fits(teacher, env):
            return TeachingEnv(env)
        teaching = TeachingEnv(env, TeacherView(env, None if known is None else known.make()))
        shown = gym.Wrapper(env)
        shown.observation_space = teaching.view.observation_space if teaching.view else env.observation_space
        check_policy(teacher, shown)
    except ValueError as error:
        env.close()
        raise ValueError(f"this teacher does not fit the student's environment, {student.env}: {error}") from error
    return teaching


def fits(teacher: Any, env: gym.Env[Any, Any]) -> bool:
    """Whether a teacher has an observation space, and it is that of an environment."""
    if not isinstance(getattr(teacher, "observation_space", None), gym.Space):
        return False
    try:
        check_policy(teacher, env)
    except ValueError:
        return False
    return True
