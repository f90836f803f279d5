"""What wrappers do to a step of the environments inside them, for many environments at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import OrderEnforcing, TimeLimit
from numpy.typing import NDArray

from ncp_envs.action_bursts import ActionBursts
from ncp_envs.action_changes import ActionChangeCost
from ncp_envs.changed_actions import joined
from ncp_envs.changed_body import ChangedBody, Pushes
from ncp_envs.delay import ActionDelay
from ncp_envs.dropout import ObservationDropout
from ncp_envs.mujoco_tasks import StepOutcome
from ncp_envs.noise import ObservationNoise
from ncp_envs.observations import KeepObservations
from ncp_envs.previous import PreviousAction
from ncp_envs.random_actions import RandomActionOverwrite

Array = NDArray[Any]
Actions = Array | list[Array]  # one row for each environment; in a list, rows may differ in dtype


class StepLayer:
    """One kind of wrapper around each of several environments. It changes nothing where a class does not say otherwise.

    :param wrappers: the wrapper of each environment
    """

    def __init__(self, wrappers: Sequence[Any]) -> None:
        self._wrappers = wrappers

    def before(self, places: Sequence[int], actions: Actions) -> Actions:
        """Returns the actions for the environments inside.

        :param places: the places of the environments that take a step
        :param actions: the action of each of these
        """
        return actions

    def after(self, places: Sequence[int], outcome: StepOutcome) -> StepOutcome:
        """Returns what the wrappers make of the outcome of the environments inside."""
        return outcome


class OrderLayer(StepLayer):
    """Refuses a step before the first reset, as `OrderEnforcing` does."""

    def before(self, places: Sequence[int], actions: Actions) -> Actions:
        """Looks whether the environments were reset."""
        for place in places:
            if not self._wrappers[place].has_reset:
                raise gym.error.ResetNeeded("Cannot call env.step() before calling env.reset()")
        return actions


class LimitLayer(StepLayer):
    """Counts steps and ends long episodes, as `TimeLimit` does."""

    def after(self, places: Sequence[int], outcome: StepOutcome) -> StepOutcome:
        """Counts the step."""
        for row, place in enumerate(places):
            wrapper = self._wrappers[place]
            wrapper._elapsed_steps += 1
            if wrapper._elapsed_steps >= wrapper._max_episode_steps:
                outcome.truncations[row] = True
        return outcome


class KeptLayer(StepLayer):
    """Shows some entries of the observations, as `KeepObservations` does."""

    def __init__(self, wrappers: Sequence[Any]) -> None:
        kept = [wrapper._kept for wrapper in wrappers]
        self._kept = same_in_all(kept, "they keep different entries of their observations")

    def after(self, places: Sequence[int], outcome: StepOutcome) -> StepOutcome:
        """Chooses the entries."""
        return outcome._replace(observations=outcome.observations.take(self._kept, axis=1))


class NotedLayer(StepLayer):
    """Adds entries to the info, which `before` keeps."""

    _info: dict[str, Array]

    def after(self, places: Sequence[int], outcome: StepOutcome) -> StepOutcome:
        """Adds the entries, as `joined` does for one environment."""
        return outcome._replace(info=joined(self._info, outcome.info))


class ActionLayer(NotedLayer):
    """Changes actions by each environment's rule, as the wrappers do that are `ChangedActions`."""

    def __init__(self, wrappers: Sequence[Any]) -> None:
        self._rules = [wrapper._rule for wrapper in wrappers]

    def before(self, places: Sequence[int], actions: Actions) -> Actions:
        """Asks the rules for the actions to execute, which all of them note."""
        pairs = zip(places, actions, strict=True)
        self._info = columns_of([self._rules[place].act(action)[1] for place, action in pairs])
        executed = self._info["executed_action"]
        return list(executed) if executed.dtype == object else executed


class DelayLayer(ActionLayer):
    """Executes actions late and tells how late they are, as `ActionDelay` does."""

    def __init__(self, wrappers: Sequence[Any]) -> None:
        super().__init__(wrappers)
        self._told = same_in_all([wrapper._told for wrapper in wrappers], "not all of them tell their delays")

    def after(self, places: Sequence[int], outcome: StepOutcome) -> StepOutcome:
        """Adds the delays to the observations if they are told."""
        outcome = super().after(places, outcome)
        if not self._told:
            return outcome
        return with_entries(outcome, np.array([[self._rules[place].steps] for place in places]))


