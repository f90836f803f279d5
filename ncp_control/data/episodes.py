"""Episodes side by side: one call of the policy for all of them, then one step in each environment."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ncp_control.data.batch_policies import BatchPolicy, act
from ncp_control.data.finite import CheckFinite, FiniteLayer
from ncp_control.data.masks import has_masks, masks_of

Array = NDArray[Any]


LONGEST = 1_000_000  # steps of an episode, unless its environment has a longer limit of its own


class Steps(NamedTuple):
    """One step in each of several environments.

    :param places: the places of the environments in their list
    :param observations: the observation of each of them
    :param rewards: the reward of each of them
    :param terminated: whether the environment ended the episode
    :param ended: whether the episode ended, by termination or truncation
    :param info: the info of each of them, or every entry of the info for all of them
    """

    places: tuple[int, ...]
    observations: Sequence[Any]
    rewards: Sequence[Any]
    terminated: Sequence[bool]
    ended: Sequence[bool]
    info: Sequence[dict[str, Any]] | dict[str, Any]

    def entry(self, key: str, default: Any) -> Sequence[Any]:
        """Returns an entry of the info of each environment.

        :param default: the value where there is no such entry
        """
        if isinstance(self.info, dict):
            values: Sequence[Any] = self.info.get(key, [default] * len(self.places))
            return values
        return [info.get(key, default) for info in self.info]


def begin_episodes(envs: Sequence[Any], policy: BatchPolicy, seeds: Sequence[int]) -> list[tuple[Any, dict[str, Any]]]:
    """Begins an episode in each environment, each with its seed.

    :return: for each environment its first observation and info
    """
    policy.begin(seeds)
    starts = []
    for env, seed in zip(envs, seeds, strict=True):
        observation, info = env.reset(seed=seed)
        starts.append((copy_of(observation), info))
    return starts


def run_episodes(envs: Sequence[Any], policy: BatchPolicy, observations: Sequence[Any]) -> Iterator[Steps]:
    """Runs the episode of each environment to its end, and yields every step of all that still run.

    An episode that has ended stays in the policy's batch with its last observation, so that the rows of the others
    never move. An episode that has no end is an error.

    :param observations: the first observation of each environment
    """
    shown, places = list(observations), tuple(range(len(envs)))
    stepper = stepper_of(envs)
    step_all = partial(one_by_one, envs) if stepper is None else partial(step_together, stepper)
    is_masked = getattr(policy, "takes_masks", False) and all(map(has_masks, envs))
    longest = max(LONGEST, *(limit_of(env) for env in envs))
    for step in itertools.count():
        if not places:
            return
        if step >= longest:
            raise ValueError(
                f"an episode has had no end after {step:,} steps: wrap the environment in gymnasium.wrappers.TimeLimit"
            )
        # An ended episode still gets an action, which nobody takes.
        masks = masks_of(envs, places) if is_masked else None
        steps = step_all(places, act(policy, stack(shown), masks))
        for place, observation in zip(places, steps.observations, strict=True):
            shown[place] = observation
        if any(steps.ended):
            places = tuple(place for place, ended in zip(places, steps.ended, strict=True) if not ended)
        yield steps


def limit_of(env: Any) -> int:
    """Returns the number of steps after which an environment itself ends an episode; 0 if it does not."""
    return getattr(getattr(env, "spec", None), "max_episode_steps", None) or 0


def stepper_of(envs: Sequence[Any]) -> Any:
    """Returns a `MujocoStepper` of `ncp_envs`, which steps environments in one pass over arrays with the results that
    their own steps give; None if there is none for these environments.

    Such environments remember nothing after a reset with a seed. Their bodies are moved by as many threads as torch
    uses, eight bodies or more by each.
    """
    from ncp_envs.mujoco_bodies import MujocoStepper, obstacle
    from ncp_envs.mujoco_layers import LAYERS

    layers = {**LAYERS, CheckFinite: FiniteLayer}
    return None if obstacle(envs, layers) is not None else MujocoStepper(envs, layers, torch.get_num_threads())


def step_together(stepper: Any, places: tuple[int, ...], actions: Any) -> Steps:
    """Steps some of several environments in one pass over arrays.

    :param stepper: what `stepper_of` returned for the environments
    :param places: the places of those that take a step
    :param actions: an action for each environment, also for the others
    """
    seen, rewards, terminated, truncated, info = stepper.step(places, [actions[place] for place in places])
    return Steps(places, seen, rewards, terminated.tolist(), (terminated | truncated).tolist(), info)


def one_by_one(envs: Sequence[Any], places: tuple[int, ...], actions: Any) -> Steps:
    """Steps some of several environments, each on its own.

    :param places: the places of those that take a step
    :param actions: an action for each environment, also for the others
    """
    steps = []
    for place in places:
        observation, *rest = envs[place].step(actions[place])
        steps.append((copy_of(observation), *rest))
    seen, rewards, terminated, truncated, infos = zip(*steps, strict=True)
    ended = [bool(is_over or is_cut) for is_over, is_cut in zip(terminated, truncated, strict=True)]
    return Steps(places, seen, rewards, [bool(is_over) for is_over in terminated], ended, infos)


def copy_of(observation: Any) -> Any:
    """Copies an observation, since some environments write each observation into the same array."""
    if isinstance(observation, dict):
        return {key: as_array(value) for key, value in observation.items()}
    return as_array(observation)


def stack(observations: Sequence[Any]) -> Any:
    """Stacks observations to a new array (B, ...), or to a dictionary of arrays."""
    if isinstance(observations[0], dict):
        return {key: as_array([one[key] for one in observations]) for key in observations[0]}
    return as_array(observations)


def as_array(values: Any) -> Array:
    """Returns a new array of an observation or of several; refuses parts of different lengths."""
    try:
        return np.array(values)
    except ValueError:
        raise ValueError(
            "the environment gives observations of different lengths: each must be an array of the shape of its "
            "observation space"
        ) from None
