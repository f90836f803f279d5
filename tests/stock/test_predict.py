"""What `predict` takes and returns, as a user of Stable-Baselines3 knows it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.evaluation import evaluate_policy

from helpers.stock_models import Anything, build, copies, of_all, of_recurrent


@of_recurrent
def test_one_observation_equals_a_batch_of_one_and_a_row_of_many(kind: Any) -> None:
    model = build(kind)
    seen = np.random.default_rng(0).uniform(-1, 1, (5, 2)).astype(np.float32)
    many, states = model.predict(seen, deterministic=True)
    for row, action in zip(seen, many, strict=True):
        alone, state = model.predict(row, deterministic=True)
        assert alone.shape == (2,)
        np.testing.assert_allclose(alone, action, rtol=1e-5, atol=1e-6)
        batch, again = model.predict(row[None], deterministic=True)
        np.testing.assert_array_equal(batch, alone[None])
        np.testing.assert_array_equal(state[0], again[0])
    assert states[0].shape[:2] == (1, 5)


@of_recurrent
def test_a_state_remembers_until_an_episode_starts(kind: Any) -> None:
    model = build(kind)
    cues, still = np.array([[1.0, 0.0], [-1.0, 0.0]], np.float32), np.zeros((2, 2), np.float32)
    fresh, _ = model.predict(still, deterministic=True)
    _, state = model.predict(cues, deterministic=True)
    remembered, _ = model.predict(still, state, np.array([False, False]), deterministic=True)
    assert np.abs(remembered - fresh).max() > 1e-5
    reset, _ = model.predict(still, state, np.array([True, False]), deterministic=True)
    np.testing.assert_allclose(reset, [fresh[0], remembered[1]], rtol=1e-5, atol=1e-6)


@of_all
def test_deterministic_actions_repeat_and_others_explore(kind: Any) -> None:
    model = build(kind)
    seen = model.env.reset()
    first, again = (model.predict(seen, deterministic=True)[0] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    found = evaluate_policy(model, copies(kind), 4, deterministic=True, return_episode_rewards=True, warn=False)
    assert found == ([15.0] * 4, [5] * 4)
    if kind.__name__ in ("RecurrentPPO", "RecurrentA2C", "RecurrentSAC"):
        assert (model.predict(seen)[0] != model.predict(seen)[0]).any()


@of_recurrent
def test_the_pair_that_reset_returns_is_refused_with_the_fix(kind: Any) -> None:
    for space in (spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Dict(a=spaces.Discrete(3))):
        make = partial(Anything, space)
        model = build(kind, copies(kind, 1, make))
        with pytest.raises(ValueError, match=r"mixing Gym API.*pass the observation alone") as caught:
            model.predict(make().reset())
        assert "\n" not in str(caught.value)
        model.predict(make().reset()[0])


@of_recurrent
@pytest.mark.parametrize("cell", ["ltc", "neuralltc", "cfc", "ctrnn", "neuralode", "ctgru", "lstm", "gru", "mlp"])
def test_a_cells_name_alone_is_enough(cell: str, kind: Any) -> None:

    model = kind("NCPPolicy", Anything(), policy_kwargs={"cell": cell}, device="cpu", seed=0)
    assert model.predict(np.zeros(2, np.float32))[0].shape == (2,)
    known = model.policy.circuit_kwargs["wiring"]
    assert known == 40 if cell in ("ctgru", "lstm", "gru", "mlp") else known.units == 40
