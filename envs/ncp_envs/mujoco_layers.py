"""What wrappers do to a step of the environments inside them, for many environments at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import OrderEnforcing, TimeLimit
from numpy.typing import NDArray

from ncp_envs.action_bursts import ActionBursts
from ncp_envs.changed_actions import joined
from ncp_envs.mujoco_tasks import StepOutcome
from ncp_envs.observations import KeepObservations
from ncp_envs.random_actions import RandomActionOverwrite

Array = NDArray[Any]
Actions = Array | list[Array]  # one row for each environment; in a list, rows may differ in dtype


class StepLayer(Protocol):
    """One kind of wrapper around each of several environments, made with the wrapper of each of them."""

    def before(self, places: Sequence[int], actions: Actions) -> Actions:
        """Returns the actions for the environments inside.

        :param places: the places of the environments that take a step
        :param actions: the action of each of these
        """

    def after(self, places: Sequence[int], outcome: StepOutcome) -> StepOutcome:
        """Returns what the wrappers make of the outcome of the environments inside."""


class OrderLayer:
    """Refuses a step before the first reset, as `OrderEnforcing` does."""

    def __init__(self, wrappers: Sequence[Any]) -> None:
        self._wrappers = wrappers

    def before(self, places: Sequence[int], actions: Actions) -> Actions:
        """Looks whether the environments were reset."""
        for place in places:
            if not self._wrappers[place].has_reset:
                raise gym.error.ResetNeeded("Cannot call env.step() before calling env.reset()")
        return actions

    def after(self, places: Sequence[int], outcome: StepOutcome) -> StepOutcome:
        """Changes nothing."""
        return outcome


class LimitLayer:
    """Counts steps and ends long episodes, as `TimeLimit` does."""

    def __init__(self, wrappers: Sequence[Any]) -> None:
        self._wrappers = wrappers

    def before(self, places: Sequence[int], actions: Actions) -> Actions:
        """Changes nothing."""
        return actions

    def after(self, places: Sequence[int], outcome: StepOutcome) -> StepOutcome:
        """Counts the step."""
        for row, place in enumerate(places):
            wrapper = self._wrappers[place]
            wrapper._elapsed_steps += 1
            if wrapper._elapsed_steps >= wrapper._max_episode_steps:
                outcome.truncations[row] = True
        return outcome


class KeptLayer:
    """Shows some entries of the observations, as `KeepObservations` does."""

    def __init__(self, wrappers: Sequence[Any]) -> None:
        self._kept = wrappers[0]._kept
        if not all(np.array_equal(wrapper._kept, self._kept) for wrapper in wrappers):
            raise ValueError("they keep different entries of their observations")

    def before(self, places: Sequence[int], actions: Actions) -> Actions:
        """Changes nothing."""
        return actions

    def after(self, places: Sequence[int], outcome: StepOutcome) -> StepOutcome:
        """Chooses the entries."""
        return outcome._replace(observations=outcome.observations.take(self._kept, axis=1))


class OverwriteLayer:
    """Overwrites some actions with random ones, as `RandomActionOverwrite` and `ActionBursts` do."""

    def __init__(self, wrappers: Sequence[Any]) -> None:
        self._rules = [wrapper._rule for wrapper in wrappers]
        self._info: dict[str, Array] = {}

    def before(self, places: Sequence[int], actions: Actions) -> Actions:
        """Draws which actions are overwritten."""
        drawn = [self._rules[place].draw(action) for place, action in zip(places, actions, strict=True)]
        executed = stacked([action for action, _ in drawn])
        self._info = {"executed_action": executed, "is_random": np.array([is_random for _, is_random in drawn])}
        return list(executed) if executed.dtype == object else executed

    def after(self, places: Sequence[int], outcome: StepOutcome) -> StepOutcome:
        """Adds to the info what was executed, as `joined` does for one environment."""
        return outcome._replace(info=joined(self._info, outcome.info))


def stacked(rows: Sequence[Array]) -> Array:
    """Returns rows as one array, each with its own dtype."""
    if len({row.dtype for row in rows}) == 1:
        return np.array(rows)
    found = np.empty(len(rows), dtype=object)
    for place, row in enumerate(rows):
        found[place] = row
    return found


LAYERS: Mapping[type, type[Any]] = {
    OrderEnforcing: OrderLayer,
    TimeLimit: LimitLayer,
    KeepObservations: KeptLayer,
    RandomActionOverwrite: OverwriteLayer,
    ActionBursts: OverwriteLayer,
}
