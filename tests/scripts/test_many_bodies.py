"""The script that teaches a circuit many bodies: what it probes, and how."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mujoco")

from ncp_control.rl import load_policy
from ncp_control.rl.recipes.env_making import make_env
from scripts.many_bodies import ENV, FACTORS, Arguments, explained, lived

CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"


def test_a_probe_explains_what_the_neurons_hold_and_nothing_else() -> None:
    random = np.random.default_rng(0)
    factors = random.normal(size=(400, 2))
    neurons = np.column_stack([3 * factors[:, 0] + 1, random.normal(size=(400, 5))])
    held, other = explained(neurons, factors)
    assert held > 0.99
    assert other < 0.1


def test_the_means_of_an_episode_are_those_of_the_body_that_was_drawn() -> None:
    agent = load_policy(CHECKPOINTS / "halfcheetah-positions.safetensors")
    make = partial(make_env, ENV, [{"ChangedBody": FACTORS}])
    seen, neurons, factors = lived(agent, make, Arguments(probed=16, within=(0, 1)))
    starts = [make().reset(seed=2000 + k) for k in range(16)]
    np.testing.assert_allclose(seen, [observation for observation, _ in starts])
    np.testing.assert_allclose(factors, np.log([info["body_factors"] for _, info in starts]))
    assert neurons.shape == (16, 64)
    assert neurons.std(axis=0).max() > 0
