"""Gymnasium's HalfCheetah, made without MuJoCo's warning about its model file. Importing this needs mujoco."""

from __future__ import annotations

from typing import Any

from gymnasium.envs.mujoco.half_cheetah_v5 import HalfCheetahEnv

from ncp_envs.mujoco_messages import without_mass_warning


class HalfCheetah(HalfCheetahEnv):
    """`HalfCheetah-v5`, except that compiling its model prints no warning."""

    def _initialize_simulation(self) -> tuple[Any, Any]:
        with without_mass_warning():
            return super()._initialize_simulation()
