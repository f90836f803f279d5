"""Models of the dynamics: their equations, and what they refuse."""

import numpy as np
import pytest
import torch

from helpers.dynamics_models import CELLS, make_model
from helpers.oscillators import oscillators
from ncp_control import AutoNCP
from ncp_control.data import Scaler, Windows
from ncp_control.dynamics import DynamicsModel, Ensemble, Simulator


@pytest.mark.parametrize("residual", [False, True])
def test_forward_is_the_equation(residual: bool) -> None:
    train = oscillators()
    model = make_model("ltc", residual=residual)
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
    model = make_model(cell, rollouts=rollouts, reads="observations+actions")
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
    model = make_model(cell, rollouts=oscillators(actions=True), reads="observations+actions")
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


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_a_free_run_is_one_prediction_after_another(cell: str, residual: bool) -> None:
    rollouts = oscillators(actions=True, elapsed=True)
    model = make_model(cell, rollouts=rollouts, reads="observations+actions", residual=residual).double()
    last, acts, ahead = torch.randn(3, 1, 2) * 20 + 3, torch.randn(3, 6, 1), 0.1 + torch.rand(3, 6)
    last, acts, ahead = last.double(), acts.double(), ahead.double()
    state = model(last, acts[:, :1], None, ahead[:, :1])[1].detach()
    for time in (ahead, 0.7):
        found, end = model.run_free(last, state, 6, acts, time)
        wanted, wanted_end = Simulator.run_free(model, last, state, 6, acts, time)
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(end, wanted_end, rtol=1e-6, atol=1e-6)
        names, values = zip(*model.named_parameters(), strict=True)
        grads = [torch.autograd.grad(one.square().sum(), values, materialize_grads=True) for one in (found, wanted)]
        for name, own, other in zip(names, *grads, strict=True):
            torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-5, msg=name)


def test_what_no_rollout_has_shown_cannot_run_away() -> None:
    model = make_model("ltc", residual=False)
    far = torch.full((1, 3, 2), 1e20)
    assert model.predict(far, 50).isfinite().all()
    edge = model.mean + model.clip * model.std
    torch.testing.assert_close(model(far)[0], model(edge.expand(1, 3, 2))[0])


def test_elapsed_time_reaches_the_cell_or_is_an_input() -> None:
    rollouts = oscillators(elapsed=True)
    for cell, told in (("ltc", False), ("gru", True)):
        model = make_model(cell, rollouts=rollouts)
        assert model.timed
        assert model.tells_time is told
        seen = torch.randn(2, 6, 2) + 3
        slow, fast = model(seen, ahead=2.0)[0], model(seen, ahead=0.5)[0]
        assert not torch.allclose(slow, fast)
        torch.testing.assert_close(model(seen, ahead=torch.full((2, 6), 2.0))[0], slow)
        assert model.predict(seen, 3, ahead=torch.ones(2, 8)).shape == (2, 3, 2)
        with pytest.raises(ValueError, match="pass it the time"):
            model(seen)


def test_windows_say_how_long_until_their_targets() -> None:
    rollouts = oscillators(count=1, steps=12, elapsed=True)
    batch = Windows(rollouts, 5, 3)[1]
    assert batch.ahead is not None
    assert rollouts[0].elapsed is not None
    np.testing.assert_allclose(batch.ahead[0].numpy(), rollouts[0].elapsed[4:9])
    assert Windows(oscillators(), 5)[0].ahead is None


def test_bad_input_is_refused_in_a_sentence() -> None:
    model = make_model()
    acting = make_model(rollouts=oscillators(actions=True), reads="observations+actions")
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
    other = make_model("mlp", rollouts=oscillators(actions=True), reads="observations+actions")
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
    timed = make_model(rollouts=oscillators(elapsed=True))
    with pytest.raises(ValueError, match=r"\(ahead\) as a number, or of shape \(1, 4\), got \(1, 3\)"):
        timed(seen, ahead=torch.ones(1, 3))
    with pytest.raises(ValueError, match=r"a horizon of 3 .* of shape \(1, 6\), got \(1, 4\)"):
        timed.predict(seen, 3, ahead=torch.ones(1, 4))
    with pytest.raises(ValueError, match="no actions: fit a model of the observations alone"):
        DynamicsModel.of(oscillators(), reads="observations+actions")
    with pytest.raises(ValueError, match="a model reads observations or observations"):
        DynamicsModel.of(oscillators(), reads="pixels")
    with pytest.raises(ValueError, match="needs a change_scaler"):
        DynamicsModel(scaler=Scaler.fit(oscillators()), residual=True)
    with pytest.raises(ValueError, match="unknown cell"):
        DynamicsModel.of(oscillators(), "ltcc")


@pytest.mark.parametrize("cell", ["ltc", "gru"])
@pytest.mark.parametrize("members", [1, 2])
def test_a_timed_model_does_not_wait_for_its_device_in_a_step(cell: str, members: int) -> None:
    """On torch's device "meta", where nothing has a value, a wait for one is an error."""
    models = [make_model(cell, rollouts=oscillators(elapsed=True)) for _ in range(members)]
    model: Simulator = (models[0] if members == 1 else Ensemble(models)).to("meta")
    history, ahead = (torch.empty(3, *size, device="meta") for size in ((4, 2), (8,)))
    assert model.continued(history, 5, None, ahead).shape == (3, 5, 2)
    assert Simulator.run_free(model, history[:, :1], model(history, ahead=ahead[:, :4])[1], 4, None, ahead[:, 4:])


def test_old_names_still_work_and_warn() -> None:
    rollouts = oscillators(actions=True)
    with pytest.warns(DeprecationWarning, match="argument inputs of a DynamicsModel is now reads"):
        model = DynamicsModel.of(rollouts, "gru", 4, inputs="observations+actions")
    assert model.reads == "observations+actions"
    scaler = Scaler.fit(rollouts)
    with pytest.warns(DeprecationWarning, match="argument inputs of a DynamicsModel is now reads"):
        assert DynamicsModel("gru", 4, scaler=scaler, inputs="observations").reads == "observations"
    with pytest.warns(DeprecationWarning, match="DynamicsModel.inputs is now reads"):
        assert model.inputs == "observations+actions"
    for one in (model, Ensemble([model])):
        with pytest.warns(DeprecationWarning, match=r"actions, the number of actions, is now action_size"):
            assert one.actions == 1


@pytest.mark.parametrize("cell", ["ltc", "gru"])
@pytest.mark.parametrize(
    ("ahead", "words"),
    [
        (-1.0, "ahead is -1.0: the time until a prediction"),
        (float("nan"), "ahead is nan"),
        (torch.tensor(-1.0), "ahead is -1.0"),
        (torch.tensor([[1.0, 0.0, -2.0, 1.0]]), r"ahead\[0, 2\] is -2.0: .* so sort the data by time first"),
        (torch.tensor([[1.0, 1.0, 1.0, torch.inf]]), r"ahead\[0, 3\] is inf"),
    ],
)
def test_times_that_run_backwards_are_refused(cell: str, ahead: torch.Tensor | float, words: str) -> None:
    model = make_model(cell, rollouts=oscillators(elapsed=True))
    for predict in (model.predict, Ensemble([model, model]).predict):
        with pytest.raises(ValueError, match=words):
            predict(torch.zeros(1, 2, 2), 3, ahead=ahead)
        with pytest.raises(ValueError, match=words):
            model(torch.zeros(1, 4, 2), ahead=ahead)
    assert model.predict(torch.zeros(1, 2, 2), 3, ahead=torch.zeros(1, 4)).shape == (1, 3, 2)
