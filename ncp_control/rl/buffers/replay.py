"""A replay buffer that samples windows of consecutive steps, with a flag where an episode begins.

Stable-Baselines3 samples single steps, which cannot train a memory. Here a sample consists of windows, each of
`burn_in + T` consecutive steps of one environment. The first `burn_in` steps only warm up the state; the other T are
trained, and flattened to B T rows as Stable-Baselines3's `train` expects them. A window may cross the end of an
episode, because the flags say where the state is reset.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from torch import Tensor


@dataclass(frozen=True)
class ReplayWindows:
    """Windows of consecutive steps, of which the last T are trained.

    :param observations: (B, burn_in + T, ...), or a dictionary of them
    :param actions: (B, burn_in + T, ...), each as the buffer keeps it, scaled to [-1, 1]
    :param starts: (B, burn_in + T) bool, true where an episode begins
    :param burn_in: the number of steps before the trained ones
    """

    observations: Any
    actions: Tensor
    starts: Tensor
    burn_in: int


@dataclass(frozen=True)
class NextObservations:
    """The observation after each trained step of some windows.

    :param windows: the windows, from which the state before each of these observations is computed
    :param observations: (B, T, ...), or a dictionary of them; after the last step of an episode comes this episode's
        last observation, not the first of the next episode
    """

    windows: ReplayWindows
    observations: Any


class SequenceReplayBuffer(ReplayBuffer):
    """Stores what Stable-Baselines3's buffer stores, and where episodes begin; samples windows.

    :param args: the arguments of `ReplayBuffer`
    :param sequence: the number of a window's trained steps, T
    :param burn_in: the number of steps before them
    :param optimize_memory_usage: must be False
    :param kwargs: the keyword arguments of `ReplayBuffer`
    """

    def __init__(
        self,
        *args: Any,
        sequence: int = 32,
        burn_in: int = 16,
        optimize_memory_usage: bool = False,
        **kwargs: Any,
    ) -> None:
        if optimize_memory_usage:
            raise ValueError("windows need the true last observation of an episode: leave optimize_memory_usage False")
        super().__init__(*args, **kwargs)
        self.cut_windows(sequence, burn_in)
        self.episode_starts = np.zeros((self.buffer_size, self.n_envs), dtype=bool)
        # Whether the next step to be added begins an episode; code that ends an episode early sets it.
        self.starting = np.ones(self.n_envs, dtype=bool)

    def cut_windows(self, sequence: int, burn_in: int) -> None:
        """Sets the size of the windows that are sampled from now on."""
        if not isinstance(sequence, int) or sequence < 1:
            raise ValueError(f"a sequence is a whole number of steps, at least one, got {sequence!r}")
        if not isinstance(burn_in, int) or burn_in < 0:
            raise ValueError(f"burn_in is a whole number of steps, zero or more, got {burn_in!r}")
        if self.buffer_size < burn_in + sequence:
            raise ValueError(
                f"a replay buffer that keeps {self.buffer_size} steps of each environment has no room for a window of "
                f"{burn_in} + {sequence}: make buffer_size at least {(burn_in + sequence) * self.n_envs}"
            )
        self.sequence, self.burn_in = sequence, burn_in

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: Any) -> None:
        """Adds a step of every environment."""
        self.episode_starts[self.pos] = self.starting
        self.starting = np.array(done, dtype=bool)
        super().add(obs, next_obs, action, reward, done, infos)

    def reset(self) -> None:
        """Removes all steps."""
        super().reset()
        self.starting = np.ones(self.n_envs, dtype=bool)

    def count_windows(self) -> int:
        """Returns the number of different windows that can be sampled from each environment's steps."""
        return max(0, self.size() - self._earliest() - self.sequence + 1)

    def _earliest(self) -> int:
        """Returns the first step that may be trained, counted from the oldest step in the buffer.

        Once the buffer has overwritten steps, the state before its oldest step is unknown, so a whole burn-in must come
        before the trained steps. Until then its oldest step is the very first one, which begins an episode, and no
        burn-in is needed.
        """
        return self.burn_in if self.full else 0

    def sample(self, batch_size: int, env: Any = None) -> Any:
        """Samples windows that have about `batch_size` trained steps in all.

        :param batch_size: divided by `sequence`, the number of windows; at least one is sampled
        :param env: a `VecNormalize` that normalises observations and rewards
        """
        if not self.count_windows():
            raise ValueError(f"{self.size()} steps of each environment are too few for a window of {self.sequence}")
        count = max(1, batch_size // self.sequence)
        # from the global generator, as Stable-Baselines3's buffers draw, so that a model's seed governs it
        firsts = np.random.randint(self._earliest(), self.size() - self.sequence + 1, size=count)
        envs = np.random.randint(0, self.n_envs, size=count)[:, None]
        # A burn-in that reaches back beyond the very first step repeats that step, which does no harm: the step begins
        # an episode, so the state is reset at it.
        ages = np.maximum(firsts[:, None] + np.arange(-self.burn_in, self.sequence), 0)
        steps = (ages + (self.pos if self.full else 0)) % self.buffer_size
        windows = ReplayWindows(
            self._tensors(self.observations, steps, envs, env),
            self.to_torch(self.actions[steps, envs], copy=False),
            self.to_torch(self.episode_starts[steps, envs], copy=False),
            self.burn_in,
        )
        steps = steps[:, self.burn_in :]
        # not the next rows, which at the end of an episode belong to another one
        after = self._tensors(self.next_observations, steps, envs, env)
        # After a time limit the last observation still has a value, so the step does not count as done.
        dones = self.dones[steps, envs] * (1 - self.timeouts[steps, envs])
        return ReplayBufferSamples(
            observations=windows,  # type: ignore[arg-type]
            actions=self.to_torch(self.actions[steps, envs].reshape(steps.size, -1), copy=False),
            next_observations=NextObservations(windows, after),  # type: ignore[arg-type]
            dones=self.to_torch(dones.reshape(-1, 1), copy=False),
            rewards=self.to_torch(self._normalize_reward(self.rewards[steps, envs].reshape(-1, 1), env), copy=False),
        )

    def _tensors(self, kept: Any, steps: Any, envs: Any, env: Any) -> Any:
        """Returns the normalised observations (B, W, ...) at steps (B, W) of environments (B, 1)."""
        if isinstance(kept, dict):
            seen: Any = self._normalize_obs({key: values[steps, envs] for key, values in kept.items()}, env)
            return {key: self.to_torch(values, copy=False) for key, values in seen.items()}
        return self.to_torch(self._normalize_obs(kept[steps, envs], env), copy=False)  # type: ignore[arg-type]


class SequenceDictReplayBuffer(SequenceReplayBuffer, DictReplayBuffer):
    """A `SequenceReplayBuffer` for observations that are dictionaries."""


def cut_episodes(buffer: ReplayBuffer | None) -> None:
    """Makes the newest steps the last ones of their episodes, as if a time limit had cut them off.

    Stable-Baselines3's buffer adds up the rewards of following rows until an episode ends. Environments that are reset
    in the middle of an episode would let a sum run on into the next one.

    :param buffer: the buffer of an algorithm whose environments are reset now; only one of n-step returns is changed
    """
    if isinstance(buffer, NStepReplayBuffer) and buffer.size():
        newest = buffer.pos - 1
        buffer.timeouts[newest] = np.maximum(buffer.timeouts[newest], 1 - buffer.dones[newest])
