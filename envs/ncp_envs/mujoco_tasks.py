"""What Gymnasium's MuJoCo tasks observe and reward, for many bodies at once.

Every task computes for a batch what its environment in `gymnasium.envs.mujoco` computes for one body, with the same
operations in the same order, so that all numbers are equal bit for bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ncp_envs.physics import MovedBodies

Array = NDArray[Any]


class StepOutcome(NamedTuple):
    """What a step of each of several environments gives.

    :param observations: (B, n)
    :param rewards: (B,)
    :param terminations: (B,) bool
    :param truncations: (B,) bool
    :param info: the entries of each environment's `info`, each (B, ...)
    """

    observations: Array
    rewards: Array
    terminations: Array
    truncations: Array
    info: dict[str, Array]

    def rows(self) -> list[tuple[Any, Any, bool, bool, dict[str, Any]]]:
        """Returns what `step` of each single environment returns."""
        infos: list[dict[str, Any]] = [{} for _ in self.rewards]
        for key, values in self.info.items():
            for info, value in zip(infos, scalars(values), strict=True):
                info[key] = value
        ends = self.terminations.tolist(), self.truncations.tolist()
        return list(zip(self.observations, scalars(self.rewards), *ends, infos, strict=True))


class BodyTask(ABC):
    """The observations, rewards and ends of one of Gymnasium's tasks.

    :param env: an environment of the task, without wrappers, whose settings count
    """

    settings: ClassVar[tuple[str, ...]] = ()
    """The attributes of an environment that `outcome` reads; they must be the same in all environments of a batch."""

    def __init__(self, env: Any) -> None:
        self.env = env

    def marks(self, data: Sequence[Any], places: Sequence[int]) -> Any:
        """Returns what `outcome` needs to know of some bodies as they are before a step, besides their positions.

        :param data: the simulator's data of all bodies
        :param places: which of the bodies take a step
        """
        return None

    @abstractmethod
    def outcome(self, bodies: MovedBodies, marks: Any, actions: Array) -> StepOutcome:
        """Returns what the step gives.

        :param bodies: the bodies after the step
        :param marks: what `marks` returned before the step
        :param actions: (B, m), one row after another in memory
        """

    def control_cost(self, actions: Array) -> Array:
        """Returns the cost of the actions, (B,)."""
        cost: Array = self.env._ctrl_cost_weight * np.sum(np.square(actions), axis=1)
        return cost

    def state(self, bodies: MovedBodies, hidden: int) -> Array:
        """Returns positions and velocities, (B, n), without the first positions if the environment hides them.

        :param hidden: how many positions the environment hides
        """
        first = hidden if self.env._exclude_current_positions_from_observation else 0
        return np.concatenate([bodies.positions[:, first:], bodies.velocities], axis=1)


RUNNING = ("_forward_reward_weight", "_ctrl_cost_weight", "_exclude_current_positions_from_observation")
STANDING = ("_healthy_reward", "_terminate_when_unhealthy", "_healthy_z_range")


class HalfCheetahTask(BodyTask):
    """`HalfCheetah-v5`: forward speed less the cost of the actions; it never ends early."""

    settings = RUNNING

    def outcome(self, bodies: MovedBodies, marks: Any, actions: Array) -> StepOutcome:
        """Returns what the step gives."""
        after = bodies.positions[:, 0]
        speed = (after - bodies.before[:, 0]) / self.env.dt
        forward, cost = self.env._forward_reward_weight * speed, self.control_cost(actions)
        info = {"x_position": after, "x_velocity": speed, "reward_forward": forward, "reward_ctrl": -cost}
        return StepOutcome(self.state(bodies, 1), forward - cost, none(after), none(after), info)


class Walker2dTask(BodyTask):
    """`Walker2d-v5`: forward speed and a bonus for standing, less the cost of the actions; it ends with a fall."""

    settings: ClassVar[tuple[str, ...]] = (*RUNNING, *STANDING, "_healthy_angle_range", "init_qpos")

    def outcome(self, bodies: MovedBodies, marks: Any, actions: Array) -> StepOutcome:
        """Returns what the step gives."""
        env, after = self.env, bodies.positions[:, 0]
        speed = (after - bodies.before[:, 0]) / env.dt
        healthy = self.is_healthy(bodies)
        forward, survive = env._forward_reward_weight * speed, healthy * env._healthy_reward
        cost = self.control_cost(actions)
        info = {
            "x_position": after,
            "z_distance_from_origin": bodies.positions[:, 1] - env.init_qpos[1],
            "x_velocity": speed,
            "reward_forward": forward,
            "reward_ctrl": -cost,
            "reward_survive": survive,
        }
        clipped = bodies._replace(velocities=np.clip(bodies.velocities, -10, 10))
        ended = ~healthy if env._terminate_when_unhealthy else none(healthy)
        return StepOutcome(self.state(clipped, 1), forward + survive - cost, ended, none(ended), info)

    def is_healthy(self, bodies: MovedBodies) -> Array:
        """Says which bodies stand, (B,)."""
        height, angle = bodies.positions[:, 1], bodies.positions[:, 2]
        healthy: Array = within(height, self.env._healthy_z_range) & within(angle, self.env._healthy_angle_range)
        return healthy


class HopperTask(Walker2dTask):
    """`Hopper-v5`: as `Walker2d-v5`, and no entry of the state may leave its range."""

    settings = (*Walker2dTask.settings, "_healthy_state_range")

    def is_healthy(self, bodies: MovedBodies) -> Array:
        """Says which bodies stand, (B,)."""
        state = np.concatenate([bodies.positions, bodies.velocities], axis=1)[:, 2:]
        healthy: Array = super().is_healthy(bodies) & within(state, self.env._healthy_state_range).all(axis=1)
        return healthy


class SwimmerTask(BodyTask):
    """`Swimmer-v5`: forward speed less the cost of the actions; it never ends early."""

    settings = RUNNING

    def outcome(self, bodies: MovedBodies, marks: Any, actions: Array) -> StepOutcome:
        """Returns what the step gives."""
        after = bodies.positions[:, 0:2]
        speed = (after - bodies.before[:, 0:2]) / self.env.dt
        forward, cost = self.env._forward_reward_weight * speed[:, 0], self.control_cost(actions)
        info = plane(after, speed) | {"reward_forward": forward, "reward_ctrl": -cost}
        return StepOutcome(self.state(bodies, 2), forward - cost, none(after), none(after), info)


class AntTask(BodyTask):
    """`Ant-v5`: forward speed and a bonus for standing, less the costs of the actions and of the contacts."""

    settings = (
        *RUNNING,
        *STANDING,
        "_contact_cost_weight",
        "_contact_force_range",
        "_include_cfrc_ext_in_observation",
        "_main_body",
    )

    def marks(self, data: Sequence[Any], places: Sequence[int]) -> Array:
        """Returns where the main part of each body is in the plane, (B, 2)."""
        return np.array([data[place].body(self.env._main_body).xpos[:2] for place in places])

    def outcome(self, bodies: MovedBodies, marks: Any, actions: Array) -> StepOutcome:
        """Returns what the step gives."""
        env, count = self.env, len(actions)
        speed = (self.marks(bodies.data, range(count)) - marks) / env.dt
        forces = np.clip(np.array([one.cfrc_ext for one in bodies.data]), *env._contact_force_range)
        low, high = env._healthy_z_range
        height = bodies.positions[:, 2]
        finite = np.isfinite(bodies.positions).all(axis=1) & np.isfinite(bodies.velocities).all(axis=1)
        healthy = finite & (low <= height) & (height <= high)
        forward, survive = speed[:, 0] * env._forward_reward_weight, healthy * env._healthy_reward
        cost = self.control_cost(actions)
        contact = env._contact_cost_weight * np.sum(np.square(forces).reshape(count, -1), axis=1)
        info = plane(bodies.positions[:, 0:2], speed) | {
            "reward_forward": forward,
            "reward_ctrl": -cost,
            "reward_contact": -contact,
            "reward_survive": survive,
        }
        seen = self.state(bodies, 2)
        if env._include_cfrc_ext_in_observation:
            seen = np.concatenate([seen, forces[:, 1:].reshape(count, -1)], axis=1)
        ended = ~healthy if env._terminate_when_unhealthy else none(healthy)
        return StepOutcome(seen, forward + survive - (cost + contact), ended, none(ended), info)


class InvertedPendulumTask(BodyTask):
    """`InvertedPendulum-v5`: one for every step until the pole falls."""

    def outcome(self, bodies: MovedBodies, marks: Any, actions: Array) -> StepOutcome:
        """Returns what the step gives."""
        seen = np.concatenate([bodies.positions, bodies.velocities], axis=1)
        ended = ~np.isfinite(seen).all(axis=1) | (np.abs(seen[:, 1]) > 0.2)
        rewards = (~ended).astype(np.int64)
        return StepOutcome(seen, rewards, ended, none(ended), {"reward_survive": rewards})


class InvertedDoublePendulumTask(BodyTask):
    """`InvertedDoublePendulum-v5`: a bonus until the poles fall, less penalties for distance and speed."""

    settings = ("_healthy_reward",)

    def outcome(self, bodies: MovedBodies, marks: Any, actions: Array) -> StepOutcome:
        """Returns what the step gives."""
        tip = np.array([one.site_xpos[0] for one in bodies.data])
        x, y = tip[:, 0], tip[:, 2]
        ended = y <= 1
        # One number at a time: the square of a single number is rounded in another way than the squares of an array.
        distance = np.array([0.01 * a**2 + (b - 2) ** 2 for a, b in zip(x, y, strict=True)])
        speed = np.array([1e-3 * a**2 + 5e-3 * b**2 for a, b in bodies.velocities[:, 1:3]])
        bonus = self.env._healthy_reward * (~ended).astype(np.int64)
        angles = np.ascontiguousarray(bodies.positions[:, 1:])
        pushes = np.array([one.qfrc_constraint[:1] for one in bodies.data])
        seen = np.concatenate(
            [
                bodies.positions[:, :1],
                np.sin(angles),
                np.cos(angles),
                np.clip(bodies.velocities, -10, 10),
                np.clip(pushes, -10, 10),
            ],
            axis=1,
        )
        info = {"reward_survive": bonus, "distance_penalty": -distance, "velocity_penalty": -speed}
        return StepOutcome(seen, bonus - distance - speed, ended, none(ended), info)


_MODULES = "gymnasium.envs.mujoco"
TASKS: dict[str, type[BodyTask]] = {  # by the names of Gymnasium's classes, so that no simulator is imported for them
    f"{_MODULES}.ant_v5.AntEnv": AntTask,
    f"{_MODULES}.half_cheetah_v5.HalfCheetahEnv": HalfCheetahTask,
    f"{_MODULES}.hopper_v5.HopperEnv": HopperTask,
    f"{_MODULES}.inverted_double_pendulum_v5.InvertedDoublePendulumEnv": InvertedDoublePendulumTask,
    f"{_MODULES}.inverted_pendulum_v5.InvertedPendulumEnv": InvertedPendulumTask,
    f"{_MODULES}.swimmer_v5.SwimmerEnv": SwimmerTask,
    f"{_MODULES}.walker2d_v5.Walker2dEnv": Walker2dTask,
}


def scalars(values: Array) -> list[Any]:
    """Returns the entries of an array as an environment gives them: NumPy's floating-point numbers, else Python's."""
    return list(values) if values.ndim > 1 or values.dtype.kind == "f" else values.tolist()


def none(values: Array) -> Array:
    """Returns False for each row of an array."""
    return np.zeros(len(values), dtype=np.bool_)


def within(values: Array, bounds: tuple[float, float]) -> Array:
    """Says which values lie strictly between two bounds."""
    low, high = bounds
    inside: Array = (low < values) & (values < high)
    return inside


def plane(places: Array, speed: Array) -> dict[str, Array]:
    """Returns the entries of `info` that say where bodies are in the plane.

    :param places: (B, 2)
    :param speed: (B, 2)
    """
    return {
        "x_position": places[:, 0],
        "y_position": places[:, 1],
        # One body at a time, as `np.linalg.norm` does it: a sum over an axis is rounded in another way.
        "distance_from_origin": np.sqrt(np.array([place.dot(place) for place in places])),
        "x_velocity": speed[:, 0],
        "y_velocity": speed[:, 1],
    }
