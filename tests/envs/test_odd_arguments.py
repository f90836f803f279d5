"""Wrappers refuse arguments of the wrong kind with a sentence that names the wrapper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest

import ncp_envs


@pytest.mark.parametrize(
    ("wrap", "sentence"),
    [
        (lambda env: ncp_envs.ObservationNoise(env, "abc"), "ObservationNoise needs numbers for std, and got 'abc'"),
        (lambda env: ncp_envs.ObservationNoise(env, {}), "ObservationNoise needs numbers for std"),
        (lambda env: ncp_envs.ObservationNoise(env, 0.1, seed="x"), "seed of a wrapper is a whole number .* not 'x'"),
        (lambda env: ncp_envs.ObservationDropout(env, "abc"), "ObservationDropout needs a probability .* got 'abc'"),
        (lambda env: ncp_envs.ObservationDropout(env, None), "ObservationDropout needs a probability .* got None"),
        (lambda env: ncp_envs.ObservationDropout(env, 0.1, fill=None), "ObservationDropout needs a finite number"),
        (lambda env: ncp_envs.RandomActionOverwrite(env, "x"), "RandomActionOverwrite needs a probability"),
        (lambda env: ncp_envs.IrregularTime(env, 2, nominal="x"), "IrregularTime needs a nominal number .* got 'x'"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_refused(wrap: Callable[[Any], Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        wrap(gym.make("Pendulum-v1"))
