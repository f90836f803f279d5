"""Wrappers that change a MuJoCo body: its mass, motors, friction and limbs, and forces that push it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from ncp_envs.arguments import check_box, check_count, is_finite, with_more
from ncp_envs.body import ABOVE, Body
from ncp_envs.names import observation_names
from ncp_envs.streams import RandomStream, Stream, count_layers

Factor = float | Sequence[float]
Info = dict[str, Any]
Arrays = dict[str, NDArray[Any]]
GRAVITY = 9.81  # m/s^2: a push is measured in weights, also where a model has no gravity
FACTORS = ("mass", "gear", "friction", "limbs")


class ChangedBody(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Makes a MuJoCo body heavier, its motors stronger, its contacts rougher or its limbs longer, or the reverse.

    Each factor is a number, or a range from which every episode draws its own. Halving and doubling are equally likely
    in a range from .5 to 2, because the logarithm is drawn uniformly. `info["body_factors"]` of a reset holds the
    factors of mass, gear, friction and limbs. They are drawn from a random stream of this wrapper's own.
    `reset(seed=s)` restarts the stream from s; without a seed the stream continues.

    :param env: an environment of a MuJoCo body
    :param mass: the factor of all masses and moments of inertia, or its range (low, high)
    :param gear: the factor of the torque or force that an action gives, or its range
    :param friction: the factor of the friction of all contacts, or its range
    :param limbs: the factor of the lengths of all limbs, whose masses stay, or its range. A limb is whatever hangs on
        the trunk
    :param told: also show the agent the logarithms of the four factors, after the environment's own entries
    :param seed: the seed of the stream before the first `reset(seed=...)`

    >>> import gymnasium as gym
    >>> env = ChangedBody(gym.make("Hopper-v5"), mass=(0.5, 2.0), gear=0.8)
    >>> [round(float(factor), 3) for factor in env.reset(seed=0)[1]["body_factors"]]
    [0.599, 0.8, 1.0, 1.0]
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        mass: Factor = 1.0,
        gear: Factor = 1.0,
        friction: Factor = 1.0,
        limbs: Factor = 1.0,
        told: bool = False,
        seed: int | None = None,
    ) -> None:
        given = dict(zip(FACTORS, (mass, gear, friction, limbs), strict=True))
        ranges = {name: _checked_range(name, factor) for name, factor in given.items()}
        recorded: dict[str, Any] = {name: list(ends) for name, ends in ranges.items()}
        RecordConstructorArgs.__init__(self, **recorded, told=told, seed=seed)
        super().__init__(env)
        self._body = _body_of("ChangedBody", env)
        self._logs = np.log(list(ranges.values()))
        self._plain = _plain_parts(self._body.model)
        self._told = told
        if told:
            box = check_box("ChangedBody", env.observation_space, vector=True, floating=True)
            self.observation_space = with_more(box, [-np.inf] * len(FACTORS), [np.inf] * len(FACTORS))
        self._random = RandomStream(Stream.CHANGED_BODY, count_layers(env, ChangedBody), seed)

    @property
    def is_still(self) -> bool:
        """Whether the body is the same one in all episodes."""
        return not np.ptp(self._logs, axis=1).any()

    @property
    def observation_names(self) -> list[str]:
        """The names of the environment's entries, followed by those of the factors if they are told."""
        return [*observation_names(self.env), *[f"log {name} factor" for name in FACTORS if self._told]]

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Changes the body and resets the environment."""
        import mujoco

        if seed is not None:
            self._random.restart(seed)
        factors = np.exp(self._random.generator.uniform(*self._logs.T))
        _change(self._body.model, self._plain, *factors)
        mujoco.mj_setConst(self._body.model, self._body.data)
        observation, info = self.env.reset(seed=seed, options=options)
        if self._told:
            # Of the body that moves: where a teacher's wrappers look at its student's body, this one changes another.
            self._seen = np.log(_factors_of(self.unwrapped.model, self._plain))  # type: ignore[attr-defined]
        return self._shown(observation), {"body_factors": factors} | info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        """Steps the environment."""
        observation, *rest = self.env.step(action)
        return self._shown(observation), *rest

    def _shown(self, observation: Any) -> Any:
        """Returns what the agent sees."""
        return np.append(observation, self._seen.astype(observation.dtype)) if self._told else observation


def _plain_parts(model: Any) -> Arrays:
    """Returns copies of the arrays of a model that `_change` changes."""
    keys = ("body_mass", "body_inertia", "actuator_gear", "geom_friction", "body_pos", "body_ipos",
            "geom_pos", "geom_size", "geom_rbound", "geom_aabb")  # fmt: skip
    return {key: np.array(getattr(model, key)) for key in keys}


def _limbs_of(model: Any) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Returns the limbs, those of them that hang on another limb, and the limbs' geoms."""
    parents = model.body_parentid
    limb = parents > 0
    return np.flatnonzero(limb), np.flatnonzero(limb & limb[parents]), np.flatnonzero(limb[model.geom_bodyid])


