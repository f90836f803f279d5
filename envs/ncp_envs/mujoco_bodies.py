"""Steps Gymnasium's MuJoCo environments side by side, without the cost of one Python environment for each.

The simulator moves each body, and one pass over arrays computes what all of them observe and earn. All numbers are
equal, bit for bit, to those of `step` of each environment.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from ncp_envs.mujoco_layers import LAYERS, Actions, StepLayer
from ncp_envs.mujoco_messages import without_log_file
from ncp_envs.mujoco_tasks import TASKS, BodyTask, StepOutcome
from ncp_envs.physics import Physics
from ncp_envs.streams import wrappers_of

# Methods of an environment that say nothing about what a step gives.
_OTHER = {
    "reset",
    "reset_model",
    "set_state",
    "_get_reset_info",
    "render",
    "close",
    "_initialize_simulation",
    "_set_action_space",
}
_CHECKED_STEPS = 20
_HINTS = {
    "PassiveEnvChecker": ", which looks at single steps: make it with disable_env_checker=True",
    "RandomActionOverwrite": ": put VectorRandomActionOverwrite around the vector environment",
    "ActionDelay": ": put VectorActionDelay around the vector environment",
}


class MujocoStepper:
    """Steps the bodies of several environments, which reset themselves.

    :param envs: environments for which `obstacle` returns None
    :param layers: the wrappers that they may have, each with what does their work for all environments
    :param threads: the most threads that move the bodies; the numbers do not depend on it
    """

    def __init__(
        self, envs: Sequence[gym.Env[Any, Any]], layers: Mapping[type, type[Any]] = LAYERS, threads: int = 1
    ) -> None:
        without_log_file()
        self._threads = threads
        self._bodies: list[Any] = [env.unwrapped for env in envs]
        chains = [wrappers_of(env) for env in envs]
        self._layers: list[StepLayer] = [layers[type(column[0])](column) for column in zip(*chains, strict=True)]
        self._task = task_of(self._bodies[0])(self._bodies[0])
        self.refresh()

    def refresh(self) -> None:
        """Reads the bodies' models and their settings again, which may have changed between two episodes."""
        reason = difference(self._bodies)
        if reason is not None:
            raise ValueError(reason)
        self._physics: Physics | None = Physics(self._bodies, self._threads)

    def __getstate__(self) -> dict[str, Any]:
        """Returns what a copy or a pickle keeps: not where the bodies are, as a copy has bodies of its own."""
        return {**self.__dict__, "_physics": None}

    def step(self, places: Sequence[int], actions: Actions) -> StepOutcome:
        """Steps some of the environments.

        :param places: their places in the list of environments, at least one
        :param actions: the action of each of them, (B, m)
        """
        if self._physics is None:
            self.refresh()
        for layer in self._layers:
            actions = layer.before(places, actions)
        outcome = self._move(places, actions)
        for layer in reversed(self._layers):
            outcome = layer.after(places, outcome)
        return outcome

    def _move(self, places: Sequence[int], actions: Actions) -> StepOutcome:
        """Moves the bodies and computes the outcome of their tasks."""
        if isinstance(actions, list):
            kinds = [action.dtype for action in actions]
            if len(set(kinds)) > 1:  # costs are computed in the dtype of an action
                chosen = [[row for row, kind in enumerate(kinds) if kind == one] for one in sorted(set(kinds))]
                parts = [self._move([places[k] for k in rows], [actions[k] for k in rows]) for rows in chosen]
                return joined(parts, np.argsort(np.concatenate(chosen)))
        actions = np.ascontiguousarray(actions)
        physics: Any = self._physics
        marks = self._task.marks(physics.data, places)
        return self._task.outcome(physics.step(places, actions), marks, actions)


def joined(parts: Sequence[StepOutcome], order: NDArray[Any]) -> StepOutcome:
    """Joins the outcomes of several groups of environments.

    :param order: where the rows of the result are in the parts, one after another
    """
    columns = zip(*(part[:-1] for part in parts), strict=True)
    observations, rewards, terminations, truncations = (np.concatenate(found)[order] for found in columns)
    info = {key: np.concatenate([part.info[key] for part in parts])[order] for key in parts[0].info}
    return StepOutcome(observations, rewards, terminations, truncations, info)


def obstacle(
    envs: gym.Env[Any, Any] | Sequence[gym.Env[Any, Any]], layers: Mapping[type, type[Any]] = LAYERS
) -> str | None:
    """Returns why an environment, or several of them together, cannot be stepped by `MujocoStepper`; None if they can.

    :param envs: one environment or several
    :param layers: the wrappers that they may have
    """
    several = [envs] if isinstance(envs, gym.Env) else list(envs)
    for env in several:
        reason = _own_obstacle(env, layers)
        if reason is not None:
            return reason
    bodies: list[Any] = [env.unwrapped for env in several]
    if len({id(body) for body in bodies}) < len(bodies):
        return "two of the environments are one and the same"
    chains = [wrappers_of(env) for env in several]
    if any([type(one) for one in chain] != [type(one) for one in chains[0]] for chain in chains):
        return "the environments have different wrappers"
    try:
        for column in zip(*chains, strict=True):
            layers[type(column[0])](column)
    except ValueError as error:
        return str(error)
    return difference(bodies) or _changed(bodies[0])


