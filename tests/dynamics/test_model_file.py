"""Files of models and ensembles."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from helpers.dynamics_models import CELLS, make_model
from helpers.oscillators import oscillators
from ncp_control import save
from ncp_control.checkpoint import CheckpointError
from ncp_control.data import Rollouts
from ncp_control.dynamics import Ensemble, load_model, save_model


@pytest.mark.parametrize("cell", CELLS)
def test_a_file_gives_back_the_model(cell: str, tmp_path: Path) -> None:
    rollouts = oscillators(actions=True, elapsed=True)
    model = make_model(cell, rollouts=rollouts, reads="observations+actions", residual=True)
    path = tmp_path / "model.safetensors"
    save_model(model, path, {"seed": 3})
    read = load_model(path)
    seen, acts = torch.randn(2, 5, 2), torch.randn(2, 5, 1)
    torch.testing.assert_close(read(seen, acts, ahead=1.5)[0], model(seen, acts, ahead=1.5)[0], rtol=0, atol=0)
    assert read.note == {"seed": 3}
    assert read.observation_names == ("x", "y")
    torch.testing.assert_close(read.starts, model.starts)


def test_a_file_gives_back_an_ensemble(tmp_path: Path) -> None:
    ensemble = Ensemble([make_model("gru", 4), make_model("ltc", 5), make_model("mlp", 6)])
    save_model(ensemble, tmp_path / "three.safetensors")
    read = load_model(tmp_path / "three.safetensors")
    history = torch.randn(1, 6, 2) + 3
    assert isinstance(read, Ensemble)
    assert len(read.models) == 3
    torch.testing.assert_close(read.predict(history, 4), ensemble.predict(history, 4), rtol=0, atol=0)


def test_other_files_are_refused(tmp_path: Path) -> None:
    model = make_model("ltc")
    save(model.rnn, tmp_path / "bare.safetensors")
    with pytest.raises(CheckpointError, match="a network, not a model of the dynamics"):
        load_model(tmp_path / "bare.safetensors")
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        load_model(tmp_path / "nothing.safetensors")
    save_model(model, tmp_path / "whole.safetensors")
    content = (tmp_path / "whole.safetensors").read_bytes()
    (tmp_path / "short.safetensors").write_bytes(content[:-30])
    with pytest.raises(CheckpointError, match="cut short"):
        load_model(tmp_path / "short.safetensors")
    with pytest.raises(TypeError, match="DynamicsModel or an Ensemble"):
        save_model(model.rnn, tmp_path / "rnn.safetensors")  # type: ignore[arg-type]


def test_the_shipped_model_knows_the_cheetah() -> None:
    path = Path(__file__).parents[2] / "checkpoints" / "halfcheetah-dynamics.safetensors"
    assert path.stat().st_size < 2e6
    model = load_model(path)
    assert (model.features, model.action_size) == (17, 6)


def test_the_shipped_model_stays_finite_where_nobody_acts() -> None:
    """It changes an observation by no more than its bounded neurons allow, also where none of its rollouts went."""
    model = load_model(Path(__file__).parents[2] / "checkpoints" / "halfcheetah-dynamics.safetensors")
    future = model.predict(model.starts[:4, None], 200, torch.zeros(4, 200, 6))
    assert future.shape == (4, 200, 17)
    assert future.isfinite().all()


def test_a_file_gives_back_the_unit_of_time(tmp_path: Path) -> None:
    seconds = [replace(one, elapsed=0.02 * one.elapsed) for one in oscillators(elapsed=True)]
    model = make_model("ltc", rollouts=Rollouts(tuple(seconds)))
    assert model.time_unit == pytest.approx(0.02)
    save_model(model, tmp_path / "model.safetensors")
    read, seen = load_model(tmp_path / "model.safetensors"), torch.randn(2, 5, 2)
    torch.testing.assert_close(read(seen, ahead=0.03)[0], model(seen, ahead=0.03)[0], rtol=0, atol=0)
