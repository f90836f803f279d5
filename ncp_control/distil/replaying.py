"""Replaying recorded episodes through a student's own wrappers, so that it sees what it would have seen live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from numpy.typing import NDArray

from ncp_control.data.collection import spawned_seed
from ncp_control.data.episodes import copy_of
from ncp_control.data.finite import CheckFinite
from ncp_control.data.rollout import Rollout
from ncp_control.distil.demonstrations import Demonstrations, demonstrations_of
from ncp_control.distil.environments import EnvRecipe
from ncp_control.distil.recorded import Recorded
from ncp_control.distil.views import Info, Replayed, Step, check_same_actions, check_same_simulator
from ncp_envs.streams import wrappers_of

Array = NDArray[Any]
SHOW_ALL = (TimeLimit, OrderEnforcing, PassiveEnvChecker, CheckFinite)  # wrappers that change no observation


@dataclass(frozen=True)
class Replay:
    """What a student saw of recorded episodes.

    :param demonstrations: every step of them; those whose action was random do not count
    :param returns: the return of each episode
    """

    demonstrations: Demonstrations
    returns: list[float]


class Recording(Replayed):
    """Stands where the recorded environment was, and returns the recorded steps.

    :param layer: the part of the student's environment in whose place it stands
    """

    wanted: Any = None

    def show(self, action: Any, found: Step) -> None:
        """Makes ready a step.

        :param action: the recorded action
        :param found: what the recorded environment's `step` returned
        """
        self.wanted, self.last, self.shown = action, found, 0

    def step(self, action: Any) -> Step:
        """Returns the step that is ready; refuses another action than the recorded one."""
        if not np.array_equal(action, self.wanted):
            raise ValueError("a wrapper of the student's environment changes actions: leave it out")
        if self.shown:
            raise ValueError("a wrapper of the student's environment repeats actions: leave it out")
        return super().step(action)


class Replayer:
    """Shows recorded episodes to the wrappers of a student's environment.

    :param recorded: the episodes
    :param student: how the student's environment is made
    :param known: how the environment is made that the episodes were recorded in
    """

    def __init__(self, recorded: Recorded, student: EnvRecipe, known: EnvRecipe) -> None:
        self.name = recorded.name
        own = gym.Wrapper(student.make())
        origin = known.make()
        self.simulator = own.unwrapped
        try:
            check_same_simulator(own.unwrapped, origin.unwrapped)
            check_same_actions(own.action_space, origin.action_space)
            check_chosen(origin)
            layer = layer_like(own, origin, student.env, known.env)
            check_wrappers_above(own, layer)
        except ValueError as error:
            self.close()
            raise ValueError(f"{self.name} does not fit the student's environment, {student.env}: {error}") from error
        finally:
            origin.close()
        self.shown, self.actions = layer.observation_space, own.action_space
        self.bottom = Recording(layer)
        self.stack = put_above(own, layer, self.bottom)
        try:
            check_kinds(recorded, known.env, self.shown, self.actions)
        except ValueError:
            self.close()
            raise

    def play(self, rollout: Rollout, seed: int) -> tuple[Demonstrations, float]:
        """Replays an episode to its end, or to where the student's environment ends it.

        :param rollout: the episode
        :param seed: for the random numbers of the student's wrappers
        :return: the student's steps, and their return
        """
        observations = np.asarray(rollout.observations, dtype=self.shown.dtype)
        actions = fitting(rollout, self.actions)
        is_random = np.zeros(rollout.steps, dtype=bool) if rollout.is_random is None else rollout.is_random
        rewards = np.zeros(rollout.steps) if rollout.rewards is None else rollout.rewards
        self.bottom.last = observations[0], info_of(rollout, 0)
        seen, gained = [copy_of(self.stack.reset(seed=seed)[0])], []
        for step, action in enumerate(actions):
            is_last = step == rollout.steps - 1
            info = {"executed_action": action, "is_random": bool(is_random[step]), **info_of(rollout, step + 1)}
            ends = is_last and rollout.terminated, is_last and not rollout.terminated
            self.bottom.show(action, (observations[step + 1], float(rewards[step]), *ends, info))
            found, reward, terminated, truncated, _ = self.stack.step(action)
            if self.bottom.shown != 1:
                raise ValueError("a wrapper of the student's environment leaves actions out: leave that wrapper out")
            seen.append(copy_of(found))
            gained.append(float(reward))
            if terminated or truncated:
                break
        steps = len(gained)
        demonstrations = demonstrations_of(seen[:steps], list(actions[:steps]), own=True)
        demonstrations.counts = ~is_random[:steps].astype(bool)
        return demonstrations, float(np.sum(gained))

    def close(self) -> None:
        """Closes the student's environment."""
        self.simulator.close()


def replay(recorded: Recorded, student: EnvRecipe, known: EnvRecipe, seed: int) -> Replay:
    """Replays all episodes through the wrappers of a student's environment.

    The wrappers draw their random numbers from the seed of each recorded episode, as they would have done live.

    :param recorded: the episodes
    :param student: how the student's environment is made
    :param known: how the environment is made that the episodes were recorded in
    :param seed: for episodes without a seed of their own
    """
    player = Replayer(recorded, student, known)
    try:
        shown = [
            player.play(one, spawned_seed(seed, k) if one.seed is None else one.seed)
            for k, one in enumerate(recorded.rollouts)
        ]
    finally:
        player.close()
    return Replay(Demonstrations.joined([steps for steps, _ in shown]), [gained for _, gained in shown])


