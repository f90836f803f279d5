"""An environment whose steps take real computation, and one that goes wrong; importing this registers them."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import gymnasium as gym
import numpy as np

BUSY, FAULTY = "Busy-v0", "Faulty-v0"
Info = dict[str, Any]


class Busy(gym.Env[Any, Any]):
    """Draws a walk whose steps compute for some milliseconds. It holds a lock, which cannot be pickled.

    :param milliseconds: of computation in each step
    :param steps: the length of an episode, after which a time limit ends it
    """

    def __init__(self, milliseconds: float = 0.0, steps: int = 20) -> None:
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float64)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.milliseconds, self.steps, self.lock = milliseconds, steps, threading.Lock()

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        super().reset(seed=seed)
        self.place, self.count = self.np_random.normal(size=3), 0
        return self.place.copy(), {"began": float(self.place[0])}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        until = time.thread_time() + self.milliseconds / 1000
        while time.thread_time() < until:
            sum(range(100))
        self.count += 1
        self.place = 0.9 * self.place + self.np_random.normal(size=3) + action[0]
        info = {"place": self.place.copy(), "pair": (self.count, "a")}
        return self.place.copy(), -float(abs(self.place[0])), abs(self.place[1]) > 4, self.count >= self.steps, info


class Faulty(Busy):
    """Goes wrong at a step of each episode.

    :param fault: what happens: "raises", "leaves", "dies", "odd info", "foreign", "foreign space"
    :param at: the step
    """

    def __init__(self, fault: str = "", at: int = 1) -> None:
        super().__init__()
        self.fault, self.at = fault, at

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        seen, reward, terminated, truncated, info = super().step(action)
        if self.count == self.at:
            if self.fault == "raises":
                raise ZeroDivisionError("the pendulum has no mass")
            if self.fault == "leaves":
                os._exit(3)
            if self.fault == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.fault == "odd info":
                info["odd"] = lambda: self
            if self.fault == "foreign":
                seen[0] = np.random.normal()
            if self.fault == "foreign space":
                seen[0] = self.action_space.sample()[0]
        return seen, reward, terminated, truncated, info


gym.register(BUSY, entry_point=f"{__name__}:Busy")
gym.register(FAULTY, entry_point=f"{__name__}:Faulty")
