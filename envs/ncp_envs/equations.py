"""Bodies that are a few equations, written so that floats, tensors and intervals can go through them alike.

| id | body | seen | what a controller has to show |
|---|---|---|---|
| `ncp/SinglePendulum-v0` | a pendulum on a motor | the angle | upright within 1 rad after half a second |
| `ncp/DoublePendulum-v0` | two links, a motor each | both angles | all within [-1, 1.7] for a second |
| `ncp/TORA-v0` | a cart on a spring, moved by a turning weight | place, angle | all within [-2, 2] for 20 s |
| `ncp/BalancedCart-v0` | a cart with a pole | place, angle | at rest after 8 s |
| `ncp/WeakPendulum-v0` | Gymnasium's pendulum, near upright | the angle | upright within .1 rad after 2 s |

The equations, the starts and the periods of the first four are those of the category AINNCS of the ARCH competition,
where controllers see velocities, too; here they do not. The motor of the last one can hold it within .41 rad only. The
equations are solved by Runge and Kutta's method, with an error below 1e-7 in a period.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Numbers = tuple[Any, ...]
ANY = float("inf")
SOLVER_STEP = 0.002  # seconds, at most
FAR = 4.0  # of a body's scales: how far from zero it is thrown


@dataclass(frozen=True)
class Claim:
    """Where a body has to be for a while.

    :param begin: from this time on, in seconds
    :param end: until this time
    :param low: the least value of each number of the state
    :param high: the greatest value
    """

    begin: float
    end: float
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class Equations:
    """A body: how its state moves while an action is held, what a controller sees of it, and what is claimed of it.

    :param env: the id of its environment
    :param names: the numbers of its state
    :param slope: their derivatives by time, for a state, an action, and a module with `sin` and `cos`
    :param seen: the numbers that a controller sees
    :param period: seconds for which an action is held
    :param strongest: the greatest magnitude of an action
    :param actions: the number of actions
    :param low: the least value of each number at the start
    :param high: the greatest one
    :param claims: what has to be shown
    :param rest: where the body is to come to rest
    :param scales: in which unit each number is large or small
    """

    env: str
    names: tuple[str, ...]
    slope: Callable[[Numbers, Numbers, Any], Numbers]
    seen: tuple[int, ...]
    period: float
    strongest: float
    actions: int
    low: tuple[float, ...]
    high: tuple[float, ...]
    claims: tuple[Claim, ...]
    rest: tuple[float, ...]
    scales: tuple[float, ...]

    @property
    def horizon(self) -> float:
        """The time at which the last claim ends, in seconds."""
        return max(claim.end for claim in self.claims)

    @property
    def anywhere(self) -> Array:
        """How far from zero each number is at most where a body that is thrown begins."""
        return FAR * np.array(self.scales)

    def observed(self, state: Array) -> Array:
        """Returns what a controller sees of a state."""
        return state[list(self.seen)]

    def errors(self, share: float) -> Array:
        """Returns the greatest error of each sensor, if it is this share of its number's scale."""
        return share * self.observed(np.array(self.scales))

    @property
    def observation_space(self) -> gym.spaces.Box:
        """What a controller sees."""
        return gym.spaces.Box(-np.inf, np.inf, (len(self.seen),), np.float32)

    @property
    def action_space(self) -> gym.spaces.Box:
        """What it may do."""
        return gym.spaces.Box(-self.strongest, self.strongest, (self.actions,), np.float32)

    def moved(self, state: Numbers, action: Numbers, maths: Any = np, step: float = SOLVER_STEP) -> Numbers:
        """Returns the state after a period in which an action is held.

        :param state: arrays or tensors of one shape
        :param action: the same
        :param maths: `numpy` or `torch`
        :param step: the longest step of the solver, in seconds
        """
        count = max(1, round(self.period / step))
        h = self.period / count

        def ahead(slope: Numbers, by: float) -> Numbers:
            return tuple(y + by * s for y, s in zip(state, slope, strict=True))

        for _ in range(count):
            first = self.slope(state, action, maths)
            second = self.slope(ahead(first, h / 2), action, maths)
            third = self.slope(ahead(second, h / 2), action, maths)
            last = self.slope(ahead(third, h), action, maths)
            every = zip(first, second, third, last, strict=True)
            state = ahead(tuple((a + 2 * b + 2 * c + d) / 6 for a, b, c, d in every), h)
        return state


def single_pendulum(state: Numbers, action: Numbers, maths: Any) -> Numbers:
    """A mass of 0.5 on a link of 0.5 with gravity 1; the angle is that from upright."""
    angle, speed = state
    return speed, 2 * maths.sin(angle) + 8 * action[0]


def double_pendulum(state: Numbers, action: Numbers, maths: Any) -> Numbers:
    """Two such links, one on the other; both angles are those from upright, and each has its torque."""
    one, two, speed_one, speed_two = state
    apart = two - one
    cosine, sine = maths.cos(apart), maths.sin(apart)
    pull_one = 8 * action[0] + speed_two * speed_two * sine + 4 * maths.sin(one)
    pull_two = 8 * action[1] - speed_one * speed_one * sine + 2 * maths.sin(two)
    determinant = 2 - cosine * cosine
    return (
        speed_one,
        speed_two,
        (pull_one - cosine * pull_two) / determinant,
        (2 * pull_two - cosine * pull_one) / determinant,
    )


