"""An environment that stands still while a test kills the process around it; importing this registers it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.envs.classic_control.pendulum import PendulumEnv

GATED = "Gated-v0"
FOLDER = "NCP_TEST_GATE"  # the environment variable that names the folder that is looked into


class Gated(PendulumEnv):
    """The pendulum, whose steps wait as long as `gate` and a file `rollout_*.npz` lie in a folder."""

    def step(self, u: Any) -> Any:
        folder = Path(os.environ[FOLDER])
        while (folder / "gate").exists() and any(folder.rglob("rollout_*.npz")):
            time.sleep(0.01)
        return super().step(u)


gym.register(GATED, entry_point=f"{__name__}:Gated", max_episode_steps=50)
