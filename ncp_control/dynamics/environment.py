"""A fitted model as an environment: to plan in, or to train an agent without the simulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray
from torch import Tensor

from ncp_control.dynamics.simulator import Simulator

Array = NDArray[Any]
# From observations before, actions and observations after, each (B, ...), to rewards (B,).
Reward = Callable[[Array, Array, Array], Array]

FORWARD_VELOCITY, HALF_CHEETAH = 8, (17, 6)


def half_cheetah_reward(before: Array, actions: Array, after: Array) -> Array:
    """HalfCheetah's: the way made, over time, less a tenth of the squared actions.

    The way is not observed; the velocity is, at both ends of the step, and their mean stands for that in between.
    """
    speed = (before[:, FORWARD_VELOCITY] + after[:, FORWARD_VELOCITY]) / 2
    return np.asarray(speed - 0.1 * np.square(actions).sum(axis=1))


class Worlds:
    """A batch of episodes inside a model.

    :param model: one that reads actions
    :param reward: what a step is worth; HalfCheetah's for a model of HalfCheetah
    :param actions: the action space, by default a `Box` of the range of actions of the model's rollouts
    """

    def __init__(
        self, model: Simulator, reward: Reward | None, actions: gym.spaces.Box | None, ahead: float, batch: int
    ) -> None:
        if not model.actions:
            raise ValueError("this model reads no actions, so nobody can act in it: fit one with observations+actions")
        if reward is None and (model.features, model.actions) != HALF_CHEETAH:
            raise ValueError("only HalfCheetah's reward is known: give reward, a function of before, actions and after")
        if actions is not None and not isinstance(actions, gym.spaces.Box):
            raise TypeError(
                f"the model reads {model.actions} numbers, so its action space is a Box of shape ({model.actions},), "
                f"not {actions}"
            )
        if actions is not None and actions.shape != (model.actions,):
            raise ValueError(f"the model reads {model.actions} actions, and the action space has shape {actions.shape}")
        self.model, self.reward, self.ahead = model, reward or half_cheetah_reward, ahead if model.timed else None
        low, high = model.action_range.astype(np.float32)
        self.action_space = actions or gym.spaces.Box(low, high, dtype=np.float32)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (model.features,), np.float64)
        self.seen = np.zeros((batch, model.features))
        self.state: Tensor | None = None
        self.starts = model.starts.double().cpu().numpy()

    def reset(self, which: Array, random: np.random.Generator) -> None:
        """Begins some of the episodes (bool, (B,)) anew, at first observations of the rollouts."""
        self.seen[which] = self.starts[random.integers(len(self.starts), size=int(which.sum()))]
        if self.state is not None:
            self.state[torch.as_tensor(which)] = 0.0

    @torch.no_grad()
    def step(self, actions: Array) -> Array:
        """Rewards (B,) of actions (B, m); `seen` is what follows."""
        acted = np.clip(np.asarray(actions, np.float64), self.action_space.low, self.action_space.high)
        like = self.model.mean
        before = torch.as_tensor(self.seen, dtype=like.dtype, device=like.device)[:, None]
        done = torch.as_tensor(acted, dtype=like.dtype, device=like.device)[:, None]
        found, self.state = self.model(before, done, self.state, self.ahead)
        after = found[:, 0].double().cpu().numpy()
        rewards = self.reward(self.seen, acted, after)
        self.seen = after
        return rewards


class DynamicsEnv(gym.Env[Array, Array]):
    """One episode at a time inside a model.

    Example::

        env = DynamicsEnv(load_model("cheetah.safetensors"))
        observation, info = env.reset(seed=0)
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())

    :param model: one that reads actions
    :param reward: a function of observations before (B, n), actions (B, m) and observations after (B, n), that gives
        rewards (B,); HalfCheetah's for a model of HalfCheetah
    :param action_space: a `Box`, by default of the range of actions in the rollouts that the model was fitted to
        (-1 to 1 where its file does not say); other actions are clipped into it
    :param max_episode_steps: after which an episode is truncated
    :param ahead: the time that a step takes, for a model of irregular time
    """

    def __init__(
        self,
        model: Simulator,
        reward: Reward | None = None,
        action_space: gym.spaces.Box | None = None,
        max_episode_steps: int = 1000,
        ahead: float = 1.0,
    ) -> None:
        self._worlds = Worlds(model, reward, action_space, ahead, 1)
        self.action_space, self.observation_space = self._worlds.action_space, self._worlds.observation_space
        self.observation_names = model.observation_names
        self.max_episode_steps, self._steps = max_episode_steps, -1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Begins at a first observation of the rollouts that the model was fitted to."""
        super().reset(seed=seed)
        self._worlds.reset(np.ones(1, dtype=bool), self.np_random)
        self._steps = 0
        return self._worlds.seen[0].copy(), {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """What the model says happens."""
        if self._steps < 0:
            raise gym.error.ResetNeeded("reset the environment before the first step")
        reward = float(self._worlds.step(np.asarray(action)[None])[0])
        self._steps += 1
        return self._worlds.seen[0].copy(), reward, False, self._steps >= self.max_episode_steps, {}


class DynamicsVectorEnv(VectorEnv[Array, Array, Array]):
    """Many episodes at once inside a model, one call of the circuit a step; an episode that is over begins anew on the
    next step, whose action and reward play no part (Gymnasium's `NEXT_STEP`).

    :param num_envs: how many
    :param model: see `DynamicsEnv`, for this and the rest
    """

    def __init__(
        self,
        model: Simulator,
        num_envs: int,
        reward: Reward | None = None,
        action_space: gym.spaces.Box | None = None,
        max_episode_steps: int = 1000,
        ahead: float = 1.0,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, got {num_envs}")
        self._worlds = Worlds(model, reward, action_space, ahead, num_envs)
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.num_envs = num_envs
        self.single_action_space = self._worlds.action_space
        self.single_observation_space = self._worlds.observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.observation_names = model.observation_names
        self.max_episode_steps = max_episode_steps
        self._steps = np.full(num_envs, -1)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begins all episodes; of several seeds the first counts."""
        super().reset(seed=seed[0] if isinstance(seed, list) else seed)
        self._worlds.reset(np.ones(self.num_envs, dtype=bool), self.np_random)
        self._steps[:] = 0
        return self._worlds.seen.copy(), {}

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """What the model says happens."""
        if (self._steps < 0).any():
            raise gym.error.ResetNeeded("reset the environment before the first step")
        over = self._steps >= self.max_episode_steps
        rewards = self._worlds.step(actions)
        self._steps += 1
        if over.any():
            self._worlds.reset(over, self.np_random)
            self._steps[over], rewards = 0, np.where(over, 0.0, rewards)
        truncated = self._steps >= self.max_episode_steps
        return self._worlds.seen.copy(), rewards, np.zeros(self.num_envs, dtype=bool), truncated, {}
