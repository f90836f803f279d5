"""A replay buffer of windows: consecutive steps, with a flag where an episode begins.

Stable-Baselines3 samples single steps, of which a memory can make nothing. Here a sample is some windows, each of
`burn_in + T` consecutive steps of one environment. The first `burn_in` steps only warm the state up; the other T are
trained, and flattened to B T rows as Stable-Baselines3's `train` expects them. A window may cross the end of an
episode, as the flags tell where the state begins anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from torch import Tensor


@dataclass(frozen=True)
class Windows:
    """Observations of consecutive steps, of which the last T are trained.

    :param rows: observations (B, burn_in + T, ...), or a dictionary of them
    :param starts: (B, burn_in + T) bool, true where an episode begins
    :param burn_in: steps before the trained ones
    """

    rows: Any
    starts: Tensor
    burn_in: int


@dataclass(frozen=True)
class NextWindows:
    """What came after each trained step of `windows`.

    :param windows: the steps themselves, from which the state after each of them follows
    :param following: the observations after the trained steps, (B, T, ...), or a dictionary of them; at the end of an
        episode its last one, not the first of the next
    """

    windows: Windows
    following: Any


class SequenceReplayBuffer(ReplayBuffer):
    """Stores what Stable-Baselines3's buffer does, and where episodes begin; samples windows.

    :param args: those of `ReplayBuffer`
    :param sequence: T, trained steps of a window
    :param burn_in: steps before them
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
        # Whether the step that is added next begins an episode; who resets an environment in the midst of one sets it.
        self.starting = np.ones(self.n_envs, dtype=bool)

    def cut_windows(self, sequence: int, burn_in: int) -> None:
        """From now on samples windows of this size."""
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
        """A step of every environment."""
        self.episode_starts[self.pos] = self.starting
        self.starting = np.array(done, dtype=bool)
        super().add(obs, next_obs, action, reward, done, infos)

    def reset(self) -> None:
        """Forgets what was added."""
        super().reset()
        self.starting = np.ones(self.n_envs, dtype=bool)

    def windows(self) -> int:
        """How many windows each environment's steps have now."""
        return max(0, self.size() - self._earliest() - self.sequence + 1)

    def _earliest(self) -> int:
        """The age order's first step that may be trained.

        Before the oldest step of a buffer that has overwritten others lies an unknown state, so all of the burn-in has
        to be there; before the first step of all lies none, so nothing has.
        """
        return self.burn_in if self.full else 0

    def sample(self, batch_size: int, env: Any = None) -> Any:
        """Windows with about `batch_size` trained steps in all: `batch_size // sequence`, at least one.

        :param env: a `VecNormalize` by which observations and rewards are normalised
        """
        if not self.windows():
            raise ValueError(f"{self.size()} steps of each environment are too few for a window of {self.sequence}")
        count = max(1, batch_size // self.sequence)
        firsts = self._earliest() + np.random.randint(0, self.windows(), size=count)
        return self._cut(firsts, np.random.randint(0, self.n_envs, size=count), env)

    def _cut(self, firsts: Any, envs: Any, env: Any) -> ReplayBufferSamples:
        """The windows whose trained steps begin at `firsts` (B,), counted from the oldest, of environments (B,)."""
        # Before the first step of all comes that step again: it begins an episode, at which all is forgotten.
        ages = np.maximum(firsts[:, None] + np.arange(-self.burn_in, self.sequence), 0)
        steps = (ages + (self.pos if self.full else 0)) % self.buffer_size
        envs = envs[:, None]
        windows = Windows(
            self._tensors(self.observations, steps, envs, env),
            self.to_torch(self.episode_starts[steps, envs], copy=False),
            self.burn_in,
        )
        steps = steps[:, self.burn_in :]
        following = self._tensors(self.next_observations, steps, envs, env)
        # a time limit ends an episode without making its last observation worthless
        dones = self.dones[steps, envs] * (1 - self.timeouts[steps, envs])
        return ReplayBufferSamples(
            observations=windows,  # type: ignore[arg-type]
            actions=self.to_torch(self.actions[steps, envs].reshape(steps.size, -1), copy=False),
            next_observations=NextWindows(windows, following),  # type: ignore[arg-type]
            dones=self.to_torch(dones.reshape(-1, 1), copy=False),
            rewards=self.to_torch(self._normalize_reward(self.rewards[steps, envs].reshape(-1, 1), env), copy=False),
        )

    def _tensors(self, kept: Any, steps: Any, envs: Any, env: Any) -> Any:
        """Observations (B, W, ...) at steps (B, W) of environments (B, 1), normalised."""
        if isinstance(kept, dict):
            seen: Any = self._normalize_obs({key: values[steps, envs] for key, values in kept.items()}, env)
            return {key: self.to_torch(values, copy=False) for key, values in seen.items()}
        return self.to_torch(self._normalize_obs(kept[steps, envs], env), copy=False)  # type: ignore[arg-type]


class SequenceDictReplayBuffer(SequenceReplayBuffer, DictReplayBuffer):
    """The same of dictionaries of observations."""
