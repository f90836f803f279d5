"""The wrappers of an environment as a laboratory builds them anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

import ncp_envs
from ncp_control.base.packed import packed
from ncp_control.data.finite import CheckFinite

Layer = dict[str, Any]

# `gymnasium.make` and `make_env` add these; the disturbances of a laboratory come around them.
MADE = (OrderEnforcing, PassiveEnvChecker, TimeLimit, CheckFinite)


def layers_data(env: Any) -> tuple[list[Layer], int]:
    """Returns the wrappers of an environment, the innermost first, and how many of them disturbances come around.

    Disturbances come between the environment as it was made and the wrappers of the training, as those of
    `ncp-control record` do.
    """
    wrappers = []
    while isinstance(env, gym.Wrapper):
        wrappers.append(env)
        env = env.env
    found: list[Layer] = []
    below = 0
    for wrapper in reversed(wrappers):
        kind = type(wrapper)
        if kind not in KINDS:
            raise ValueError(
                f"a laboratory cannot build the wrapper {kind.__name__}: it knows "
                f"{', '.join(sorted(one.__name__ for one in KINDS))}"
            )
        described = KINDS[kind](wrapper)
        if described is not None:
            found.append(described)
        if kind in MADE:
            below = len(found)
    return found, below


def _nothing(wrapper: Any) -> None:
    """A wrapper that changes nothing in a right use of the environment."""


def _limit(wrapper: Any) -> Layer:
    return {"kind": "limit", "steps": int(wrapper._max_episode_steps)}


def _finite(wrapper: Any) -> Layer:
    return {"kind": "finite"}


def _keep(wrapper: Any) -> Layer:
    return {"kind": "keep", "indices": packed(wrapper._kept)}


def _random(wrapper: Any) -> Layer:
    return {"kind": "random", "probability": wrapper._rule._probability}


def _noise(wrapper: Any) -> Layer:
    return {"kind": "noise", "std": packed(wrapper._rule._std)}


def _dropout(wrapper: Any) -> Layer:
    rule = wrapper._rule
    fill = float(np.ravel(rule._blank)[0]) if rule._blank.size else 0.0
    return {
        "kind": "dropout",
        "probability": rule._probability,
        "whole": bool(rule._whole),
        "holds": bool(rule._holds),
        "fill": fill,
    }


def _delay(wrapper: Any) -> Layer:
    return {"kind": "delay", "steps": wrapper._rule._steps, "first": packed(np.asarray(wrapper._rule._first, float))}


def _previous(wrapper: Any) -> Layer:
    return {"kind": "previous", "reward": bool(wrapper._reward)}


def _irregular(wrapper: Any) -> Layer:
    return {
        "kind": "irregular",
        "low": wrapper._low,
        "high": wrapper._high,
        "nominal": wrapper._nominal,
        "apart": wrapper._observes == "apart",
        "observed": wrapper._observes is True,
    }


KINDS: dict[type, Callable[[Any], Layer | None]] = {
    OrderEnforcing: _nothing,
    PassiveEnvChecker: _nothing,
    TimeLimit: _limit,
    CheckFinite: _finite,
    ncp_envs.KeepObservations: _keep,
    ncp_envs.RandomActionOverwrite: _random,
    ncp_envs.ObservationNoise: _noise,
    ncp_envs.ObservationDropout: _dropout,
    ncp_envs.ActionDelay: _delay,
    ncp_envs.PreviousAction: _previous,
    ncp_envs.IrregularTime: _irregular,
}
