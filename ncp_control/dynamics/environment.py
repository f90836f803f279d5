"""A fitted model as a Gymnasium environment, to plan in or to train an agent in without the original simulator."""

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

from ncp_control.base.machine import one_thread
from ncp_control.base.progress import tracked
from ncp_control.data import Rollouts
from ncp_control.data.batch_policies import as_batch_policy
from ncp_control.data.collection import spawned_seed
from ncp_control.data.env_specs import check_policy
from ncp_control.dynamics.open_loop import stretches
from ncp_control.dynamics.simulator import Simulator, check_times
from ncp_envs.names import may_be_half_cheetah

Array = NDArray[Any]
# Takes observations before, actions and observations after, each (B, ...), and returns rewards (B,).
Reward = Callable[[Array, Array, Array], Array]

FORWARD_VELOCITY, HALF_CHEETAH = 8, (17, 6)
MOMENTS, FIRST, READ = 8192, 0.1, 16  # moments of rollouts to begin at, the share of first ones, and steps before them


def half_cheetah_reward(before: Array, actions: Array, after: Array) -> Array:
    """Returns HalfCheetah's reward: the forward velocity minus a tenth of the sum of the squared actions.

    The simulator takes the mean velocity over the step, which is not observed. The mean of the observed velocities
    before and after the step replaces it.
    """
    speed = (before[:, FORWARD_VELOCITY] + after[:, FORWARD_VELOCITY]) / 2
    return np.asarray(speed - 0.1 * np.square(actions).sum(axis=1))


class SimulatedEpisodes:
    """A batch of episodes that a model simulates.

    :param model: a model that reads actions
    :param reward: the reward of a step; by default HalfCheetah's, for a model of HalfCheetah
    :param action_space: by default a `Box` with the range of actions in the model's rollouts
    :param ahead: the time that a step takes, for a timed model
    :param batch: number of episodes, B
    :param within: rollouts at whose moments episodes begin, rather than at first observations
    """

    def __init__(
        self, model: Simulator, reward: Reward | None, action_space: gym.spaces.Box | None, ahead: float, batch: int,
        within: Rollouts | None = None,
    ) -> None:  # fmt: skip
        size = model.action_size
        if not size:
            raise ValueError(
                'this model reads no actions, so nobody can act in it: fit one with reads="observations+actions"'
            )
        names = getattr(model, "observation_names", ())
        if reward is None and ((model.features, size) != HALF_CHEETAH or not may_be_half_cheetah(names)):
            raise ValueError(
                "only HalfCheetah's reward is known: give reward, a function of before, actions and after, in Python"
            )
        if action_space is not None and not isinstance(action_space, gym.spaces.Box):
            raise TypeError(
                f"the model reads {size} numbers, so its action space is a Box of shape ({size},), not {action_space}"
            )
        if action_space is not None and action_space.shape != (size,):
            raise ValueError(f"the model reads {size} actions, and the action space has shape {action_space.shape}")
        check_times(ahead)
        self.model, self.reward, self.ahead = model, reward or half_cheetah_reward, ahead if model.timed else None
        low, high = model.action_range.astype(np.float32)
        self.action_space = action_space or gym.spaces.Box(low, high, dtype=np.float32)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (model.features,), np.float64)
        self.seen = np.zeros((batch, model.features))
        self.state: Tensor | None = None
        self.starts = model.starts.double().cpu().numpy()
        self.states: Tensor | None = None  # of the model at its starts, unless it has seen nothing before them
        if within is not None:
            self.starts, self.states = moments(model, within)

    def reset(self, which: Array, random: np.random.Generator) -> None:
        """Restarts the episodes for which `which` (B,) is true."""
        chosen = random.integers(len(self.starts), size=int(which.sum()))
        self.seen[which] = self.starts[chosen]
        if self.state is None and self.states is not None:
            self.state = self.states.new_zeros(len(which), self.states.shape[1])
        if self.state is not None:
            # Only episodes that begin: the others are under way.
            self.state[torch.as_tensor(which)] = 0.0 if self.states is None else self.states[chosen]

    @torch.no_grad()
    def step(self, actions: Array) -> Array:
        """Executes actions (B, m), puts the next observations into `seen`, and returns the rewards (B,)."""
        # As MuJoCo clips them to the range of its motors.
        acted = np.clip(np.asarray(actions, np.float64), self.action_space.low, self.action_space.high)
        like = self.model.mean
        before = torch.as_tensor(self.seen, dtype=like.dtype, device=like.device)[:, None]
        done = torch.as_tensor(acted, dtype=like.dtype, device=like.device)[:, None]
        found, self.state = self.model(before, done, self.state, self.ahead)
        after = found[:, 0].double().cpu().numpy()
        rewards = self.reward(self.seen, acted, after)
        self.seen = after
        return rewards