class ObservedLayer(StepLayer):
    """Changes observations by each environment's rule, as `ObservationNoise` and `ObservationDropout` do."""

    def __init__(self, wrappers: Sequence[Any]) -> None:
        self._rules = [wrapper._rule for wrapper in wrappers]
        same_in_all([rule.space.shape for rule in self._rules], "their observations differ in shape")

    def after(self, places: Sequence[int], outcome: StepOutcome) -> StepOutcome:
        """Shows what the rules make of the observations."""
        changed = [
            self._rules[place].observe(observation)
            for place, observation in zip(places, outcome.observations, strict=True)
        ]
        info = joined(columns_of([notes for _, notes in changed]), outcome.info)
        return outcome._replace(observations=np.array([shown for shown, _ in changed]), info=info)


class PreviousLayer(StepLayer):
    """Adds the previous action, and its reward, to observations, as `PreviousAction` does."""

    def __init__(self, wrappers: Sequence[Any]) -> None:
        self._space = wrappers[0].env.action_space
        shown = [wrapper._reward for wrapper in wrappers]
        self._has_reward = same_in_all(shown, "not all of them show the previous reward")
        self._given: Any = None

    def before(self, places: Sequence[int], actions: Actions) -> Actions:
        """Keeps the actions."""
        self._given = np.array([np.asarray(action, self._space.dtype).ravel() for action in actions])
        return actions

    def after(self, places: Sequence[int], outcome: StepOutcome) -> StepOutcome:
        """Adds the actions and their rewards."""
        outcome = with_entries(outcome, self._given)
        return with_entries(outcome, outcome.rewards[:, None]) if self._has_reward else outcome


class PushLayer(NotedLayer):
    """Pushes the bodies, as `Pushes` does."""

    def before(self, places: Sequence[int], actions: Actions) -> Actions:
        """Applies the forces."""
        self._info = columns_of([self._wrappers[place].push() for place in places])
        return actions


class BodyLayer(StepLayer):
    """Tells the factors by which bodies were changed at their resets, as `ChangedBody` does."""

    def __init__(self, wrappers: Sequence[Any]) -> None:
        super().__init__(wrappers)
        self._told = same_in_all([wrapper._told for wrapper in wrappers], "not all of them tell their factors")

    def after(self, places: Sequence[int], outcome: StepOutcome) -> StepOutcome:
        """Adds the logarithms of the factors to the observations if they are told."""
        return with_entries(outcome, np.array([self._wrappers[k]._seen for k in places])) if self._told else outcome


class ChangeCostLayer(NotedLayer):
    """Subtracts the cost of fast changes from the rewards, as `ActionChangeCost` does."""

    def before(self, places: Sequence[int], actions: Actions) -> Actions:
        """Computes the costs."""
        pairs = zip(places, actions, strict=True)
        self._info = {
            "action_change_cost": np.array([self._wrappers[place].cost_of(action) for place, action in pairs])
        }
        return actions

    def after(self, places: Sequence[int], outcome: StepOutcome) -> StepOutcome:
        """Subtracts the costs."""
        rewards = outcome.rewards - self._info["action_change_cost"]
        return super().after(places, outcome)._replace(rewards=rewards)


def same_in_all(values: Sequence[Any], words: str) -> Any:
    """Returns a value of several wrappers, and refuses wrappers in which it differs."""
    if not all(np.array_equal(value, values[0]) for value in values):
        raise ValueError(words)
    return values[0]


def with_entries(outcome: StepOutcome, entries: Array) -> StepOutcome:
    """Returns an outcome with more entries behind its observations.

    :param entries: (B, k)
    """
    seen = outcome.observations
    return outcome._replace(observations=np.concatenate([seen, entries.astype(seen.dtype)], axis=1))


def columns_of(notes: Sequence[Mapping[str, Any]]) -> dict[str, Array]:
    """Returns the entries of several infos with the same keys, each as one array."""
    return {key: stacked([np.asarray(note[key]) for note in notes]) for key in notes[0]}


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
    RandomActionOverwrite: ActionLayer,
    ActionBursts: ActionLayer,
    ActionDelay: DelayLayer,
    ActionChangeCost: ChangeCostLayer,
    ObservationNoise: ObservedLayer,
    ObservationDropout: ObservedLayer,
    PreviousAction: PreviousLayer,
    ChangedBody: BodyLayer,
    Pushes: PushLayer,
}
