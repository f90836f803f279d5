"""Bodies whose state can be read and set: the physics of one environment, as a map from a state and an action.

A step is the environment's own `step`, so nothing of its physics or its rewards is written here again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import (
    ClipAction,
    FlattenObservation,
    OrderEnforcing,
    PassiveEnvChecker,
    RescaleAction,
    RescaleObservation,
    TimeLimit,
)
from numpy.typing import NDArray

from ncp_control.data.finite import CheckFinite
from ncp_envs import ActionDelay, ChangedBody, KeepObservations, ObservationNoise, PreviousAction, observation_names
from ncp_envs.equations import EquationsEnv
from ncp_envs.streams import wrappers_of

Array = NDArray[Any]
# Wrappers without a memory of their own: what they return follows from one step.
PLAIN = (
    OrderEnforcing, PassiveEnvChecker, TimeLimit, CheckFinite, KeepObservations, PreviousAction, FlattenObservation,
    ClipAction, RescaleAction, RescaleObservation,
)  # fmt: skip
TELLING = (ActionDelay, ChangedBody, ObservationNoise)
TURN = 2 * np.pi
TOLERANCE = 1e-14
CHECKED = 20  # steps that are taken twice, before anything is computed
THROWN_SPEED = 1.0  # standard deviation of the velocities of a body that is thrown
SINES: Mapping[str, Callable[[Array], Array]] = {
    "PendulumEnv": lambda state: np.array([np.cos(state[0]), np.sin(state[0]), state[1]]),
    "AcrobotEnv": lambda state: np.array([*(f(state[k]) for k in (0, 1) for f in (np.cos, np.sin)), *state[2:]]),
    "CartPoleEnv": np.array,
    "MountainCarEnv": np.array,
}
# From where the states of these bodies are drawn when they are thrown.
THROWN: Mapping[str, tuple[float, ...]] = {
    "PendulumEnv": (np.pi, 8.0), "AcrobotEnv": (np.pi, np.pi, 6.0, 6.0), "CartPoleEnv": (2.4, 2.0, 0.2, 2.0),
    "MountainCarEnv": (0.6, 0.07),
}  # fmt: skip


class Moved(NamedTuple):
    """What one step of a body gives.

    :param state: the body's state after the step
    :param observation: what the environment shows, (n,) float64
    :param reward: the reward
    :param ended: whether the episode ended by itself, such as by a fall
    """

    state: Array
    observation: Array
    reward: float
    ended: bool


class BodyState(ABC):
    """The body in one environment.

    A state is a vector that `restore` sets. Between two near states there is a deviation, a vector of `size` numbers
    (`positions` of them first, then velocities), which counts turns of a joint in radians, also in three dimensions.

    :param env: the environment; only wrappers without a memory of their own may be around it
    :ivar size: the number of entries of a deviation
    :ivar names: a name for each of them
    :ivar positions: how many of them are positions
    """

    size: int
    positions: int
    names: list[str]

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self.env = env
        self.base: Any = env.unwrapped
        self.chooses = isinstance(env.action_space, gym.spaces.Discrete)
        self.sensors = list(observation_names(env))

    @abstractmethod
    def state(self) -> Array:
        """Returns the present state."""

    @abstractmethod
    def restore(self, state: Array) -> None:
        """Sets the state."""

    @abstractmethod
    def deviated(self, state: Array, deviation: Array) -> Array:
        """Returns the state that lies a deviation away from another one."""

    @abstractmethod
    def deviation(self, of: Array, origin: Array) -> Array:
        """Returns the deviation by which one state lies away from another one."""

    @abstractmethod
    def throw(self, random: np.random.Generator) -> None:
        """Sets the body into any pose at a random speed."""

    def thrown(self, random: np.random.Generator) -> tuple[Array, Array]:
        """Throws the body; returns its state and the observation a step without an action later, which shows it."""
        self.env.reset(seed=int(random.integers(2**31)))
        self.throw(random)
        moved = self.step(np.zeros(self.env.action_space.shape or 1))
        return moved.state, moved.observation

    def sharpen(self) -> None:
        """Lets the environment compute so exactly that its steps have derivatives, and refuses one that cannot.

        What a body shows whose state is a vector is not rounded to float32 any more, and the solver of MuJoCo's
        contacts goes on to the last digits.
        """
        check_repeats(self)

    def reset(self, seed: int) -> tuple[Array, Array]:
        """Begins an episode; returns the body's state and the first observation."""
        observation, _ = self.env.reset(seed=seed)
        return self.state(), np.asarray(observation, np.float64)

    def step(self, action: Array) -> Moved:
        """Takes a step from the present state."""
        observation, reward, ended, _, _ = self.env.step(int(action[0]) if self.chooses else action)
        return Moved(self.state(), np.asarray(observation, np.float64), float(reward), bool(ended))

    def step_from(self, state: Array, action: Array) -> Moved:
        """Takes a step from a state."""
        self.restore(state)
        return self.step(action)


