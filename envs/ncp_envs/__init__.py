"""Gymnasium environments and wrappers for controllers with memory.

Importing this package registers the environments. One call imports it and makes an environment:
`gym.make("ncp_envs:ncp/HalfCheetahNoVel-v0")`.

Most wrappers make an environment harder in one way: they hide a part of the observation, add noise, drop entries, delay
or overwrite actions, or make time irregular. `History` and `PreviousAction` show an agent more instead. The wrappers
whose names begin with Vector are for vector environments.

The tasks of `ncp_envs.memory` need a memory and nothing else.
"""

from ncp_envs.action_bursts import ActionBursts
from ncp_envs.action_changes import ActionChangeCost
from ncp_envs.changed_body import ChangedBody, Pushes
from ncp_envs.delay import ActionDelay, VectorActionDelay
from ncp_envs.dropout import ObservationDropout, VectorObservationDropout
from ncp_envs.equations import register_equations
from ncp_envs.history import History, VectorHistory
from ncp_envs.irregular import IrregularTime
from ncp_envs.memory import register_memory
from ncp_envs.mujoco_messages import without_mass_warning
from ncp_envs.mujoco_vector import MujocoVectorEnv
from ncp_envs.names import observation_names
from ncp_envs.noise import ObservationNoise, VectorObservationNoise
from ncp_envs.observations import KeepObservations, VectorKeepObservations
from ncp_envs.partial import register_partial
from ncp_envs.previous import PreviousAction
from ncp_envs.random_actions import RandomActionOverwrite, VectorRandomActionOverwrite

__all__ = [
    "ActionBursts",
    "ActionChangeCost",
    "ActionDelay",
    "ChangedBody",
    "History",
    "IrregularTime",
    "KeepObservations",
    "MujocoVectorEnv",
    "ObservationDropout",
    "ObservationNoise",
    "PreviousAction",
    "Pushes",
    "RandomActionOverwrite",
    "VectorActionDelay",
    "VectorHistory",
    "VectorKeepObservations",
    "VectorObservationDropout",
    "VectorObservationNoise",
    "VectorRandomActionOverwrite",
    "observation_names",
    "without_mass_warning",
]

register_partial()
register_memory()
register_equations()
