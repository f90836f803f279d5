"""Scalers bring each feature to mean 0 and standard deviation 1, and back."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from helpers.rollouts import rollouts_of
from ncp_control.data import Rollout, Rollouts, Scaler
from ncp_control.data import scaler as scaler_module


def test_a_scaler_is_fitted_to_the_training_data_only() -> None:
    rollouts = rollouts_of(*[30] * 5)
    split = rollouts.split()
    scaler = Scaler.fit(split.train)
    rows = np.concatenate([rollout.observations for rollout in split.train])
    assert_allclose(scaler.mean, rows.mean(0))
    assert_allclose(scaler.std, rows.std(0))
    scaled = scaler.transform(rows)
    assert_allclose(scaled.mean(0), 0, atol=1e-12)
    assert_allclose(scaled.std(0), 1)


def test_inverse_undoes_transform() -> None:
    scaler = Scaler.fit(rollouts_of(30))
    values = np.random.default_rng(1).normal(size=(4, 5, 3))
    assert_allclose(scaler.inverse(scaler.transform(values)), values)
    for dtype in (torch.float32, torch.float64):
        tensor = torch.tensor(values, dtype=dtype)
        scaled = scaler.transform(tensor)
        assert scaled.dtype == dtype
        assert_allclose(scaled.numpy(), scaler.transform(values), atol=1e-5 if dtype == torch.float32 else 1e-12)
        torch.testing.assert_close(scaler.inverse(scaled), tensor)


@pytest.mark.parametrize("constant", [0.0, 1.0, -1e6, 0.1])
def test_a_feature_that_never_changes_keeps_its_scale(constant: float) -> None:
    values = np.random.default_rng(0).normal(size=(1000, 2))
    values[:, 1] = constant
    scaler = Scaler.fit(Rollouts((Rollout(values),)))
    assert scaler.std[1] == 1.0
    assert_allclose(scaler.transform(values)[:, 1], 0, atol=1e-9)


def test_the_scale_does_not_depend_on_how_the_rows_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).normal(loc=1e6, size=(1000, 3))
    rollouts = Rollouts((Rollout(values[:10]), Rollout(values[10:300]), Rollout(values[300:])))
    for block in (2**16, 7):
        monkeypatch.setattr(scaler_module, "BLOCK", block)
        found, changes = Scaler.fit(rollouts), Scaler.fit(rollouts, "changes")
        assert_allclose(found.mean, values.mean(0), rtol=1e-14)
        assert_allclose(found.std, values.std(0), rtol=1e-9)
        parts = [np.diff(part, axis=0) for part in (values[:10], values[10:300], values[300:])]
        assert_allclose(changes.std, np.concatenate(parts).std(0), rtol=1e-12)


def test_squares_that_overflow_have_a_scale() -> None:
    values = 1e200 * np.random.default_rng(0).normal(size=(50, 2))
    found = Scaler.fit(Rollouts((Rollout(values),)))
    assert_allclose(found.std / 1e200, (values / 1e200).std(0))
    assert_allclose(found.mean / 1e200, (values / 1e200).mean(0))


def test_a_scaler_of_actions_needs_actions() -> None:
    rollouts = rollouts_of(30, actions=2)
    assert_allclose(Scaler.fit(rollouts, "actions").mean, rollouts[0].actions.mean(0))
    with pytest.raises(ValueError, match="no actions"):
        Scaler.fit(rollouts_of(30), "actions")
    with pytest.raises(ValueError, match="not to 'rewards'"):
        Scaler.fit(rollouts, "rewards")
