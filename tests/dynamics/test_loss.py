"""The loss that a fit minimises."""

import torch

from helpers.dynamics_models import make_model
from helpers.oscillators import oscillators
from ncp_control.data import Windows
from ncp_control.dynamics.fitting import draw_starts, fit_loss, step_loss


def test_a_robust_loss_counts_outliers_less() -> None:
    targets = torch.zeros(1, 3, 2)
    predictions = torch.tensor([[[0.1, 0.1], [0.2, 0.0], [10.0, 10.0]]])
    each = torch.tensor([0.01, 0.02, 100.0])
    torch.testing.assert_close(step_loss(predictions, targets, None, 0.0), each.mean())
    torch.testing.assert_close(step_loss(predictions, targets, None, 2.0), (2 * torch.log(1 + each / 2)).mean())
    weight = torch.tensor([4.0, 1.0])
    torch.testing.assert_close(step_loss(predictions, targets, weight, 0.0), ((predictions**2) * weight).mean())


def test_the_loss_of_a_horizon_is_that_of_the_models_own_predictions() -> None:
    rollouts = oscillators(actions=True)
    model = make_model("ltc", rollouts=rollouts, reads="observations+actions")
    batch = Windows(rollouts, 9, 7)[[0, 3, 11]]
    drawn = draw_starts(9, 4, torch.Generator().manual_seed(5), torch.device("cpu"))
    found = fit_loss(model, batch, None, 0.0, 4, drawn)
    assert batch.actions is not None
    starts = torch.randint(0, 9 - 4 + 1, (4,), generator=torch.Generator().manual_seed(5)).tolist()
    free = []
    for start in starts:
        predictions = model.predict(batch.observations[:, : start + 1], 4, batch.actions[:, : start + 4])
        free.append((predictions[:, 1:] - batch.targets[:, start + 1 : start + 4]).square())
    forced = (model(batch.observations, batch.actions)[0] - batch.targets).square().mean()
    torch.testing.assert_close(found, 0.5 * (forced + torch.stack(free).mean()), rtol=1e-4, atol=1e-5)
    shares = [fit_loss(model, batch, None, 0.0, 4, drawn, share) for share in (1.0, 0.25)]
    torch.testing.assert_close(shares[0], forced)
    torch.testing.assert_close(shares[1], 0.25 * forced + 0.75 * torch.stack(free).mean(), rtol=1e-4, atol=1e-5)
    found.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
