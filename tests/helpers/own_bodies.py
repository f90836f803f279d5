"""MuJoCo environments as users write them, from a model in a file of their own."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from gymnasium.envs.mujoco import MujocoEnv

POLE = """<mujoco><option timestep="0.01"/><worldbody>
  <body name="cart"><joint name="slide" type="slide" axis="1 0 0" damping="1"/>
    <geom type="box" size=".2 .1 .1" mass="1"/>
    <body name="pole"><joint name="hinge" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0 0 .6" size=".05" mass=".1"/>
      <site name="tip" pos="0 0 .6"/></body></body>
  <body name="goal" pos=".5 0 .4"><geom size=".05" contype="0" conaffinity="0"/></body></worldbody>
  <actuator><motor joint="slide" gear="20" ctrllimited="true" ctrlrange="-1 1"/></actuator></mujoco>"""


class Pole(MujocoEnv):
    """A cart with a pole that turns, which observes sines, velocities and distances in an order of its own."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": [], "render_fps": 20}
    precision: Any = np.float64
    size = 6

    def __init__(self, folder: Path) -> None:
        path = folder / "pole.xml"
        path.write_text(POLE, encoding="utf-8")
        super().__init__(str(path), 5, spaces.Box(-np.inf, np.inf, (self.size,), self.precision))

    def observed(self) -> list[Any]:
        (place, angle), (speed, turn) = self.data.qpos, self.data.qvel
        tip, goal = self.data.site("tip").xpos, self.data.body("goal").xpos
        return [np.sin(angle), np.clip(turn, -10, 10), (goal - tip)[2], np.cos(angle), speed, place]

    def _get_obs(self) -> Any:
        return np.array(self.observed(), self.precision)

    def reset_model(self) -> Any:
        self.set_state(self.np_random.uniform(-0.3, 0.3, 2), 0.1 * self.np_random.standard_normal(2))
        return self._get_obs()

    def step(self, action: Any) -> Any:
        self.do_simulation(action, self.frame_skip)
        return self._get_obs(), -abs(float(self.data.qpos[0])), False, False, {}


class SinglePole(Pole):
    precision = np.float32


class PlanarPole(Pole):
    """It observes the whole place of its tip, of which y is always 0, and of the goal from there."""

    size = 9

    def observed(self) -> list[Any]:
        tip = self.data.site("tip").xpos
        return [*super().observed()[:3], *tip, *(self.data.body("goal").xpos - tip)]


class FilteredPole(Pole):
    """Its fifth observation is a moving average of the speed."""

    average = 0.0

    def observed(self) -> list[Any]:
        self.average = 0.9 * self.average + 0.1 * float(self.data.qvel[0])
        return [*super().observed()[:4], self.average, 0.0]


class GeneralPole(Pole):
    """Each episode has a pole of another mass."""

    def reset_model(self) -> Any:
        self.model.body_mass[2] = self.np_random.uniform(0.1, 0.2)
        return super().reset_model()


class StrongPole(Pole):
    def step(self, action: Any) -> Any:
        return super().step(0.5 * action)


class FlagPole(Pole):
    """It observes whether it has gone far, which it never does."""

    def observed(self) -> list[Any]:
        return [*super().observed()[:5], float(abs(self.data.qpos[0]) > 1e9)]