def moments(model: Simulator, rollouts: Rollouts) -> tuple[Array, Tensor]:
    """Returns observations (S, n) at random moments of rollouts, and a model's states (S, ...) after what came before.

    A tenth of the moments are the beginnings of rollouts, where the model has seen nothing yet.
    """
    random = np.random.default_rng(0)  # the same moments in every run, so that a resumed training begins in them, too
    long = [rollout for rollout in rollouts if rollout.steps > READ]
    if not long:
        raise ValueError(f"no rollout has more than {READ} steps, which a model reads before an episode begins in it")
    chosen = [long[k] for k in random.integers(len(long), size=MOMENTS)]
    first = random.random(MOMENTS) < FIRST
    columns = stretches(model, [(one, int(random.integers(one.steps - READ))) for one in chosen], READ + 1)
    seen = columns["seen"]
    assert seen is not None
    with torch.no_grad():
        _, states = model(seen[:, :-1], columns["actions"], None, columns["ahead"])
    states[torch.as_tensor(first)] = 0.0
    found = seen[:, -1].double().cpu().numpy()
    found[first] = [rollout.observations[0] for rollout, begins in zip(chosen, first, strict=True) if begins]
    return found, states


class DynamicsEnv(gym.Env[Array, Array]):
    """One episode at a time, simulated by a model.

    Example::

        env = DynamicsEnv(load_model("cheetah.safetensors"))
        observation, info = env.reset(seed=0)
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())

    :param model: a model that reads actions
    :param reward: a function of observations before (B, n), actions (B, m) and observations after (B, n) that returns
        rewards (B,); by default HalfCheetah's, for a model of HalfCheetah
    :param action_space: a `Box`, by default with the range of actions in the rollouts that the model was fitted to (-1
        to 1 if its file does not tell); actions outside of it are clipped
    :param max_episode_steps: after this many steps an episode is truncated
    :param ahead: the time that a step takes, for a timed model
    """

    def __init__(
        self,
        model: Simulator,
        reward: Reward | None = None,
        action_space: gym.spaces.Box | None = None,
        max_episode_steps: int = 1000,
        ahead: float = 1.0,
    ) -> None:
        self._episodes = SimulatedEpisodes(model, reward, action_space, ahead, 1)
        self.action_space, self.observation_space = self._episodes.action_space, self._episodes.observation_space
        self.observation_names, self.action_names = model.observation_names, model.action_names
        self.max_episode_steps, self._steps = max_episode_steps, -1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Starts an episode at a first observation of the rollouts that the model was fitted to."""
        super().reset(seed=seed)
        self._episodes.reset(np.ones(1, dtype=bool), self.np_random)
        self._steps = 0
        return self._episodes.seen[0].copy(), {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Executes actions in the model."""
        if self._steps < 0:
            raise gym.error.ResetNeeded("reset the environment before the first step")
        reward = float(self._episodes.step(np.asarray(action)[None])[0])
        self._steps += 1
        return self._episodes.seen[0].copy(), reward, False, self._steps >= self.max_episode_steps, {}