class MujocoBody(BodyState):
    """A body of MuJoCo in a `MujocoEnv` of Gymnasium, also in one of a user's own."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        import mujoco

        from ncp_envs.joints import velocity_names

        super().__init__(env)
        self._mujoco = mujoco
        self.model, self.data = self.base.model, self.base.data
        model = self.model
        self.positions, self.size = model.nv, 2 * model.nv + model.na
        speeds = velocity_names(model)
        self.names = [
            *(name.replace("angular velocity", "angle").replace(" velocity", "") for name in speeds),
            *speeds,
            *(f"actuator {k}" for k in range(model.na)),
        ]
        part = mujoco.mjtState
        self._kind = part.mjSTATE_QPOS | part.mjSTATE_QVEL | part.mjSTATE_ACT | part.mjSTATE_WARMSTART
        self._width = mujoco.mj_stateSize(model, self._kind)

    def sharpen(self) -> None:
        """Lets the solver of contacts go on; where it stops otherwise, at 1e-8, would be noise in derivatives."""
        self.model.opt.tolerance = TOLERANCE  # with 0 it would never stop before its last iteration
        super().sharpen()

    def state(self) -> Array:
        """Returns positions, velocities and activations, and from where the solver of contacts goes on."""
        state = np.empty(self._width)
        self._mujoco.mj_getState(self.model, self.data, state, self._kind)
        return state

    def restore(self, state: Array) -> None:
        """Sets the state."""
        self._mujoco.mj_setState(self.model, self.data, state, self._kind)

    def course(self, state: Array) -> tuple[Array, Array]:
        """Returns the positions (nq,) and the velocities (nv,) in a state, and refuses that of another body."""
        if state.size != self._width:
            raise ValueError(f"a state of {state.size} numbers is of another body: this one's has {self._width}")
        return state[: self.model.nq], state[self.model.nq : self.model.nq + self.model.nv]

    def deviated(self, state: Array, deviation: Array) -> Array:
        """Returns the state that lies a deviation away from another one."""
        after: Array = state.copy()
        count = self.model.nq
        self._mujoco.mj_integratePos(self.model, after[:count], deviation[: self.positions], 1.0)
        after[count : count + self.size - self.positions] += deviation[self.positions :]
        return after

    def deviation(self, of: Array, origin: Array) -> Array:
        """Returns the deviation by which one state lies away from another one."""
        turned, count = np.zeros(self.positions), self.model.nq
        self._mujoco.mj_differentiatePos(self.model, turned, 1.0, origin[:count], of[:count])
        return np.concatenate([turned, (of - origin)[count : count + self.size - self.positions]])

    def throw(self, random: np.random.Generator) -> None:
        """Sets every joint anywhere in its range, each speed at random, and the body onto the ground."""
        model, data, joints = self.model, self.data, self._mujoco.mjtJoint
        places, speeds = data.qpos.copy(), random.normal(scale=THROWN_SPEED, size=model.nv)
        for joint in range(model.njnt):
            kind, at = int(model.jnt_type[joint]), int(model.jnt_qposadr[joint])
            if kind in (joints.mjJNT_FREE, joints.mjJNT_BALL):
                first = at + 3 * (kind == joints.mjJNT_FREE)
                turn = random.normal(size=4)
                places[first : first + 4] = turn / np.linalg.norm(turn)
            elif model.jnt_limited[joint]:
                places[at] = random.uniform(*model.jnt_range[joint])
            elif kind == joints.mjJNT_HINGE:
                places[at] = random.uniform(-np.pi, np.pi)
        self.base.set_state(places, speeds)
        self._lift(places, speeds)

    def _lift(self, places: Array, speeds: Array) -> None:
        """Lifts or lowers a body onto the ground, if it can move up and down."""
        model, data, joints = self.model, self.data, self._mujoco.mjtJoint
        plane = self._mujoco.mjtGeom.mjGEOM_PLANE
        if not (model.geom_type == plane).any():
            return
        lowest = min(
            (float(data.geom_xpos[k][2] - model.geom_rbound[k]) for k in range(model.ngeom)
             if model.geom_type[k] != plane and model.body_weldid[model.geom_bodyid[k]]),
            default=0.0,
        )  # fmt: skip
        for joint in range(model.njnt):
            at, first = int(model.jnt_qposadr[joint]), not model.body_parentid[model.jnt_bodyid[joint]]
            is_up = int(model.jnt_type[joint]) == joints.mjJNT_SLIDE and abs(model.jnt_axis[joint][2]) > 0.5
            if first and (is_up or int(model.jnt_type[joint]) == joints.mjJNT_FREE):
                places[at + 2 * (not is_up)] -= lowest
                self.base.set_state(places, speeds)
                return


class StateBody(BodyState):
    """A body whose state is a vector.

    :param env: the environment, with an attribute `state`
    :param names: a name for each number of the state
    :param positions: how many of them can be positions, which come first
    :param ranges: how far from zero each number is at most where the body is thrown
    :param observe: what the environment shows of a state
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        names: Sequence[str],
        positions: int,
        ranges: Sequence[float] | Array,
        observe: Callable[[Array], Array],
    ) -> None:
        super().__init__(env)
        self.names, self.positions, self.size = list(names), positions, len(names)
        self._ranges, self._observe = np.array(ranges), observe

    def sharpen(self) -> None:
        """Shows what is observed without rounding it to float32."""
        inner: Any = self.env
        while inner.env is not self.base and type(inner.env) is not PassiveEnvChecker:  # which looks for float32
            inner = inner.env
        inner.env = Unrounded(inner.env, self._observe)
        super().sharpen()

    def state(self) -> Array:
        """Returns the state."""
        return np.array(self.base.state, np.float64)

    def restore(self, state: Array) -> None:
        """Sets the state."""
        self.base.state = state.copy()
        if hasattr(self.base, "steps_beyond_terminated"):
            self.base.steps_beyond_terminated = None

    def deviated(self, state: Array, deviation: Array) -> Array:
        """Returns the state that lies a deviation away from another one."""
        return state + deviation

    def deviation(self, of: Array, origin: Array) -> Array:
        """Returns the deviation by which one state lies away from another one."""
        return of - origin

    def throw(self, random: np.random.Generator) -> None:
        """Sets the body into any state."""
        self.restore(random.uniform(-self._ranges, self._ranges))


