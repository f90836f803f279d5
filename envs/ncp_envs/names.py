"""Names for the entries of an observation, for figures and tables."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import gymnasium as gym
import numpy as np

from ncp_envs.joints import contact_names, position_names, velocity_names
from ncp_envs.layout import parts_of

_JOINTS = ("back thigh", "back shin", "back foot", "front thigh", "front shin", "front foot")
_HALF_CHEETAH = (
    "front tip z",
    "torso angle",
    *(f"{joint} angle" for joint in _JOINTS),
    "front tip x velocity",
    "front tip z velocity",
    "torso angular velocity",
    *(f"{joint} angular velocity" for joint in _JOINTS),
)
_CART_POLE = ("cart position", "cart velocity", "pole angle", "pole angular velocity")
_MOUNTAIN_CAR = ("position", "velocity")
_DOUBLE_PENDULUM = (
    "cart position",
    *(f"{part} of the {pole} angle" for part in ("sine", "cosine") for pole in ("first pole", "second pole")),
    "cart velocity",
    *(f"{pole} angular velocity" for pole in ("first pole", "second pole")),
    "constraint force on the cart",
)

# Gymnasium's classes by name, so that no simulator is imported for a name. A class may have several sizes.
_KNOWN: dict[str, tuple[tuple[str, ...], ...]] = {
    "HalfCheetahEnv": (_HALF_CHEETAH, ("front tip x", *_HALF_CHEETAH)),
    "CartPoleEnv": (_CART_POLE,),
    "CartPoleVectorEnv": (_CART_POLE,),
    "InvertedPendulumEnv": (("cart position", "pole angle", "cart velocity", "pole angular velocity"),),
    "InvertedDoublePendulumEnv": (_DOUBLE_PENDULUM,),
    "PendulumEnv": (("cosine of the angle", "sine of the angle", "angular velocity"),),
    "Continuous_MountainCarEnv": (_MOUNTAIN_CAR,),
    "MountainCarEnv": (_MOUNTAIN_CAR,),
}


def observation_names(env: Any) -> list[str]:
    """Returns a name for each entry of an observation of `env`, or of one environment of a vector environment.

    An attribute `observation_names` of an environment or a wrapper comes first; the wrappers of this package that
    remove or add entries have one. Then comes a dictionary `name` of the observation space.
    Any other wrapper is assumed to keep the entries if it keeps their number. The
    entries of HalfCheetah, the inverted pendulums, CartPole, Pendulum and MountainCar are known. Those of Gymnasium's
    other MuJoCo environments that say which entries are positions and velocities, such as Hopper, Walker2d, Ant and
    Swimmer, have names from the model's own joints. Otherwise the names are "observation 0", "observation 1" and so on.

    :param env: an environment or a vector environment of Gymnasium, or a `VecEnv` of Stable-Baselines3, wrapped or not.
        For an `AsyncVectorEnv`, whose environments are in other processes, one more environment is made and closed

    >>> import gymnasium as gym
    >>> observation_names(gym.make("ncp_envs:ncp/CartPoleNoVel-v0"))
    ['cart position', 'pole angle']
    """
    own = getattr(env, "observation_names", None)
    if own is not None:
        return list(own)
    size = _size(env)
    names = _names_below(env) or _names_by_space(env, size) or _names_by_class(env, size) or _names_by_model(env)
    return names if len(names) == size else [f"observation {index}" for index in range(size)]


def named_entries(space: Any, count: int) -> list[str]:
    """Returns names from a space with a dictionary `name`, such as {"fixation": 0, "stimulus": [1, 2]}.

    They are "fixation", "stimulus 0" and "stimulus 1". Without such a dictionary, or if it does not name everything
    once, the list is empty.

    :param space: a space, whose `name` maps a name to the number of an entry (or of a choice) or to several numbers
    :param count: how many entries or choices there are
    """
    given, found = getattr(space, "name", None), list[tuple[Any, str]]()
    if not isinstance(given, dict):
        return []
    for name, numbers in given.items():
        several = np.ravel(numbers).tolist()
        found += [(number, f"{name} {k}" if len(several) > 1 else str(name)) for k, number in enumerate(several)]
    named = dict(found)
    return [named[k] for k in range(count)] if len(found) == count and named.keys() == set(range(count)) else []


def may_be_half_cheetah(names: Collection[str]) -> bool:
    """Says whether 17 observations with these names may be those of a half-cheetah.

    A Walker2d has as many observations and actions, and names of its own.
    """
    return "left thigh angle" not in names


def _size(env: Any) -> int:
    is_vector = isinstance(env, gym.vector.VectorEnv)
    return int(gym.spaces.flatdim(env.single_observation_space if is_vector else env.observation_space))


def _names_below(env: Any) -> list[str]:
    """Returns the names of the inner environment, or an empty list if there is none."""
    if isinstance(env, gym.Wrapper | gym.vector.VectorWrapper):
        return observation_names(env.env)
    if isinstance(env, gym.vector.AsyncVectorEnv):
        one = env.env_fns[0]()
        try:
            return observation_names(one)
        finally:
            one.close()
    if isinstance(env, gym.Env):
        return []
    # The attributes `venv`, `envs` and `has_attr` lead to the inner environments of Gymnasium's SyncVectorEnv and of
    # Stable-Baselines3, which need not be installed.
    if (inside := getattr(env, "venv", None)) is not None:
        return observation_names(inside)
    if environments := getattr(env, "envs", None):
        return observation_names(environments[0])
    if (has := getattr(env, "has_attr", None)) is not None and has("observation_names"):
        return list(env.get_attr("observation_names", indices=[0])[0])
    return []


def _names_by_space(env: Any, size: int) -> list[str]:
    return named_entries(getattr(env, "observation_space", None), size)


def _names_by_class(env: Any, size: int) -> list[str]:
    for kind in type(env).__mro__:
        if kind.__module__.startswith("gymnasium.envs."):
            for names in _KNOWN.get(kind.__name__, ()):
                if len(names) == size:
                    return list(names)
    return []


def _names_by_model(env: Any) -> list[str]:
    """Returns names for the entries of a MuJoCo environment from its model, or an empty list if it has none."""
    sizes = parts_of(env)
    model: Any = getattr(env, "model", None)
    if not sizes or not hasattr(model, "jnt_type"):
        return []
    found: list[str] = []
    for part, size in sizes.items():
        names: list[str] = []
        if part == "qpos":
            # The positions that are left out, such as x and y of the body, are the first ones.
            names = position_names(model)[model.nq - size :]
        elif part == "qvel":
            names = velocity_names(model)
        elif part == "cfrc_ext":
            names = contact_names(model)
        found += names if len(names) == size else [f"{part} {entry}" for entry in range(size)]
    return found