class DynamicsVectorEnv(VectorEnv[Array, Array, Array]):
    """Many episodes at once, simulated by one call of a model for each step.

    An episode that has ended restarts on the next step, which ignores its action and has reward 0 (Gymnasium's
    `NEXT_STEP`). The other parameters are those of `DynamicsEnv`.

    :param num_envs: number of episodes
    :param within: rollouts at whose moments episodes begin, once the model has read what came before; by default
        episodes begin at first observations
    """

    def __init__(
        self,
        model: Simulator,
        num_envs: int,
        reward: Reward | None = None,
        action_space: gym.spaces.Box | None = None,
        max_episode_steps: int = 1000,
        ahead: float = 1.0,
        within: Rollouts | None = None,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, got {num_envs}")
        self._episodes = SimulatedEpisodes(model, reward, action_space, ahead, num_envs, within)
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.num_envs = num_envs
        self.single_action_space = self._episodes.action_space
        self.single_observation_space = self._episodes.observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.observation_names, self.action_names = model.observation_names, model.action_names
        self.max_episode_steps = max_episode_steps
        self._steps = np.full(num_envs, -1)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Starts all episodes; if there are several seeds, the first one decides."""
        super().reset(seed=seed[0] if isinstance(seed, list) else seed)
        self._episodes.reset(np.ones(self.num_envs, dtype=bool), self.np_random)
        self._steps[:] = 0
        return self._episodes.seen.copy(), {}

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Executes actions in the model."""
        if (self._steps < 0).any():
            raise gym.error.ResetNeeded("reset the environment before the first step")
        over = self._steps >= self.max_episode_steps
        rewards = self._episodes.step(actions)
        self._steps += 1
        if over.any():
            self._episodes.reset(over, self.np_random)
            self._steps[over], rewards = 0, np.where(over, 0.0, rewards)
        truncated = self._steps >= self.max_episode_steps
        return self._episodes.seen.copy(), rewards, np.zeros(self.num_envs, dtype=bool), truncated, {}


def imagined_rewards(
    policy: Any, envs: VectorEnv[Any, Any, Any], seed: int = 0, deterministic: bool = True, progress: bool = False
) -> Array:
    """Runs a policy for one episode in each environment of a model, and returns the reward of every step, (B, T).

    Example::

        envs = VectorRandomActionOverwrite(DynamicsVectorEnv(model, 20), probability=0.05)
        returns = imagined_rewards(load_policy("runner.safetensors"), envs).sum(axis=1)

    :param policy: a model with `predict`, a function from observations (B, n) to actions (B, m), or "random"
    :param envs: a `DynamicsVectorEnv`, perhaps inside of vector wrappers of `ncp_envs`
    :param seed: the seed of everything random
    :param deterministic: take the policy's deterministic action rather than a sample
    :param progress: show a progress bar on stderr
    """
    check_policy(policy, envs)
    inner: Any = envs.unwrapped
    chosen = as_batch_policy(policy, envs.single_action_space, deterministic=deterministic)
    by_step: list[Array] = []
    with (
        tracked("imagining", inner.max_episode_steps, shown=progress) as tracker,
        torch.random.fork_rng(devices=[]),
        one_thread(),
    ):
        chosen.begin([spawned_seed(seed, k) for k in range(envs.num_envs)])
        seen, _ = envs.reset(seed=seed)
        ended = np.zeros(envs.num_envs, dtype=bool)
        while not ended.any():  # all episodes of a model are equally long
            seen, rewards, _, ended, _ = envs.step(chosen.act(seen))
            if not (np.isfinite(seen).all() and np.isfinite(rewards).all()):
                raise ValueError(
                    f"in step {len(by_step) + 1} the model predicts numbers that are not finite, so it says nothing "
                    "about whole episodes"
                )
            by_step.append(rewards)
            tracker.advance(1, envs.num_envs)
    return np.stack(by_step, axis=1)
