"""Known tasks with a part of the observation hidden, so that an agent has to infer it from earlier observations.

| id | base | kept entries |
|---|---|---|
| `ncp/HalfCheetahNoVel-v0` | `HalfCheetah-v5` | 0 to 7: height and angle of the torso, six joint angles |
| `ncp/HalfCheetahNoPos-v0` | `HalfCheetah-v5` | 8 to 16: the nine velocities, forward, up and angular |
| `ncp/CartPoleNoVel-v0` | `CartPole-v1` | 0, 2: cart position and pole angle |
| `ncp/PendulumNoVel-v0` | `Pendulum-v1` | 0, 1: cosine and sine of the angle |
| `ncp/MountainCarContinuousNoVel-v0` | `MountainCarContinuous-v0` | 0: position |
"""

from __future__ import annotations

from typing import NamedTuple

import gymnasium as gym
from gymnasium.envs.registration import WrapperSpec

from ncp_envs.observations import KeepObservations

# The base's own class, without MuJoCo's warning about its model file. It is imported when an environment is made.
_HALF_CHEETAH = "ncp_envs.half_cheetah:HalfCheetah"


class _Part(NamedTuple):
    name: str
    base: str
    kept: tuple[int, ...]
    size: int
    entry_point: str | None = None


_TASKS = (
    _Part("ncp/HalfCheetahNoVel-v0", "HalfCheetah-v5", kept=tuple(range(8)), size=17, entry_point=_HALF_CHEETAH),
    _Part("ncp/HalfCheetahNoPos-v0", "HalfCheetah-v5", kept=tuple(range(8, 17)), size=17, entry_point=_HALF_CHEETAH),
    _Part("ncp/CartPoleNoVel-v0", "CartPole-v1", kept=(0, 2), size=4),
    _Part("ncp/PendulumNoVel-v0", "Pendulum-v1", kept=(0, 1), size=3),
    _Part("ncp/MountainCarContinuousNoVel-v0", "MountainCarContinuous-v0", kept=(0,), size=2),
)


def register_partial() -> None:
    """Registers the tasks. Each wraps its base environment, with the same time limit, threshold and options."""
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
            entry_point=task.entry_point or base.entry_point,
            reward_threshold=base.reward_threshold,
            nondeterministic=base.nondeterministic,
            max_episode_steps=base.max_episode_steps,
            additional_wrappers=(*base.additional_wrappers, keep),
            kwargs=dict(base.kwargs),
        )
