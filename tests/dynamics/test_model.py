"""Models of the dynamics: their equations, their predictions, their files."""

from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.exact_model import Exact
from helpers.oscillators import oscillators
from ncp_control import AutoNCP, save
from ncp_control.checkpoint import CheckpointError
from ncp_control.data import Rollouts, Scaler, Windows
from ncp_control.dynamics import DynamicsModel, Ensemble, FitSettings, fit, load_model, one_step_error, save_model
from ncp_control.dynamics.errors import robust_error, squared_errors
from ncp_control.dynamics.lagged import LaggedMLP
from ncp_control.dynamics.loss import fit_loss, of_steps

CELLS = ("ltc", "neuralltc", "cfc", "ctrnn", "neuralode", "ctgru", "lstm", "gru", "mlp")


def make(cell: str = "gru", units: int = 5, rollouts: Rollouts | None = None, **arguments: object) -> DynamicsModel:
    torch.manual_seed(0)
    model = DynamicsModel.of(rollouts or oscillators(), cell, units, **arguments)  # type: ignore[arg-type]
    with torch.no_grad():  # a residual model starts from zeros, which would hide half of the equation
        model.readout.weight.normal_()
        model.readout.bias.normal_()
    return model


@pytest.mark.parametrize("residual", [False, True])
def test_forward_is_the_equation(residual: bool) -> None:
    train = oscillators()
    model = make("ltc", residual=residual)
    seen = torch.randn(3, 7, 2) + 3
    values = np.concatenate([rollout.observations for rollout in train])
    mean, std = (torch.tensor(found, dtype=torch.float32) for found in (values.mean(0), values.std(0)))
    y, state = model.rnn((seen - mean) / std)
    found = model.readout(y)
    changes = np.concatenate([np.diff(rollout.observations, axis=0) for rollout in train])
    wanted = seen + torch.tensor(changes.std(0), dtype=torch.float32) * found if residual else mean + std * found
    predictions, own = model(seen)
    torch.testing.assert_close(predictions, wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(own, state)


def test_a_new_residual_model_says_that_nothing_changes() -> None:
    model = DynamicsModel.of(oscillators(), "cfc", AutoNCP(9, 3), residual=True)
    seen = torch.randn(2, 5, 2)
    torch.testing.assert_close(model(seen)[0], seen)


@pytest.mark.parametrize("cell", CELLS)
def test_step_by_step_is_the_whole_sequence(cell: str) -> None:
    rollouts = oscillators(actions=True)
    model = make(cell, rollouts=rollouts, inputs="observations+actions")
    seen, acts = torch.randn(3, 6, 2) + 3, torch.randn(3, 6, 1)
    whole, last = model(seen, acts)
    state, found = None, []
    for t in range(6):
        one, state = model(seen[:, t : t + 1], acts[:, t : t + 1], state)
        found.append(one)
    torch.testing.assert_close(torch.cat(found, 1), whole, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(state, last, rtol=1e-4, atol=1e-4)
    predictions, states = model.unrolled(seen, acts)
    torch.testing.assert_close(predictions, whole)
    torch.testing.assert_close(states[:, -1], last)


@pytest.mark.parametrize("cell", ["ltc", "lstm", "mlp"])
def test_predict_feeds_the_model_its_own_predictions(cell: str) -> None:
    model = make(cell, rollouts=oscillators(actions=True), inputs="observations+actions")
    history, acts = torch.randn(2, 4, 2) + 3, torch.randn(2, 4 + 5 - 1, 1)
    found = model.predict(history, 5, acts)
    assert found.shape == (2, 5, 2)
    seen = history
    for _ in range(5):  # from the beginning each time, with what was predicted so far
        with torch.no_grad():
            predictions, _ = model(seen, acts[:, : seen.shape[1]])
        seen = torch.cat([seen, predictions[:, -1:]], 1)
    torch.testing.assert_close(found, seen[:, 4:], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(model.predict(history[0], 5, acts[0]), found[0], rtol=1e-4, atol=1e-4)


def test_what_no_rollout_has_shown_cannot_run_away() -> None:
    model = make("ltc", residual=False)
    far = torch.full((1, 3, 2), 1e20)
    assert model.predict(far, 50).isfinite().all()
    edge = model.mean + model.clip * model.std
    torch.testing.assert_close(model(far)[0], model(edge.expand(1, 3, 2))[0])


def test_elapsed_time_reaches_the_cell_or_is_an_input() -> None:
    rollouts = oscillators(elapsed=True)
    for cell, told in (("ltc", False), ("gru", True)):
        model = make(cell, rollouts=rollouts)
        assert model.timed
        assert model.tells_time is told
        seen = torch.randn(2, 6, 2) + 3
        slow, fast = model(seen, ahead=2.0)[0], model(seen, ahead=0.5)[0]
        assert not torch.allclose(slow, fast)
        torch.testing.assert_close(model(seen, ahead=torch.full((2, 6), 2.0))[0], slow)
        assert model.predict(seen, 3, ahead=torch.ones(2, 8)).shape == (2, 3, 2)
        with pytest.raises(ValueError, match="tell it the time"):
            model(seen)


def test_windows_say_how_long_until_their_targets() -> None:
    rollouts = oscillators(count=1, steps=12, elapsed=True)
    batch = Windows(rollouts, 5, 3)[1]
    assert batch.ahead is not None
    assert rollouts[0].elapsed is not None
    np.testing.assert_allclose(batch.ahead[0].numpy(), rollouts[0].elapsed[4:9])
    assert Windows(oscillators(), 5)[0].ahead is None


def test_bad_input_is_refused_in_a_sentence() -> None:
    model = make()
    acting = make(rollouts=oscillators(actions=True), inputs="observations+actions")
    seen = torch.zeros(1, 4, 2)
    with pytest.raises(ValueError, match="reads 2 observations a step"):
        model.predict(torch.zeros(1, 4, 3), 2)
    with pytest.raises(ValueError, match="reads no actions"):
        model.predict(seen, 2, torch.zeros(1, 5, 1))
    with pytest.raises(ValueError, match="reads actions: give it the 1"):
        acting.predict(seen, 2)
    with pytest.raises(ValueError, match="go with 5 actions, but there are 4"):
        acting.predict(seen, 2, torch.zeros(1, 4, 1))
    with pytest.raises(ValueError, match="horizon must be at least one"):
        model.predict(seen, 0)
    with pytest.raises(ValueError, match="no observation to go on from"):
        model.predict(torch.zeros(1, 0, 2), 1)
    pushes = torch.zeros(1, 4, 1)
    other = make("mlp", rollouts=oscillators(actions=True), inputs="observations+actions")
    for one in (acting, other, Ensemble([acting])):  # called as they are, they refuse the same
        for observations, actions, words in (
            (seen, None, "reads actions: give it the 1"),
            (seen, torch.zeros(1, 4, 3), "reads 1 actions a step"),
            (seen, torch.zeros(1, 3, 1), "4 observations go with 4 actions, but there are 3"),
            (torch.zeros(2, 4, 2), pushes, "2 sequences of observations, but 1 of actions"),
            (torch.zeros(1, 4, 1), pushes, "reads 2 observations a step"),
            (seen[0], pushes[0], "reads 2 observations a step"),
        ):
            with pytest.raises(ValueError, match=words):
                one(observations, actions)
        with pytest.raises(ValueError, match="state must have"):
            one(seen, pushes, torch.zeros(1, 99))
        with pytest.raises(TypeError, match=r"these observations are a ndarray: torch\.as_tensor"):
            one(seen.numpy(), pushes)
        with pytest.raises(TypeError, match="these actions are a ndarray"):
            one.predict(seen[0], 2, np.zeros((5, 1)))
    with pytest.raises(ValueError, match="reads no actions"):
        model(seen, seen)
    with pytest.raises(ValueError, match="reads actions: give it the 1"):
        acting.unrolled(seen)
    timed = make(rollouts=oscillators(elapsed=True))
    with pytest.raises(ValueError, match=r"\(ahead\) as a number, or of shape \(1, 4\), got \(1, 3\)"):
        timed(seen, ahead=torch.ones(1, 3))
    with pytest.raises(ValueError, match=r"a horizon of 3 .* of shape \(1, 6\), got \(1, 4\)"):
        timed.predict(seen, 3, ahead=torch.ones(1, 4))
    with pytest.raises(ValueError, match="no actions: fit a model of the observations alone"):
        DynamicsModel.of(oscillators(), inputs="observations+actions")
    with pytest.raises(ValueError, match="inputs are observations or observations"):
        DynamicsModel.of(oscillators(), inputs="pixels")
    with pytest.raises(ValueError, match="needs a change_scaler"):
        DynamicsModel(scaler=Scaler.fit(oscillators()), residual=True)
    with pytest.raises(ValueError, match="unknown cell"):
        DynamicsModel.of(oscillators(), "ltcc")


def test_lags_are_the_last_inputs() -> None:
    torch.manual_seed(1)
    network = LaggedMLP(3, 4, lags=3)
    inputs = torch.randn(2, 6, 3)
    outputs, last = network(inputs)
    seen = torch.cat([inputs[:, 3], inputs[:, 4], inputs[:, 5]], -1)
    torch.testing.assert_close(outputs[:, 5], torch.tanh(network.hidden(seen)))
    first = torch.cat([torch.zeros(2, 6), inputs[:, 0]], -1)
    torch.testing.assert_close(outputs[:, 0], torch.tanh(network.hidden(first)))
    torch.testing.assert_close(last, inputs[:, 4:].flatten(1))
    one, _ = LaggedMLP(3, 4, lags=1)(inputs)
    assert one.shape == (2, 6, 4)


def test_an_ensemble_is_the_mean_of_its_members() -> None:
    models = [make("gru", 4), make("ltc", 5)]
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
        Ensemble([models[0], make(rollouts=oscillators(actions=True), inputs="observations+actions")])


@pytest.mark.parametrize("cell", CELLS)
def test_a_file_gives_back_the_model(cell: str, tmp_path: Path) -> None:
    rollouts = oscillators(actions=True, elapsed=True)
    model = make(cell, rollouts=rollouts, inputs="observations+actions", residual=True)
    path = tmp_path / "model.safetensors"
    save_model(model, path, {"seed": 3})
    read = load_model(path)
    seen, acts = torch.randn(2, 5, 2), torch.randn(2, 5, 1)
    torch.testing.assert_close(read(seen, acts, ahead=1.5)[0], model(seen, acts, ahead=1.5)[0], rtol=0, atol=0)
    assert read.note == {"seed": 3}
    assert read.observation_names == ("x", "y")
    torch.testing.assert_close(read.starts, model.starts)


def test_a_file_gives_back_an_ensemble(tmp_path: Path) -> None:
    ensemble = Ensemble([make("gru", 4), make("ltc", 5), make("mlp", 6)])
    save_model(ensemble, tmp_path / "three.safetensors")
    read = load_model(tmp_path / "three.safetensors")
    history = torch.randn(1, 6, 2) + 3
    assert isinstance(read, Ensemble)
    assert len(read.models) == 3
    torch.testing.assert_close(read.predict(history, 4), ensemble.predict(history, 4), rtol=0, atol=0)


def test_other_files_are_refused(tmp_path: Path) -> None:
    model = make("ltc")
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


def test_a_robust_loss_counts_outliers_less() -> None:
    targets = torch.zeros(1, 3, 2)
    predictions = torch.tensor([[[0.1, 0.1], [0.2, 0.0], [10.0, 10.0]]])
    each = torch.tensor([0.01, 0.02, 100.0])
    torch.testing.assert_close(of_steps(predictions, targets, None, 0.0), each.mean())
    torch.testing.assert_close(of_steps(predictions, targets, None, 2.0), (2 * torch.log(1 + each / 2)).mean())
    weight = torch.tensor([4.0, 1.0])
    torch.testing.assert_close(of_steps(predictions, targets, weight, 0.0), ((predictions**2) * weight).mean())


def test_the_loss_of_a_horizon_is_that_of_the_models_own_predictions() -> None:
    rollouts = oscillators(actions=True)
    model = make("ltc", rollouts=rollouts, inputs="observations+actions")
    batch = Windows(rollouts, 9, 7)[[0, 3, 11]]
    found = fit_loss(model, batch, None, 0.0, 4, torch.Generator().manual_seed(5))
    assert batch.actions is not None
    starts = torch.randint(0, 9 - 4 + 1, (4,), generator=torch.Generator().manual_seed(5)).tolist()
    free = []
    for start in starts:
        predictions = model.predict(batch.observations[:, : start + 1], 4, batch.actions[:, : start + 4])
        free.append((predictions[:, 1:] - batch.targets[:, start + 1 : start + 4]).square())
    forced = (model(batch.observations, batch.actions)[0] - batch.targets).square().mean()
    torch.testing.assert_close(found, 0.5 * (forced + torch.stack(free).mean()), rtol=1e-4, atol=1e-5)
    found.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("cell", ["ltc", "mlp"])
def test_a_fit_learns_the_oscillators(cell: str) -> None:
    rollouts = oscillators(count=8, steps=120, actions=True)
    parts = rollouts.split()
    torch.manual_seed(0)
    model = DynamicsModel.of(parts.train, cell, 16, inputs="observations+actions", residual=True)
    before = one_step_error(model, parts.test, 20)
    settings = FitSettings(epochs=25, length=20, stride=5, learning_rate=0.02, schedule="cosine", loss="normalised")
    found = fit(model, parts, settings, progress=False)
    assert found.best is not None
    assert len(found.curve) == 25
    assert one_step_error(model, parts.test, 20) < 0.05 * before


def test_the_shipped_model_knows_the_cheetah() -> None:
    path = Path(__file__).parents[2] / "checkpoints" / "halfcheetah-dynamics.safetensors"
    assert path.stat().st_size < 2e6
    model = load_model(path)
    assert (model.features, model.actions) == (17, 6)
    # nobody acts, and the body comes to rest instead of running off
    future = model.predict(model.starts[:4, None], 200, torch.zeros(4, 200, 6))
    assert future.isfinite().all()
    assert future[:, -20:, 8].abs().mean() < 1.0
