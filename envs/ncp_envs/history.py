"""Wrappers that show the last few observations, so that an algorithm without memory can train a recurrent network."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from ncp_envs.arguments import check_box, check_count
from ncp_envs.changed_observations import ChangedObservations, Info, ObservationRule, VectorChangedObservations
from ncp_envs.names import observation_names


def _is_timed(space: gym.Space[Any]) -> bool:
    """Whether a space is that of `IrregularTime(observe_elapsed="apart")`."""
    return isinstance(space, gym.spaces.Dict) and set(space.spaces) == {"observations", "elapsed"}


class _Window(ObservationRule):
    def __init__(self, space: gym.Space[Any], window: int) -> None:
        self._timed = _is_timed(space)
        box = check_box("History", space["observations"] if self._timed else space, vector=True)  # type: ignore[index]
        length = check_count("History", "window", window, least=1)
        shape = (length, *box.shape)
        entries: dict[str, gym.Space[Any]] = {
            "observations": gym.spaces.Box(
                low=np.broadcast_to(np.minimum(box.low, 0), shape),
                high=np.broadcast_to(np.maximum(box.high, 0), shape),
                dtype=box.dtype.type,
            ),
            "starts": gym.spaces.MultiBinary(length),
        }
        if self._timed:
            time = space["elapsed"]  # type: ignore[index]
            low, high = min(1.0, time.low.item()), max(1.0, time.high.item())
            entries["elapsed"] = gym.spaces.Box(low, high, (length,), time.dtype.type)
        self.space = gym.spaces.Dict(entries)
        self._empty = np.zeros(shape, dtype=box.dtype)
        self.start(None)

    def start(self, seed: int | None) -> None:
        self._observations = self._empty
        self._starts = np.ones(len(self._empty), dtype=np.int8)
        self._times = np.ones(len(self._empty), dtype=np.float32)
        self._next_start = 1

    def observe(self, observation: Any) -> tuple[Any, Info]:
        seen = observation["observations"] if self._timed else observation
        row = np.asarray(seen, dtype=self._empty.dtype)
        self._observations = np.concatenate([self._observations[1:], row[None]])
        self._starts = np.append(self._starts[1:], np.int8(self._next_start))
        self._next_start = 0
        shown = {"observations": self._observations.copy(), "starts": self._starts.copy()}
        if self._timed:
            self._times = np.append(self._times[1:], observation["elapsed"]).astype(np.float32)
            shown["elapsed"] = self._times.copy()
        return shown, {}


class History(ChangedObservations, RecordConstructorArgs):
    """Shows the last W observations at once, with flags that say where a recurrent network must reset its state.

    The observation is a `Dict` of `observations`, (W, n), oldest first, and `starts`, W flags. Until an episode has
    shown W observations, zeros fill the rows before its first one. The flags of these rows are 1, and so is the flag of
    the episode's first observation. A scan that sets its state to zero wherever a flag is 1 therefore forgets the
    padding before it reads the first observation. When that observation has left the window, all flags are 0. No
    observation of an episode remains in the next one.

    Around `IrregularTime(observe_elapsed="apart")` there is a third entry `elapsed` with W elapsed times, which are 1
    in the padding.

    Stable-Baselines3's `MultiInputPolicy` accepts such observations. Its `VecNormalize` must not normalise the flags,
    and demands `norm_obs_keys=["observations"]`.

    :param env: an environment whose observations are vectors, that is a `Box` of shape (n,), or vectors and the elapsed
        time
    :param window: the number of observations, W

    >>> import gymnasium as gym
    >>> env = History(gym.make("CartPole-v1"), window=3)
    >>> _ = env.reset(seed=0)
    >>> observation = env.step(0)[0]
    >>> observation["observations"].shape, observation["starts"].tolist()
    ((3, 4), [1, 1, 0])
    """

    def __init__(self, env: gym.Env[Any, Any], window: int) -> None:
        RecordConstructorArgs.__init__(self, window=window)
        super().__init__(env, _Window(env.observation_space, window))

    @property
    def observation_names(self) -> list[str]:
        """The names of the entries of one row."""
        return observation_names(self.env)


class VectorHistory(VectorChangedObservations):
    """`History` for a vector environment: each environment behaves as if it were wrapped alone.

    :param env: the vector environment
    :param window: the number of observations of each environment
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any], window: int) -> None:
        check_box("VectorHistory", env.single_observation_space, vector=True)
        super().__init__(env, [_Window(env.single_observation_space, window) for _ in range(env.num_envs)])

    @property
    def observation_names(self) -> list[str]:
        """The names of the entries of one row."""
        return observation_names(self.env)