def _own_obstacle(env: gym.Env[Any, Any], layers: Mapping[type, type[Any]]) -> str | None:
    body: Any = env.unwrapped
    for wrapper in wrappers_of(env):
        if type(wrapper) not in layers:
            other = type(wrapper).__name__
            return f"it has the wrapper {other}{_HINTS.get(other, '')}"
    kind = kind_of(class_of(body))
    if kind is None:
        names = ", ".join(name.rpartition(".")[2] for name in TASKS)
        kind = type(body)
        # An older version has a class of the same name.
        return f"{kind.__name__} of {kind.__module__} is none of {names} of version 5"
    name = overridden(class_of(body), kind) or next((name for name in names_of_steps(kind) if name in vars(body)), None)
    if name is not None:
        return f"{type(body).__name__} has a {name} of its own"
    return "it is rendered while it runs" if body.render_mode == "human" else None


def class_of(body: Any) -> Any:
    """Returns the class of an environment."""
    return type(body)


@cache
def kind_of(kind: Any) -> Any:
    """Returns the class of Gymnasium, with a task of its own here, that a class is or inherits from; None if there is
    none.
    """
    return next((base for base in kind.__mro__ if f"{base.__module__}.{base.__qualname__}" in TASKS), None)


def task_of(body: Any) -> type[BodyTask]:
    """Returns the task of an environment without wrappers."""
    kind = kind_of(class_of(body))
    return TASKS[f"{kind.__module__}.{kind.__qualname__}"]


@cache
def names_of_steps(kind: Any) -> tuple[str, ...]:
    """Returns the names of all methods and properties that a class of Gymnasium may use in a step."""
    bases = [base for base in kind.__mro__ if base.__module__.startswith("gymnasium.envs.mujoco.")]
    found = {name: value for base in bases for name, value in vars(base).items()}
    return tuple(
        name
        for name, value in found.items()
        if (callable(value) or isinstance(value, property)) and name not in _OTHER and not name.startswith("__")
    )


@cache
def overridden(kind: Any, base: Any) -> str | None:
    """Returns the first method or property of a step that a class overrides; None if there is none."""
    pairs = ((name, inspect.getattr_static(kind, name)) for name in names_of_steps(base))
    return next((name for name, value in pairs if value is not inspect.getattr_static(base, name)), None)


def settings_of(body: Any) -> dict[str, bytes]:
    """Returns everything that the task of a body reads from it, each as bytes that can be compared."""
    model, kind = body.model, kind_of(class_of(body)).__qualname__
    values = {"kind": kind, "size": (model.nq, model.nv, model.nu)}
    values |= {name: getattr(body, name) for name in (*task_of(body).settings, "dt", "frame_skip")}
    return {name: pickle.dumps(value) for name, value in values.items()}


def difference(bodies: Sequence[Any]) -> str | None:
    """Returns what keeps environments from being computed together, because it differs; None if nothing does."""
    first = settings_of(bodies[0])
    for place, body in enumerate(bodies):
        for name, value in settings_of(body).items():
            if first.get(name) != value:
                return f"environment {place} has another {name.removeprefix('_')} than the first one"
    return None


_found: dict[Any, str | None] = {}


def _changed(body: Any) -> str | None:
    """Says whether the installed Gymnasium computes the steps of a body in another way than `mujoco_tasks` does.

    Two twins of the environment take some steps from a still start with random actions, one by its own method. The
    result is kept for all environments of this class with these settings.
    """
    key = type(body), *settings_of(body).items()
    if key not in _found:
        _found[key] = (
            None if _agree(body) else f"this version of Gymnasium steps a {type(body).__name__} in another way"
        )
    return _found[key]


def _agree(body: Any) -> bool:
    import mujoco

    twins = []
    for _ in range(2):
        twin: Any = object.__new__(type(body))
        twin.__dict__.update(vars(body), data=mujoco.MjData(body.model))
        twin.set_state(body.init_qpos, body.init_qvel)
        twins.append(twin)
    theirs, ours = twins
    task, physics, random = task_of(body)(ours), Physics([ours]), np.random.default_rng(0)
    low, high = body.action_space.low, body.action_space.high
    for _ in range(_CHECKED_STEPS):
        marks, action = task.marks(physics.data, [0]), random.uniform(low, high).astype(np.float32)
        expected = theirs.step(action)
        ((observation, *rest),) = task.outcome(physics.step([0], action[None]), marks, action[None]).rows()
        if not np.array_equal(observation, expected[0], equal_nan=True) or rest != list(expected[1:]):
            return False
    return True
