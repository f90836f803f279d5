"""Ensembles: the mean of their members."""

import pytest
import torch

from helpers.dynamics_models import make_model
from helpers.oscillators import oscillators
from ncp_control.dynamics import Ensemble


def test_an_ensemble_is_the_mean_of_its_members() -> None:
    models = [make_model("gru", 4), make_model("ltc", 5)]
    ensemble = Ensemble(models)
    history = torch.randn(3, 6, 2) + 3
    each = ensemble.predict_each(history, 7)
    assert each.shape == (2, 3, 7, 2)
    for model, own in zip(models, each, strict=True):
        torch.testing.assert_close(own, model.predict(history, 7))
    torch.testing.assert_close(ensemble.predict(history, 7), each.mean(0))
    whole, state = ensemble(history)
    first, half = ensemble(history[:, :4])
    second, _ = ensemble(history[:, 4:], state=half)
    torch.testing.assert_close(torch.cat([first, second], 1), whole, rtol=1e-4, atol=1e-4)
    assert state.shape == (3, 9)
    with pytest.raises(ValueError, match="at least one model"):
        Ensemble([])
    with pytest.raises(ValueError, match="predict the same from the same"):
        Ensemble([models[0], make_model(rollouts=oscillators(actions=True), reads="observations+actions")])
