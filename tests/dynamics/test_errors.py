"""Errors of predictions one step ahead."""

import pytest
import torch

from helpers.dynamics_models import make_model
from helpers.exact_model import Exact
from helpers.oscillators import oscillators
from ncp_control.base.ranks import Ranks
from ncp_control.data import Rollouts, Windows
from ncp_control.dynamics import DynamicsModel, one_step_error
from ncp_control.dynamics.errors import free_errors, robust_error, rollout_errors, squared_errors, window_errors


def test_errors_of_a_model_that_is_exact() -> None:
    rollouts = oscillators(steps=60)
    assert one_step_error(Exact(), rollouts) < 1e-12
    errors = squared_errors(Exact(), Windows(rollouts, 20, 10))
    assert errors.shape == (6 * 5, 20, 2)


def test_the_error_of_a_window_is_its_mean_squared_error() -> None:
    rollouts = oscillators(steps=60)
    model, windows = DynamicsModel.of(rollouts, "gru", 3), Windows(rollouts, 20, 10)
    errors = squared_errors(model, windows).double()
    torch.testing.assert_close(window_errors(model, windows), errors.mean((1, 2)))
    weight = torch.tensor([2.0, 0.5])
    torch.testing.assert_close(window_errors(model, windows, weight), (errors * weight).mean((1, 2)))
    assert one_step_error(model, rollouts, 20) == pytest.approx(float(errors.mean()))


def test_the_robust_error_is_the_median_over_rollouts() -> None:
    rollouts = oscillators(count=3, steps=20)
    windows = Windows(rollouts, 10, 10)
    errors = torch.zeros(len(windows))
    assert windows.counts == [2, 2, 2]
    errors[2:4], errors[4:] = 1.0, 100.0
    assert robust_error(errors, windows) == 1.0


def test_a_rollout_that_is_shorter_than_a_window_has_no_error() -> None:
    lengths = oscillators(count=1, steps=20)[0], oscillators(count=1, steps=5)[0], oscillators(count=1, steps=10)[0]
    windows = Windows(Rollouts(lengths), 10, 10)
    errors = torch.tensor([1.0, 2.0, 4.0])
    found = rollout_errors(errors, windows)
    assert found[[0, 2]].tolist() == [1.5, 4.0]
    assert found[1].isnan()
    assert robust_error(errors, windows) == 2.75


@pytest.mark.parametrize("robust", [0.0, 0.5])
def test_free_errors_are_those_of_the_models_own_predictions(robust: float) -> None:
    rollouts = oscillators(actions=True)
    model = make_model("ltc", rollouts=rollouts, reads="observations+actions")
    windows, weight = Windows(rollouts, 9, 7), torch.rand(model.features)
    found = free_errors(model, windows, 4, weight, robust, Ranks())
    batch = windows[[2]]
    assert batch.actions is not None
    predictions = model.predict(batch.observations[:, :6], 4, batch.actions)[:, 1:]
    steps = ((predictions - batch.targets[:, 6:]).square() * weight).mean(-1)
    wanted = robust * torch.log1p(steps / robust) if robust else steps
    assert float(found[2]) == pytest.approx(float(wanted.mean()), rel=1e-5)
