"""Every space of observations and actions that Stable-Baselines3 knows, with every algorithm."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.torch_layers import NatureCNN

from helpers.odd_environments import ACTIONS as ODD_ACTIONS
from helpers.odd_environments import OBSERVATIONS as ODD_OBSERVATIONS
from helpers.stock_models import OFF_POLICY, ON_POLICY, RECURRENT, STOCK, VECTOR, Anything, build, copies, of_recurrent

OBSERVATIONS: dict[str, spaces.Space[Any]] = {
    "float32": VECTOR,
    "float64": spaces.Box(-1.0, 1.0, (2,), np.float64),
    "uint8": spaces.Box(0, 255, (3,), np.uint8),
    "matrix": spaces.Box(-1.0, 1.0, (2, 3), np.float32),
    "Discrete": spaces.Discrete(4),
    "Discrete from 5": spaces.Discrete(3, start=5),
    "Discrete from -2": spaces.Discrete(3, start=-2),
    "MultiDiscrete": spaces.MultiDiscrete([2, 3]),
    "MultiDiscrete from 1 and 4": spaces.MultiDiscrete([2, 3], start=[1, 4]),
    "MultiBinary": spaces.MultiBinary(3),
    "MultiBinary matrix": spaces.MultiBinary((2, 2)),
    "Dict": spaces.Dict(a=VECTOR, b=spaces.Discrete(3, start=5), c=spaces.Box(-1.0, 1.0, (1,), np.float64)),
}
NUMBERS = {
    "float32": VECTOR,
    "float64": spaces.Box(-1.0, 1.0, (2,), np.float64),
    "uneven": spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([0.5, 3.0], np.float32)),
    "matrix": spaces.Box(-1.0, 1.0, (2, 2), np.float32),
}
CHOICES = {
    "Discrete": spaces.Discrete(4),
    "Discrete from 5": spaces.Discrete(3, start=5),
    "Discrete from -2": spaces.Discrete(3, start=-2),
    "MultiDiscrete": spaces.MultiDiscrete([2, 3]),
    "MultiDiscrete from 1 and 4": spaces.MultiDiscrete([2, 3], start=[1, 4]),
    "MultiBinary": spaces.MultiBinary(3),
}
SOME = [(kind, name) for kind in ON_POLICY for name in (*NUMBERS, *CHOICES)]
SOME += [(kind, name) for kind in OFF_POLICY for name in NUMBERS]
SOME += [(kind, name) for kind in STOCK for name in (["Discrete"] if kind is DQN else ["matrix"])]
SOME += [(kind, name) for kind in (PPO, A2C) for name in ("Discrete", "MultiDiscrete", "MultiBinary")]


def check_model(model: Any, make: Any) -> None:
    """Trains a model, and checks its actions for one observation, for many, and in an evaluation."""
    model.learn(32)
    env, many = make(), copies(type(model), 3, make)
    for deterministic in (False, True):
        observations, state, starts = many.reset(), None, np.ones(3, dtype=bool)
        for _ in range(3):
            actions, state = model.predict(observations, state, starts, deterministic)
            assert all(action in env.action_space for action in actions)
            if not isinstance(env.action_space, spaces.MultiBinary):  # for which Stable-Baselines3 returns floats
                assert actions.dtype == env.action_space.dtype
            observations, _, starts, _ = many.step(actions)
    evaluate_policy(model, many, 3, warn=False)


@of_recurrent
@pytest.mark.parametrize("name", OBSERVATIONS)
def test_every_observation_space_trains(name: str, kind: Any) -> None:
    make = partial(Anything, OBSERVATIONS[name])
    model = build(kind, copies(kind, 2, make))
    check_model(model, make)
    one, _ = make().reset(seed=1)
    action, _ = model.predict(one)
    assert action in model.action_space


@pytest.mark.parametrize(("kind", "name"), SOME, ids=lambda given: given if isinstance(given, str) else given.__name__)
def test_every_action_space_trains(kind: Any, name: str) -> None:
    make = partial(Anything, actions={**NUMBERS, **CHOICES}[name])
    check_model(build(kind, copies(kind, 2, make)), make)


@pytest.mark.parametrize("kind", ON_POLICY)
def test_images_train_with_an_extractor_for_images(kind: Any) -> None:
    make = partial(Anything, spaces.Box(0, 255, (36, 36, 3), np.uint8), spaces.Discrete(3))
    model = build(kind, copies(kind, 2, make), {"features_extractor_class": NatureCNN})
    model.learn(16)
    assert model.predict(make().reset()[0])[0] in model.action_space


@pytest.mark.parametrize("name", ["tuple", "text", "nested", "image", "empty", "sequence"])
@of_recurrent
def test_other_observation_spaces_are_refused_with_a_sentence(name: str, kind: Any) -> None:
    with pytest.raises((ValueError, TypeError, NotImplementedError, AssertionError)) as caught:
        build(kind, copies(kind, 1, partial(Anything, ODD_OBSERVATIONS[name])))
    assert str(caught.value)


@pytest.mark.parametrize("name", ["dict", "tuple"])
@of_recurrent
def test_other_action_spaces_are_refused_with_a_sentence(name: str, kind: Any) -> None:
    with pytest.raises((ValueError, TypeError, NotImplementedError, AssertionError), match=r"ction"):
        build(kind, copies(kind, 1, partial(Anything, actions=ODD_ACTIONS[name])))


@pytest.mark.parametrize("kind", OFF_POLICY)
def test_sac_and_td3_refuse_choices(kind: Any) -> None:
    with pytest.raises(AssertionError, match="action"):
        build(kind, copies(kind, 1, partial(Anything, actions=spaces.Discrete(3))))


@pytest.mark.parametrize("name", OBSERVATIONS)
@pytest.mark.filterwarnings("ignore:.*non-zero start:UserWarning", "ignore:.*image:UserWarning")
def test_the_environments_of_these_tests_are_sound(name: str) -> None:
    check_env(Anything(OBSERVATIONS[name]), skip_render_check=True)


@pytest.mark.parametrize("name", ["ncp/PendulumNoVel-v0", "ncp/CartPoleNoVel-v0", "ncp/MountainCarContinuousNoVel-v0"])
def test_registered_environments_pass_the_env_checker(name: str) -> None:
    check_env(gym.make(f"ncp_envs:{name}"), skip_render_check=True)


def test_every_recurrent_algorithm_is_here() -> None:
    import ncp_control.rl

    assert {kind.__name__ for kind in RECURRENT} == {name for name in dir(ncp_control.rl) if name.startswith("Recurr")}
