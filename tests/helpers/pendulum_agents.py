"""A pendulum without velocities, and untrained agents for it."""

from typing import Any

import gymnasium as gym

from ncp_control import AutoNCP
from ncp_control.rl import RecurrentPPO

PLAN = AutoNCP(12, 4, seed=1)


def pendulum() -> Any:
    """Makes the environment, whose episodes have 200 steps."""
    return gym.make("ncp_envs:ncp/PendulumNoVel-v0")


def pendulum_agent(cell: str = "ltc", critic: str = "lstm", env: Any = None) -> RecurrentPPO:
    """Makes an agent whose circuit has 12 neurons."""
    kwargs = dict(wiring=PLAN, cell=cell, critic=critic)
    settings = {"n_steps": 32, "batch_size": 32, "seed": 0, "device": "cpu"}
    return RecurrentPPO("NCPPolicy", env or pendulum(), policy_kwargs=kwargs, **settings)