def info_of(rollout: Rollout, row: int) -> Info:
    """Returns what was recorded of the info that belongs to an observation."""
    return {} if rollout.elapsed is None else {"elapsed": float(rollout.elapsed[row])}


def fitting(rollout: Rollout, space: gym.Space[Any]) -> Array:
    """Returns a rollout's actions as the student's environment takes them, within its bounds."""
    actions = np.asarray(rollout.actions)
    return np.clip(actions, space.low, space.high).astype(space.dtype) if isinstance(space, gym.spaces.Box) else actions


def check_kinds(recorded: Recorded, env: str, seen: gym.Space[Any], acted: gym.Space[Any]) -> None:
    """Refuses episodes whose observations or actions are not those of the environment that they were recorded in."""
    for rollout in recorded.rollouts:
        actions = np.asarray(rollout.actions)
        if not isinstance(seen, gym.spaces.Box) or seen.shape != rollout.observations.shape[1:]:
            raise ValueError(
                f"{recorded.name} has observations of shape {rollout.observations.shape[1:]}, and {env} shows {seen}: "
                "name the environment that it was recorded in, --teacher-env ID"
            )
        if isinstance(acted, gym.spaces.Discrete):
            chosen = actions.dtype.kind in "iu" and actions.ndim == 1
            fits = chosen and bool(((actions >= acted.start) & (actions < acted.start + acted.n)).all())
        else:
            fits = actions.dtype.kind in "iuf" and actions.shape[1:] == acted.shape
        if not fits:
            raise ValueError(
                f"{rollout.name} of {recorded.name} has actions of {in_words(actions)}, and those of {env} are "
                f"{acted}: name the environment that it was recorded in, --teacher-env ID"
            )


def in_words(actions: Array) -> str:
    """Returns the kind of some actions in words."""
    least, most = actions.min(), actions.max()
    return f"shape {actions.shape[1:]} and {actions.dtype}, from {least:g} to {most:g}"


def layers_of(env: gym.Env[Any, Any]) -> list[Any]:
    """Returns the wrappers of an environment that may change what it shows or does, the innermost first."""
    return [
        wrapper
        for wrapper in reversed(wrappers_of(env))
        if type(wrapper) is not gym.Wrapper and not isinstance(wrapper, SHOW_ALL)
    ]


def layer_like(student: gym.Env[Any, Any], origin: gym.Env[Any, Any], env: str, known: str) -> Any:
    """Returns the part of the student's environment that shows what the recorded environment showed.

    :param student: the student's environment
    :param origin: the recorded environment, all of whose wrappers must be the innermost of the student's
    :param env: the student's environment in messages
    :param known: the recorded environment in messages
    """
    students, theirs = layers_of(student), layers_of(origin)
    if [described(one) for one in students[: len(theirs)]] != [described(one) for one in theirs]:
        names = ", ".join(type(one).__name__ for one in theirs)
        raise ValueError(
            f"what was recorded is what {known} shows through {names}, from which nobody can tell what {env} shows: "
            f"choose a student's environment with the same wrappers innermost, such as {known}, or record without them"
        )
    return students[len(theirs) - 1] if theirs else student.unwrapped


def described(wrapper: Any) -> tuple[type, str]:
    """Returns what a wrapper does, comparable with others: its class and its arguments."""
    return type(wrapper), repr(sorted(getattr(wrapper, "_saved_kwargs", {}).items()))


def check_chosen(origin: gym.Env[Any, Any]) -> None:
    """Refuses a recorded environment whose executed actions are others than those that were chosen, unless the data say
    which ones are.
    """
    from ncp_envs import RandomActionOverwrite
    from ncp_envs.changed_actions import ChangedActions

    for one in layers_of(origin):
        if isinstance(one, ChangedActions) and not isinstance(one, RandomActionOverwrite):
            raise ValueError(
                f"it was recorded behind {type(one).__name__}, so its actions are the executed ones and not those that "
                "were chosen: record without it"
            )


def check_wrappers_above(student: gym.Env[Any, Any], layer: Any) -> None:
    """Refuses wrappers of a student's environment that would have let the recorded actions do something else."""
    from ncp_envs import IrregularTime
    from ncp_envs.changed_actions import ChangedActions

    layers = layers_of(student)
    above = layers[layers.index(layer) + 1 :] if layer in layers else layers
    for one in above:
        if isinstance(one, ChangedActions | IrregularTime):
            what = "repeats" if isinstance(one, IrregularTime) else "changes"
            raise ValueError(
                f"its wrapper {type(one).__name__} {what} actions, and the recorded ones were executed as they are: "
                "leave it out"
            )


def put_above(stack: gym.Wrapper[Any, Any, Any, Any], layer: Any, bottom: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """Puts another environment in the place of a part of a stack of wrappers, and returns the stack."""
    lowest: Any = stack
    while lowest.env is not layer:
        lowest = lowest.env
    lowest.env = bottom
    return stack
