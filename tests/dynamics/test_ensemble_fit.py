"""Fits of ensembles."""

from pathlib import Path

import pytest
import torch

from helpers.oscillators import oscillators
from ncp_control.dynamics import DynamicsModel, FitSettings, load_model
from ncp_control.dynamics.fitting import fit_ensemble
from ncp_control.runs.run import BEST

PARTS = oscillators(actions=True).split()


def weights(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([value.detach().reshape(-1) for value in model.parameters()])


def test_an_ensemble_is_fitted_from_several_seeds(tmp_path: Path) -> None:
    settings = FitSettings(epochs=1, length=16, stride=8)
    made = lambda: DynamicsModel.of(PARTS.train, "gru", 4, reads="observations+actions")  # noqa: E731
    ensemble, fits = fit_ensemble(made, PARTS, settings, 2, out=tmp_path, progress=False)
    assert len(fits) == 2
    one, two = (weights(model) for model in ensemble.models)
    assert not torch.equal(one, two)
    read = load_model(tmp_path / BEST)
    assert torch.equal(weights(read), weights(ensemble))
    intervals = [one.predict_interval(torch.zeros(4, 2), 5, torch.zeros(8, 1)) for one in (ensemble, read)]
    torch.testing.assert_close(*intervals, rtol=0, atol=0)
    assert (intervals[0].low < intervals[0].high).all()
    with pytest.raises(ValueError, match="at least two members"):
        fit_ensemble(made, PARTS, settings, 1)
