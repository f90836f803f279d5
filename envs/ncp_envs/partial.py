"""Known tasks with a part of the observation hidden, so that an agent has to infer it from earlier observations.

| id | base | kept entries |
|---|---|---|
| `ncp/HalfCheetahNoVel-v0` | `HalfCheetah-v5` | 0 to 7: height and angle of the torso, six joint angles |
| `ncp/HalfCheetahNoPos-v0` | `HalfCheetah-v5` | 8 to 16: the nine velocities, forward, up and angular |
| `ncp/HopperNoVel-v0` | `Hopper-v5` | 0 to 4: height and angle of the torso, three joint angles |
| `ncp/HopperNoPos-v0` | `Hopper-v5` | 5 to 10: the six velocities |
| `ncp/Walker2dNoVel-v0` | `Walker2d-v5` | 0 to 7: height and angle of the torso, six joint angles |
| `ncp/Walker2dNoPos-v0` | `Walker2d-v5` | 8 to 16: the nine velocities |
| `ncp/AntNoVel-v0` | `Ant-v5` | 0 to 12: height of the torso, its orientation as a quaternion, eight joint angles |
| `ncp/AntNoPos-v0` | `Ant-v5` | 13 to 26: the fourteen velocities |
| `ncp/SwimmerNoVel-v0` | `Swimmer-v5` | 0 to 2: angle of the first link, two joint angles |
| `ncp/InvertedDoublePendulumNoVel-v0` | `InvertedDoublePendulum-v5` | 0 to 4: cart, sines and cosines of both angles |
| `ncp/CartPoleNoVel-v0` | `CartPole-v1` | 0, 2: cart position and pole angle |
| `ncp/PendulumNoVel-v0` | `Pendulum-v1` | 0, 1: cosine and sine of the angle |
| `ncp/MountainCarContinuousNoVel-v0` | `MountainCarContinuous-v0` | 0: position |

What is neither a position nor a velocity is kept by none of them: the contact forces of the Ant and the constraint
force of the InvertedDoublePendulum, which say something about velocities.

The entries of Hopper, Walker2d, Ant, Swimmer and InvertedDoublePendulum are those of their models, so they follow
options that add or remove entries, and a model file of one's own. The HalfCheetah's are fixed, and an option that moves
them is refused.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.envs.registration import WrapperSpec

from ncp_envs.layout import POSITIONS, VELOCITIES
from ncp_envs.observations import KeepObservations

# Both are imported when an environment is made. The second is the base's own class, without MuJoCo's warning about its
# model file.
_BODIES = "ncp_envs.mujoco_parts"
_HALF_CHEETAH = "ncp_envs.half_cheetah:HalfCheetah"


class Part(NamedTuple):
    """A task: its id, its base, the entries of the observation that it keeps, and how many there must be."""

    name: str
    base: str
    kept: tuple[int, ...] | str
    size: int | None = None
    entry_point: str | None = None


TASKS = (
    Part("ncp/HalfCheetahNoVel-v0", "HalfCheetah-v5", kept=tuple(range(8)), size=17, entry_point=_HALF_CHEETAH),
    Part("ncp/HalfCheetahNoPos-v0", "HalfCheetah-v5", kept=tuple(range(8, 17)), size=17, entry_point=_HALF_CHEETAH),
    Part("ncp/HopperNoVel-v0", "Hopper-v5", kept=POSITIONS),
    Part("ncp/HopperNoPos-v0", "Hopper-v5", kept=VELOCITIES),
    Part("ncp/Walker2dNoVel-v0", "Walker2d-v5", kept=POSITIONS),
    Part("ncp/Walker2dNoPos-v0", "Walker2d-v5", kept=VELOCITIES),
    Part("ncp/AntNoVel-v0", "Ant-v5", kept=POSITIONS),
    Part("ncp/AntNoPos-v0", "Ant-v5", kept=VELOCITIES),
    Part("ncp/SwimmerNoVel-v0", "Swimmer-v5", kept=POSITIONS),
    Part("ncp/InvertedDoublePendulumNoVel-v0", "InvertedDoublePendulum-v5", kept=POSITIONS),
    Part("ncp/CartPoleNoVel-v0", "CartPole-v1", kept=(0, 2), size=4),
    Part("ncp/PendulumNoVel-v0", "Pendulum-v1", kept=(0, 1), size=3),
    Part("ncp/MountainCarContinuousNoVel-v0", "MountainCarContinuous-v0", kept=(0,), size=2),
)


def register_partial() -> None:
    """Registers the tasks. Each wraps its base environment, with the same time limit, threshold and options."""
    for task in TASKS:
        if task.name in gym.registry:
            continue
        base = gym.spec(task.base)
        keep = WrapperSpec(
            name=KeepObservations.__name__,
            entry_point=f"{KeepObservations.__module__}:{KeepObservations.__qualname__}",
            kwargs={"indices": task.kept, "size": task.size},
        )
        common: dict[str, Any] = {
            "id": task.name,
            "reward_threshold": base.reward_threshold,
            "nondeterministic": base.nondeterministic,
            "max_episode_steps": base.max_episode_steps,
            "kwargs": dict(base.kwargs),
        }
        if str(base.entry_point).startswith("gymnasium.envs.mujoco."):
            entry = f"{_BODIES}:{task.name.removeprefix('ncp/').removesuffix('-v0')}"
            gym.register(entry_point=entry, vector_entry_point=f"{entry}Vector", **common)
        else:
            wrappers = (*base.additional_wrappers, keep)
            gym.register(entry_point=base.entry_point, additional_wrappers=wrappers, **common)