def _change(model: Any, plain: Arrays, mass: float, gear: float, friction: float, limbs: float) -> None:
    """Changes a model by factors of its plain parts."""
    model.body_mass[:] = mass * plain["body_mass"]
    model.body_inertia[:] = mass * plain["body_inertia"]
    model.actuator_gear[:] = gear * plain["actuator_gear"]
    model.geom_friction[:] = friction * plain["geom_friction"]
    bodies, hanging, geoms = _limbs_of(model)
    model.body_pos[hanging] = limbs * plain["body_pos"][hanging]
    model.body_ipos[bodies] = limbs * plain["body_ipos"][bodies]
    model.body_inertia[bodies] *= limbs**2
    model.geom_size[geoms, 1] = limbs * plain["geom_size"][geoms, 1]  # half the length of a capsule or a cylinder
    for key in ("geom_pos", "geom_rbound", "geom_aabb"):
        getattr(model, key)[geoms] = limbs * plain[key][geoms]


def _factors_of(model: Any, plain: Arrays) -> NDArray[np.float64]:
    """Returns the factors by which a model was changed, each from the entry that it changes most."""
    bodies = _limbs_of(model)[0]
    pairs = [(getattr(model, key), plain[key]) for key in ("body_mass", "actuator_gear", "geom_friction")]
    pairs.append((model.body_ipos[bodies], plain["body_ipos"][bodies]))
    found = np.ones(len(FACTORS))
    for k, (now, before) in enumerate(pairs):
        if before.any():
            largest = np.abs(before).argmax()
            found[k] = now.flat[largest] / before.flat[largest]
    return found


class Pushes(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Pushes a MuJoCo body again and again, each time in another direction.

    In every period of `every` steps, a force acts on the body's trunk for `lasting` steps. When it begins and where to
    it points are drawn at random: in the plane in which a flat body moves, and for any other body in the horizontal
    plane. `info["push"]` is the force in newtons, zero between two pushes. `reset(seed=s)` restarts the wrapper's own
    random stream from s; without a seed the stream continues.

    :param env: an environment of a MuJoCo body
    :param strength: the force, in weights of the whole body
    :param every: the steps of a period; by default those of one second
    :param lasting: the steps for which the force acts
    :param seed: the seed of the stream before the first `reset(seed=...)`

    >>> import gymnasium as gym
    >>> env = Pushes(gym.make("HalfCheetah-v5"), strength=1.0)
    >>> _ = env.reset(seed=0)
    >>> forces = [env.step(env.action_space.sample())[-1]["push"] for _ in range(20)]
    >>> sum(bool(force.any()) for force in forces), round(float(np.linalg.norm(forces, axis=1).max()), 1)
    (4, 137.3)
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        strength: float,
        every: int | None = None,
        lasting: int = 4,
        seed: int | None = None,
    ) -> None:
        RecordConstructorArgs.__init__(self, strength=strength, every=every, lasting=lasting, seed=seed)
        super().__init__(env)
        if not is_finite(strength) or strength < 0:
            raise ValueError(f"Pushes needs a strength that is finite and not negative, and got {strength!r}")
        self._body = _body_of("Pushes", env)
        self._lasting = check_count("Pushes", "lasting", lasting, least=1)
        each_second = max(self._lasting, round(1 / self._body.dt))
        self._every = each_second if every is None else check_count("Pushes", "every", every, least=self._lasting)
        self._strength = float(strength)
        shape = Body(self._body.model)
        self._axes = [0, 2] if shape.is_flat and shape.seen_from != ABOVE else [0, 1]
        self._random = RandomStream(Stream.PUSHES, count_layers(env, Pushes), seed)
        self._begin()

    def _begin(self) -> None:
        self._steps, self._first, self._force = 0, 0, np.zeros(3)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Resets the environment, and begins the first period."""
        if seed is not None:
            self._random.restart(seed)
        self._begin()
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        """Steps the environment while the force acts."""
        notes = self.push()
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, notes | info

    def push(self) -> Info:
        """Applies the force of the next step, and returns what the info says of it."""
        place = self._steps % self._every
        if place == 0:
            self._draw()
        force = self._force if self._first <= place < self._first + self._lasting else np.zeros(3)
        self._body.data.xfrc_applied[1, :3] = force  # body 0 is the world, and body 1 the trunk
        self._steps += 1
        return {"push": force.copy()}

    def _draw(self) -> None:
        """Draws the push of a period."""
        random = self._random.generator
        self._first = int(random.integers(self._every - self._lasting + 1))
        angle = random.uniform(0, 2 * np.pi)
        weight = float(self._body.model.body_mass.sum()) * GRAVITY
        self._force = np.zeros(3)
        self._force[self._axes] = self._strength * weight * np.array([np.cos(angle), np.sin(angle)])


def _body_of(wrapper: str, env: gym.Env[Any, Any]) -> Any:
    """Returns the environment of a MuJoCo body itself, and refuses any other."""
    body: Any = env.unwrapped
    if not all(hasattr(body, part) for part in ("model", "data", "dt")) or not hasattr(body.model, "body_inertia"):
        raise TypeError(f"{wrapper} needs an environment of a MuJoCo body, and got {type(body).__name__}")
    return body


def _checked_range(name: str, factor: Any) -> tuple[float, float]:
    """Returns the ends of a factor's range."""
    try:
        ends: NDArray[Any] = np.broadcast_to(np.asarray(factor, dtype=np.float64), (2,))
    except (TypeError, ValueError):
        ends = np.full(2, np.nan)
    if not (np.isfinite(ends).all() and 0 < ends[0] <= ends[1]):
        raise ValueError(f"ChangedBody needs a factor above 0 for {name}, or a range (low, high), and got {factor!r}")
    return float(ends[0]), float(ends[1])
