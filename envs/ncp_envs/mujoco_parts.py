"""Entry points of the tasks of `ncp_envs.partial` whose bases are MuJoCo bodies: of one environment and of a vector.

`HalfCheetahNoVel` makes what `ncp/HalfCheetahNoVel-v0` is without its time limit, and `HalfCheetahNoVelVector` makes a
`MujocoVectorEnv` of whole environments. The entries of the observation are chosen inside the entry point, because
`gymnasium.make_vec` has no vector entry points for environments with wrappers of their own.
"""

from __future__ import annotations

from typing import Any, cast

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator
from gymnasium.vector import AutoresetMode

from ncp_envs.mujoco_messages import without_log_file
from ncp_envs.mujoco_vector import MujocoVectorEnv
from ncp_envs.observations import KeepObservations
from ncp_envs.partial import TASKS, Part

_VECTOR = "Vector"


class PartEntry:
    """Makes one environment of a task.

    :param task: the task
    """

    def __init__(self, task: Part) -> None:
        self._task = task
        self._body = cast("Any", load_env_creator(str(task.entry_point or gym.spec(task.base).entry_point)))
        self.metadata = self._body.metadata  # says to `gymnasium.make` how the body can be rendered

    def __call__(self, **options: Any) -> gym.Env[Any, Any]:
        """Makes an environment with options of its base."""
        without_log_file()
        kept = self._task.kept
        # A list, as it is in a spec that was written as JSON and read again.
        return KeepObservations(self._body(**options), kept if isinstance(kept, str) else list(kept), self._task.size)


class VectorPartEntry:
    """Makes a vector environment of a task.

    :param task: the task
    """

    def __init__(self, task: Part) -> None:
        self._task = task

    def __call__(
        self,
        num_envs: int = 1,
        copy: bool = True,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        disable_env_checker: bool | None = None,
        **options: Any,
    ) -> MujocoVectorEnv:
        """Makes a vector environment.

        :param num_envs: the number of environments
        :param copy: as in `SyncVectorEnv`
        :param autoreset_mode: as in `SyncVectorEnv`
        :param disable_env_checker: has no effect, because the checker looks at single steps
        :param options: options of `gymnasium.make`, such as `max_episode_steps`, and of the base environment
        """

        def one() -> gym.Env[Any, Any]:
            return gym.make(self._task.name, disable_env_checker=True, **options)

        return MujocoVectorEnv([one] * num_envs, copy=copy, autoreset_mode=autoreset_mode)


def __getattr__(name: str) -> Any:
    tasks = {task.name.removeprefix("ncp/").removesuffix("-v0"): task for task in TASKS}
    if name in tasks:
        return PartEntry(tasks[name])
    if name.removesuffix(_VECTOR) in tasks:
        return VectorPartEntry(tasks[name.removesuffix(_VECTOR)])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
