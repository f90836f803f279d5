"""Errors of predictions one step ahead."""

import torch

from helpers.exact_model import Exact
from helpers.oscillators import oscillators
from ncp_control.data import Windows
from ncp_control.dynamics import one_step_error
from ncp_control.dynamics.errors import robust_error, squared_errors


def test_errors_of_a_model_that_is_exact() -> None:
    rollouts = oscillators(steps=60)
    assert one_step_error(Exact(), rollouts) < 1e-12
    errors = squared_errors(Exact(), Windows(rollouts, 20, 10))
    assert errors.shape == (6 * 5, 20, 2)


def test_the_robust_error_is_the_median_over_rollouts() -> None:
    rollouts = oscillators(count=3, steps=20)
    windows = Windows(rollouts, 10, 10)
    errors = torch.zeros(len(windows), 10, 2)
    assert windows.counts == [2, 2, 2]
    errors[2:4], errors[4:] = 1.0, 100.0
    assert robust_error(errors, windows) == 1.0
