"""A wrapper that makes the time between observations irregular."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from ncp_envs.arguments import check_box, check_count, is_finite, with_more
from ncp_envs.names import observation_names
from ncp_envs.streams import RandomStream, Stream, count_layers

Info = dict[str, Any]


class IrregularTime(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Repeats each action for a random number k of the environment's steps, and reports the elapsed time.

    The rewards of the k steps are summed. The end of an episode ends the repetition too. `info["elapsed"]` is the time
    since the previous observation, as a recurrent cell reads it: the number of executed steps, divided by `nominal`. By
    default one step of the environment takes 1.0. For an episode's first observation the elapsed time is 1.0. An inner
    time limit, such as that of `gymnasium.make`, counts the environment's steps.

    The numbers of steps are drawn from a random stream of this wrapper's own. `reset(seed=s)` restarts the stream from
    s; without a seed the stream continues. There is no form for vector environments, whose environments step together:
    wrap each environment alone, with `gymnasium.make_vec(..., wrappers=[...])`.

    :param env: any environment; to observe the time, its observations must be vectors of floating-point numbers
    :param frames: the largest k; or (low, high), the smallest and the largest k. All values between are equally likely
    :param observe_elapsed: True adds the elapsed time to the observation as its last entry. "apart" shows a dictionary
        of `observations` and `elapsed`, (1,), so that the observations can be normalised without the time, and an agent
        can give the time to its cells (as `ncp_control.rl` does; `VecNormalize` takes norm_obs_keys=["observations"])
    :param nominal: the number of the environment's steps that take 1.0; with the mean of `frames` the average elapsed
        time is about 1.0
    :param seed: the seed of the stream before the first `reset(seed=...)`

    >>> import gymnasium as gym
    >>> env = IrregularTime(gym.make("Pendulum-v1"), frames=(3, 3), observe_elapsed=True)
    >>> env.reset(seed=0)[0][-1], env.step([0.0])[0][-1]
    (np.float32(1.0), np.float32(3.0))
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        frames: int | tuple[int, int],
        observe_elapsed: bool | str = False,
        nominal: float = 1.0,
        seed: int | None = None,
    ) -> None:
        RecordConstructorArgs.__init__(self, frames=frames, observe_elapsed=observe_elapsed, nominal=nominal, seed=seed)
        super().__init__(env)
        self._low, self._high = _range_of_frames(frames)
        if not (is_finite(nominal) and nominal > 0):
            raise ValueError(f"IrregularTime needs a nominal number of steps above zero, and got {nominal!r}")
        self._nominal = float(nominal)
        self._observes = observe_elapsed
        self._random = RandomStream(Stream.IRREGULAR_TIME, count_layers(env, IrregularTime), seed)
        if observe_elapsed not in (False, True, "apart"):
            raise ValueError(f'IrregularTime can observe_elapsed=True, False or "apart", and got {observe_elapsed!r}')
        least, most = min(1.0, 1 / self._nominal), max(1.0, self._high / self._nominal)
        if observe_elapsed == "apart":
            time = gym.spaces.Box(least, most, (1,), np.float32)
            self.observation_space = gym.spaces.Dict(observations=env.observation_space, elapsed=time)
        elif observe_elapsed:
            box = check_box("IrregularTime, to observe the time,", env.observation_space, vector=True, floating=True)
            self.observation_space = with_more(box, least, most)

    @property
    def observation_names(self) -> list[str]:
        """The names of the environment's entries, and that of the elapsed time if it is one of them."""
        return observation_names(self.env) + ["elapsed time"] * (self._observes is True)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Resets the environment."""
        observation, info = self.env.reset(seed=seed, options=options)
        if seed is not None:
            self._random.restart(seed)
        return self._show(observation, 1.0), {**info, "elapsed": 1.0}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        """Repeats the action k times or until the episode ends; the info is that of the last step."""
        total, steps = 0.0, 0
        frames = int(self._random.generator.integers(self._low, self._high, endpoint=True))
        while True:
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            steps += 1
            if terminated or truncated or steps == frames:
                break
        elapsed = steps / self._nominal
        return self._show(observation, elapsed), total, terminated, truncated, {**info, "elapsed": elapsed}

    def _show(self, observation: Any, elapsed: float) -> Any:
        if not self._observes:
            return observation
        if self._observes == "apart":
            return {"observations": copy.deepcopy(observation), "elapsed": np.array([elapsed], dtype=np.float32)}
        return np.append(observation, elapsed).astype(self.observation_space.dtype)


def _range_of_frames(frames: Any) -> tuple[int, int]:
    if isinstance(frames, tuple | list):
        if len(frames) != 2:
            raise ValueError(f"IrregularTime needs a largest number of frames or (low, high), and got {frames}")
        low = check_count("IrregularTime", "the fewest frames", frames[0], least=1)
        return low, check_count("IrregularTime", "the most frames", frames[1], least=low)
    return 1, check_count("IrregularTime", "the most frames", frames, least=1)
