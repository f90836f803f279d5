"""Known tasks with the velocities hidden: whoever wants them has to work them out from what was seen before."""

from __future__ import annotations

from typing import NamedTuple

import gymnasium as gym
from gymnasium.envs.registration import WrapperSpec

from ncp_envs.observations import KeepObservations


class _HiddenVelocities(NamedTuple):
    name: str
    base: str
    kept: tuple[int, ...]
    size: int


_TASKS = (
    # two coordinates of the body and six joint angles; the nine velocities go
    _HiddenVelocities("ncp/HalfCheetahNoVel-v0", "HalfCheetah-v5", kept=(0, 1, 2, 3, 4, 5, 6, 7), size=17),
    # cart position and pole angle
    _HiddenVelocities("ncp/CartPoleNoVel-v0", "CartPole-v1", kept=(0, 2), size=4),
    # cosine and sine of the angle
    _HiddenVelocities("ncp/PendulumNoVel-v0", "Pendulum-v1", kept=(0, 1), size=3),
    # position
    _HiddenVelocities("ncp/MountainCarContinuousNoVel-v0", "MountainCarContinuous-v0", kept=(0,), size=2),
)


def register_no_velocity() -> None:
    """Register the tasks: each is its base environment, time limit, threshold and options kept, behind one wrapper."""
    for task in _TASKS:
        if task.name in gym.registry:
            continue
        base = gym.spec(task.base)
        keep = WrapperSpec(
            name=KeepObservations.__name__,
            entry_point=f"{KeepObservations.__module__}:{KeepObservations.__qualname__}",
            kwargs={"indices": task.kept, "size": task.size},
        )
        gym.register(
            id=task.name,
            entry_point=base.entry_point,
            reward_threshold=base.reward_threshold,
            nondeterministic=base.nondeterministic,
            max_episode_steps=base.max_episode_steps,
            additional_wrappers=(*base.additional_wrappers, keep),
            kwargs=dict(base.kwargs),
        )