def tora(state: Numbers, action: Numbers, maths: Any) -> Numbers:
    """A cart on a spring, with a weight that turns on it."""
    place, speed, angle, turn = state
    return speed, 0.1 * maths.sin(angle) - place, turn, action[0] + 0 * angle


def balanced_cart(state: Numbers, action: Numbers, maths: Any) -> Numbers:
    """A cart whose acceleration is twice the action, with a pole on a hinge with friction."""
    _, speed, angle, turn = state
    pull = 9.8 * maths.sin(angle) - 2 * action[0] * maths.cos(angle)
    return speed, 2 * action[0] + 0 * angle, turn, (0.0328 * pull - 0.0021 * turn) / 0.0105


def weak_pendulum(state: Numbers, action: Numbers, maths: Any) -> Numbers:
    """A rod of 1 kg and 1 m with gravity 10, as in Gymnasium's Pendulum; the angle is that from upright."""
    angle, speed = state
    return speed, 15 * maths.sin(angle) + 3 * action[0]


BODIES = {
    "single-pendulum": Equations(
        "ncp/SinglePendulum-v0", ("angle", "speed"), single_pendulum, seen=(0,), period=0.05, strongest=2.0, actions=1,
        low=(1.0, 0.0), high=(1.175, 0.2), claims=(Claim(0.5, 1.0, (0.0, -ANY), (1.0, ANY)),), rest=(0.4, 0.0),
        scales=(1.0, 1.0),
    ),
    "double-pendulum": Equations(
        "ncp/DoublePendulum-v0", ("angle1", "angle2", "speed1", "speed2"), double_pendulum, seen=(0, 1), period=0.05,
        strongest=5.0, actions=2, low=(1.0,) * 4, high=(1.3,) * 4,
        claims=(Claim(0.0, 1.0, (-1.0,) * 4, (1.7,) * 4),), rest=(1.2, 1.2, 0.0, 0.0), scales=(1.0,) * 4,
    ),
    "tora": Equations(
        "ncp/TORA-v0", ("place", "speed", "angle", "turn"), tora, seen=(0, 2), period=1.0, strongest=2.0, actions=1,
        low=(0.6, -0.7, -0.4, 0.5), high=(0.7, -0.6, -0.3, 0.6), claims=(Claim(0.0, 20.0, (-2.0,) * 4, (2.0,) * 4),),
        rest=(0.0,) * 4, scales=(1.0,) * 4,
    ),
    "balanced-cart": Equations(
        "ncp/BalancedCart-v0", ("place", "speed", "angle", "turn"), balanced_cart, seen=(0, 2), period=0.02,
        strongest=3.0, actions=1, low=(-0.1, -0.05, -0.1, -0.05), high=(0.1, 0.05, 0.1, 0.05),
        claims=(Claim(8.0, 10.0, (-0.05, -ANY, -0.05, -0.1), (0.05, ANY, 0.05, 0.1)),), rest=(0.0,) * 4,
        scales=(0.1,) * 4,
    ),
    "weak-pendulum": Equations(
        "ncp/WeakPendulum-v0", ("angle", "speed"), weak_pendulum, seen=(0,), period=0.05, strongest=2.0, actions=1,
        low=(-0.15, -0.2), high=(0.15, 0.2), claims=(Claim(2.0, 4.0, (-0.1, -ANY), (0.1, ANY)),), rest=(0.0, 0.0),
        scales=(0.3, 1.0),
    ),
}  # fmt: skip


class EquationsEnv(gym.Env[Any, Any]):
    """A body that is a few equations. An episode begins anywhere in the body's starts.

    The reward falls with the distance from rest: it is minus the mean square of the distance, each number in its scale.

    :param body: a key of `BODIES`
    """

    def __init__(self, body: str) -> None:
        self.body = BODIES[body]
        self.observation_space, self.action_space = self.body.observation_space, self.body.action_space
        self.state = np.zeros(len(self.body.names))

    @property
    def observation_names(self) -> list[str]:
        """The names of what is seen."""
        return [self.body.names[number] for number in self.body.seen]

    @property
    def dt(self) -> float:
        """Seconds between two steps."""
        return self.body.period

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Draws a start."""
        super().reset(seed=seed)
        self.state = self.np_random.uniform(self.body.low, self.body.high)
        return self._see(), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Holds an action for a period."""
        strongest = self.body.strongest
        held = np.clip(np.asarray(action, np.float64), -strongest, strongest)
        self.state = np.array(self.body.moved(tuple(self.state), tuple(held)))
        apart = (self.state - self.body.rest) / self.body.scales
        return self._see(), -float(np.mean(apart**2)), False, False, {}

    def _see(self) -> Array:
        return self.body.observed(self.state).astype(np.float32)


def register_equations() -> None:
    """Registers the bodies; an episode lasts as long as the last claim."""
    for name, body in BODIES.items():
        if body.env not in gym.registry:
            gym.register(
                body.env, entry_point="ncp_envs.equations:EquationsEnv", kwargs={"body": name},
                max_episode_steps=round(body.horizon / body.period),
            )  # fmt: skip
