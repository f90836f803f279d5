"""The environment that a model imitates, and the model in its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
from gymnasium.spaces import Box

from ncp_control.data import Rollouts
from ncp_control.data.policy_hashes import hash_of_weights
from ncp_control.dynamics.environment import DynamicsVectorEnv
from ncp_control.dynamics.simulator import Simulator
from ncp_envs import VectorKeepObservations, observation_names

UNNAMED = "observation 0"
BRANCH = 20


@dataclass(frozen=True)
class Branches:
    """Short episodes that a model imagines, each from a moment of recorded rollouts on.

    Example::

        train(load_recipe("halfcheetah"), "runs/inside", inside=Branches(model, rollouts))  # from ncp_control.rl

    :param model: a model of the environment's body
    :param rollouts: those to which the model was fitted
    :param steps: number of steps of a branch; long ones teach an agent what is wrong with the model
    """

    model: Simulator
    rollouts: Rollouts
    steps: int = BRANCH

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"a branch has at least one step, got {self.steps}")

    def about(self) -> dict[str, Any]:
        """Returns what tells this from any other, as JSON values."""
        rollouts = {"rollouts": len(self.rollouts), "rollout_steps": self.rollouts.steps}
        return {"model": hash_of_weights(self.model), **rollouts, "branch": self.steps}

    def episodes(self, env: gym.Env[Any, Any], count: int, name: str) -> gym.vector.VectorEnv[Any, Any, Any]:
        """Returns branches side by side; the arguments are those of `in_place_of`."""
        return in_place_of(env, self.model, count, name, self.steps, self.rollouts)


def in_place_of(
    env: gym.Env[Any, Any], model: Simulator, count: int, name: str, steps: int, within: Rollouts | None = None
) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Returns episodes of a model that show and accept what an environment does, side by side.

    :param env: the environment, of which a model knows the body
    :param model: a model that imitates the body
    :param count: number of episodes
    :param name: the environment's name, for messages
    :param steps: number of steps of an episode
    :param within: rollouts at whose moments episodes begin; None for first observations
    """
    check_imitates(model, env, name)
    space: Any = env.unwrapped.action_space
    episodes = DynamicsVectorEnv(model, count, None, space, steps, within=within)
    places = places_of(env)
    return episodes if places is None else VectorKeepObservations(episodes, places)


def check_imitates(model: Any, env: Any, name: str) -> None:
    """Refuses an environment whose observations or actions are not those of the model.

    :param model: the model
    :param env: the environment; wrappers that show a part of its observations do not matter
    :param name: the environment's name, for messages
    """
    body = env.unwrapped
    if not isinstance(body.observation_space, Box) or not isinstance(body.action_space, Box):
        raise ValueError(f"{name} has no vectors of numbers as observations and actions, which a model predicts from")
    sizes, own = (model.features, model.action_size), (body.observation_space.shape[0], body.action_space.shape[0])
    if own != sizes:
        raise ValueError(
            f"{name} has {own[0]} observations and {own[1]} actions, and the model was fitted to {sizes[0]} and "
            f"{sizes[1]}"
        )
    names = observation_names(body)
    # Data without names give numbered ones, which say nothing of a body.
    if names != list(model.observation_names) and UNNAMED not in (*names, *model.observation_names):
        its, models = next(pair for pair in zip(names, model.observation_names, strict=True) if pair[0] != pair[1])
        raise ValueError(f"{name} is another body than the model's: it has {its!r} where the model has {models!r}")


def places_of(env: Any) -> list[int] | None:
    """Returns which of its body's observations an environment shows; None if it shows all of them in their order."""
    names, shown = observation_names(env.unwrapped), observation_names(env)
    if shown == names:
        return None
    if not set(shown) <= set(names):
        added = next(name for name in shown if name not in names)
        raise ValueError(f"{env.spec.id} shows {added!r}, which its body does not observe")
    return [names.index(name) for name in shown]