class Unrounded(gym.Wrapper[Any, Any, Any, Any]):
    """Shows what is observed of a body whose state is a vector as it is before it is rounded to float32."""

    def __init__(self, env: gym.Env[Any, Any], observe: Callable[[Array], Array]) -> None:
        super().__init__(env)
        self._observe = observe

    def _seen(self) -> Array:
        return self._observe(np.asarray(self.unwrapped.state, np.float64))  # type: ignore[attr-defined]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Resets the body."""
        _, info = self.env.reset(seed=seed, options=options)
        return self._seen(), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Steps the body."""
        _, reward, ended, cut, info = self.env.step(action)
        return self._seen(), reward, ended, cut, info


def classic_body(env: gym.Env[Any, Any]) -> StateBody:
    """Returns a body of Gymnasium's classic control."""
    name = type(env.unwrapped).__name__
    ranges = THROWN[name]
    names = [f"state {k}" for k in range(len(ranges))]
    if name in ("CartPoleEnv", "MountainCarEnv"):
        names = list(observation_names(env.unwrapped))
    return StateBody(env, names, len(ranges) // 2, ranges, SINES[name])


def body_of(env: gym.Env[Any, Any], also: tuple[type, ...] = ()) -> BodyState:
    """Returns the body in an environment, and refuses an environment whose state cannot be set.

    :param env: the environment
    :param also: wrappers that may be around it, beside those without a memory
    """
    base: Any = env.unwrapped
    check_wrappers(env, (*PLAIN, *also))
    if not isinstance(env.observation_space, gym.spaces.Box) or len(env.observation_space.shape) != 1:
        raise ValueError(
            f"a body shows observations that are vectors, and these are {env.observation_space}: flatten them"
        )
    if all(hasattr(base, name) for name in ("model", "data", "set_state", "frame_skip")):
        body: BodyState = MujocoBody(env)
    elif type(base).__name__ in SINES and type(base).__module__.startswith("gymnasium.envs.classic_control"):
        body = classic_body(env)
    elif isinstance(base, EquationsEnv):
        own = base.body  # its numbers are in the order of the equations, so any can be a position
        body = StateBody(env, own.names, len(own.names), own.anywhere, own.observed)
    else:
        raise ValueError(
            f"the state of {type(base).__name__} cannot be set, only those of bodies of MuJoCo (Gymnasium's MujocoEnv, "
            f"also your own), of {', '.join(name.removesuffix('Env') for name in SINES)} and of equations"
        )
    return body


def check_wrappers(env: gym.Env[Any, Any], allowed: tuple[type, ...]) -> None:
    """Refuses wrappers that remember something, or draw at random.

    A disturbance of strength zero, which only tells the agent so, does neither.
    """
    for wrapper in wrappers_of(env):
        is_still = type(wrapper) in TELLING and wrapper.is_still
        if type(wrapper) not in allowed and not is_still:
            raise ValueError(
                f"the wrapper {type(wrapper).__name__} has a memory or draws at random, so the body's state is not the "
                "whole state: use the environment without it (--env)"
            )


def check_repeats(body: BodyState) -> None:
    """Refuses a body that does not repeat its steps from a state that is set again."""
    state, _ = body.reset(seed=0)
    space = body.env.action_space
    space.seed(0)
    actions = [np.atleast_1d(np.asarray(space.sample(), np.float64)) for _ in range(CHECKED)]
    first: list[Moved] = []
    for action in actions:
        first.append(body.step(action))
        if first[-1].ended:
            break
    body.restore(state)
    for one, action in zip(first, actions, strict=False):
        other = body.step(action)
        if not (np.array_equal(one.state, other.state) and np.array_equal(one.observation, other.observation)):
            raise ValueError(
                f"{type(body.base).__name__} does not repeat its steps when its state is set back: it keeps something "
                "beside MuJoCo's positions and velocities, or draws at random in a step"
            )
