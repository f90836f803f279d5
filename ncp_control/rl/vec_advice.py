"""Advice to step the environments of a training in worker processes, from times that were measured without them."""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from ncp_control.base.processes import core_count
from ncp_control.base.progress import say

MESSAGE = 200e-6  # seconds for a small message to a worker and back: twice what was measured
WORTHWHILE = 1.3
LEAST_STEPS, LEAST_SECONDS = 200, 1.0  # of the measurement


class VecAdvice:
    """Measures the first rounds of a training in one process, and says once whether worker processes pay off.

    A round collects steps and updates the networks. Evaluations and checkpoints are left out. Off policy, the
    measurement begins with the updates.

    :param cores: the number of cores; by default those that this process may use
    """

    def __init__(self, cores: int | None = None) -> None:
        self._cores = core_count() if cores is None else cores
        self._envs: VecEnv | None = None
        self._is_done = False
        self._steps = 0
        self._began, self._stepping = np.zeros(2), np.zeros(2)  # as `clocks` tells them
        self._last: Any = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leaves out the time that the block takes."""
        start = clocks()
        try:
            yield
        finally:
            self._began += clocks() - start

    def begin_round(self, model: BaseAlgorithm) -> None:
        """Begins or ends the measurement between two rounds.

        :param model: the algorithm that is being trained
        """
        if self._is_done or model.env is None:
            return
        if self._envs is None:
            if model.num_timesteps >= getattr(model, "learning_starts", 0):
                self._measure(model.env.unwrapped)
            return
        passed = clocks() - self._began
        if self._steps >= LEAST_STEPS and passed[0] >= LEAST_SECONDS:
            self._is_done = True
            del self._envs.step_wait  # the class has its own
            advice = self._advice(passed)
            self._envs = self._last = None
            if advice is not None:
                say(advice)

    def _measure(self, envs: VecEnv) -> None:
        """Times the steps of environments from now on."""
        step_wait = envs.step_wait

        def timed() -> Any:
            start = clocks()
            self._last = step_wait()
            self._steps += 1
            self._stepping += clocks() - start
            return self._last

        self._envs, self._began = envs, clocks()
        envs.step_wait = timed  # type: ignore[method-assign]

    def _advice(self, passed: NDArray[np.float64]) -> str | None:
        """Returns the advice after some rounds; None where worker processes would not pay off.

        :param passed: the time of the rounds, as `clocks` tells it
        """
        assert self._envs is not None
        message = seconds_to_pickle(self._last)
        if message is None:
            return None
        rest = passed - self._stepping
        # The updates only compute. If they were not computing all the time, other programs had the cores.
        free = min(1.0, rest[1] / rest[0])
        # Environments that compute with several threads already use several cores.
        cores = int(self._cores / max(1.0, self._stepping[1] / self._stepping[0]))
        each = free * self._stepping[0] / self._steps, free * rest[0] / self._steps
        most = min(cores, self._envs.num_envs)
        gains = {workers: gain(*each, self._envs.num_envs, workers, message) for workers in range(2, most + 1)}
        if not gains or max(gains.values()) < WORTHWHILE:
            return None
        workers = max(gains, key=gains.__getitem__)
        option = "--vec processes" if workers == min(self._cores, self._envs.num_envs) else f"--vec processes={workers}"
        return (
            f"stepping the environments takes {100 * self._stepping[0] / passed[0]:.0f} % of the time: {option} would "
            f"be about {gains[workers]:.1f} times as fast on these {self._cores} cores"
        )


def clocks() -> NDArray[np.float64]:
    """Returns the seconds that have passed, and those that all threads of this process have computed, (2,)."""
    return np.array([time.perf_counter(), time.process_time()])


def gain(step: float, rest: float, envs: int, workers: int, message: float) -> float:
    """Returns how many times as fast a training would be with its environments in worker processes.

    :param step: the seconds in which all environments take a step, one after another
    :param rest: the seconds of everything else in that time, such as the networks' updates
    :param envs: the number of environments
    :param workers: the number of worker processes
    :param message: the seconds for the contents of all messages of a step
    """
    busiest = math.ceil(envs / workers) / envs
    return (step + rest) / (step * busiest + workers * MESSAGE + message + rest)


def seconds_to_pickle(result: Any) -> float | None:
    """Returns the seconds to send what a step returned through pipes, roughly; None if that cannot be pickled.

    Pickling and unpickling take about as long as the two copies through a pipe.
    """
    times = []
    for _ in range(3):
        start = time.perf_counter()
        try:
            pickle.loads(pickle.dumps(result, pickle.HIGHEST_PROTOCOL))
        except Exception:
            return None
        times.append(time.perf_counter() - start)
    return 2 * min(times)
