"""Environments of a training in processes of their own, for environments whose steps take long."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import wait
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import SubprocVecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn
from threadpoolctl import threadpool_limits

from ncp_control.base.machine import use_threads
from ncp_control.base.processes import (
    end_with_parent,
    how_it_ended,
    interrupts_later,
    leave_interrupts_to_parent,
    worker_context,
)
from ncp_control.rl.recipes.env_making import reason_of

ERROR = "ncp_control.error"  # the key of an info that says why an environment failed
PATIENCE = 5.0  # seconds in which the environments may close themselves


class ProcessVecEnv(SubprocVecEnv):
    """Stable-Baselines3's `SubprocVecEnv`, whose processes end with this one and whose failures are sentences.

    Observations and rewards have the types of a `DummyVecEnv`. Environments that draw from their own generators
    therefore give the same numbers as in one process.

    :param make: makes one environment; it is called in each process
    :param count: the number of environments
    """

    def __init__(self, make: Callable[[], gym.Env[Any, Any]], count: int) -> None:
        self.remotes, self.processes = (), []  # for `close`, if there cannot be so many pipes
        try:
            with interrupts_later():
                super().__init__([partial(begin, make)] * count, worker_context().get_start_method())
        except EOFError:
            lost = ended(self.processes[0], 0)
            self.close()
            raise lost from None
        except BaseException:
            self.close()
            raise

    def step_wait(self) -> VecEnvStepReturn:
        """Waits for all environments and returns what a step returns."""
        observations, rewards, dones, infos = super().step_wait()
        check(infos)
        check(self.reset_infos)
        return typed(observations, self.observation_space), rewards.astype(np.float32), dones, list(infos)

    def reset(self) -> VecEnvObs:
        """Resets all environments, with the seeds and options that were set."""
        observations = super().reset()
        check(self.reset_infos)
        observed: VecEnvObs = typed(observations, self.observation_space)
        return observed

    def close(self) -> None:
        """Closes the environments; a process that is still busy after some seconds is ended by force."""
        if self.closed:
            return
        self.closed = True
        for remote in self.remotes:
            with suppress(OSError):
                remote.send(("close", None))
        until = time.monotonic() + PATIENCE
        for process in self.processes:
            process.join(max(until - time.monotonic(), 0))
            if process.is_alive():
                process.kill()
                process.join()
        for remote in self.remotes:
            remote.close()

    def _get_target_remotes(self, indices: VecEnvIndices) -> list[Any]:
        # The constructor calls this when all processes have started, and before it waits for the second one.
        if not isinstance(self.remotes[0], WatchedPipe):
            pairs = zip(self.remotes, self.processes, strict=True)
            self.remotes = tuple(WatchedPipe(pipe, process, place) for place, (pipe, process) in enumerate(pairs))
        return super()._get_target_remotes(indices)


class WatchedPipe:
    """A pipe to a process. If the process ends, waiting for its answer raises an error instead of lasting for ever.

    A pipe alone does not notice that end, because processes that were forked earlier hold its other end too.

    :param pipe: this process's end
    :param process: the process at the other end
    :param place: the place of its environment among all
    """

    def __init__(self, pipe: Any, process: Any, place: int) -> None:
        self.pipe, self.process, self.place = pipe, process, place

    def send(self, message: Any) -> None:
        """Sends a message; if the process has ended, `recv` says so."""
        with suppress(OSError):
            self.pipe.send(message)

    def recv(self) -> Any:
        """Waits for an answer and returns it."""
        wait([self.pipe, self.process.sentinel])
        try:
            if self.pipe.poll():
                return self.pipe.recv()
        except (EOFError, OSError):
            pass
        raise ended(self.process, self.place)

    def close(self) -> None:
        """Closes this end of the pipe."""
        self.pipe.close()


class Telling(gym.Wrapper[Any, Any, Any, Any]):
    """An environment whose errors become infos, which travel to the process of the training.

    A seed goes to the generators of its process too, for environments that draw from them.
    """

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode."""
        if seed is not None:
            set_random_seed(seed % 2**32)  # NumPy's global generator takes no larger seed
        try:
            return self.env.reset(seed=seed, options=options)
        except Exception as error:
            # any observation will do: `check` raises the error before somebody reads it
            return self.observation_space.sample(), {ERROR: reason_of(error)}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Takes a step."""
        try:
            return self.env.step(action)
        except Exception as error:
            return self.observation_space.sample(), 0.0, False, False, {ERROR: reason_of(error)}


def begin(make: Callable[[], gym.Env[Any, Any]]) -> gym.Env[Any, Any]:
    """Makes an environment in a new process, which computes with one thread."""
    leave_interrupts_to_parent()
    end_with_parent()
    use_threads(1)
    threadpool_limits(1, user_api="blas")
    return Telling(Monitor(make()))


def check(infos: Sequence[dict[str, Any]]) -> None:
    """Raises the error of the first environment that failed."""
    for place, info in enumerate(infos):
        if ERROR in info:
            raise ValueError(f"environment {place}, in a process of its own: {info[ERROR]}")


def typed(observations: Any, space: gym.spaces.Space[Any]) -> Any:
    """Returns observations with the types of their space."""
    if isinstance(space, gym.spaces.Dict):
        return {key: typed(observations[key], part) for key, part in space.spaces.items()}
    return observations.astype(space.dtype, copy=False)


def ended(process: Any, place: int) -> ChildProcessError:
    """Returns the error for a process that has ended."""
    process.join(PATIENCE)
    return ChildProcessError(f"the process of environment {place} {how_it_ended(process.exitcode)}")
