"""Gymnasium environments that give a controller with memory something to remember.

Importing this package registers them, so one call is enough: `gym.make("ncp_envs:ncp/HalfCheetahNoVel-v0")`.
"""

from ncp_envs.no_velocity import register_no_velocity
from ncp_envs.observations import KeepObservations

__all__ = ["KeepObservations"]

register_no_velocity()
