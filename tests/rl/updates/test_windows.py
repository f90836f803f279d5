"""Where critics without a memory judge a circuit, a faster update trains both as Stable-Baselines3's does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import VecNormalize
from torch import nn

from helpers.off_policy_models import Scaled, build, envs
from helpers.weights import assert_same, moved, weights
from ncp_control.rl.updates import windows
from ncp_control.rl.updates.windows import WindowUpdate, is_layered

RATE = 1e-4


def trained(make: Callable[[], Any] = envs, **settings: Any) -> Any:
    return build(env=make(), learning_rate=RATE, **settings).learn(120)


CASES: dict[str, dict[str, Any]] = {
    "window": {"critic": "window"},
    "no memory": {"critic": "mlp"},
    "other sizes": {"critic": "window", "sequence": 1, "burn_in": 2, "batch_size": 7},
    "no burn-in": {"critic": "mlp", "burn_in": 0},
    "hidden layers of the actor": {"critic": "window", "net_arch": {"pi": [6, 5], "qf": [16, 8]}, "cell": "cfc"},
    "rates of its own": {"critic": "window", "circuit_lr_scale": 10.0, "gradient_steps": 3, "train_freq": 2},
    "a dictionary": {"critic": "window", "make": partial(envs, as_dict=True)},
    "normalised": {"critic": "window", "make": lambda: VecNormalize(envs())},
}


@pytest.mark.parametrize("case", CASES)
def test_a_training_is_that_of_stable_baselines3_up_to_rounding(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = trained(**CASES[case])
    assert isinstance(ours._update, WindowUpdate)
    monkeypatch.setattr(windows, "is_layered", lambda model: False)
    theirs = trained(**CASES[case])
    assert not hasattr(theirs, "_update")
    assert ours._n_updates == theirs._n_updates > 20
    stock = weights(theirs)
    for name, value in weights(ours).items():
        torch.testing.assert_close(value, stock[name], rtol=0, atol=RATE, msg=name)  # one step of Adam moves it so far
    assert abs(float((ours.log_ent_coef - theirs.log_ent_coef).detach())) < RATE / 10
    mine, other = (model.logger.name_to_value for model in (ours, theirs))
    for key in ("train/critic_loss", "train/actor_loss", "train/ent_coef_loss"):
        assert mine[key] == pytest.approx(other[key], rel=1e-2), key


@pytest.mark.parametrize(
    "settings",
    [
        {"critic": "circuit"},
        {"critic": "lstm"},
        {"critic": "window", "activation_fn": nn.Tanh},
        {"critic": "window", "use_sde": True},
        {"critic": "window", "features_extractor_class": Scaled},
    ],
)
def test_what_has_other_parts_is_trained_by_stable_baselines3(settings: dict[str, Any]) -> None:
    model = trained(**settings)
    assert not is_layered(model)
    assert not hasattr(model, "_update")
    assert model._n_updates > 20


def test_a_frozen_circuit_stays_as_it_is() -> None:
    model = build(critic="window")
    model.actor.features_extractor.requires_grad_(False)
    before = weights(model)
    model.learn(120)
    found = moved(before, weights(model))
    assert "actor.mu.weight" in found
    assert not [name for name in found if "circuit" in name]


def test_a_saved_model_continues_as_if_it_had_not_stopped(tmp_path: Any) -> None:
    model = trained(critic="window")
    model.save(tmp_path / "model.zip")
    model.save_replay_buffer(tmp_path / "buffer.pkl")
    again = type(model).load(tmp_path / "model.zip", device="cpu")
    again.load_replay_buffer(tmp_path / "buffer.pkl")
    again.set_logger(configure(None, []))
    for one in (model, again):
        one.set_random_seed(3)
        one.train(4, 32)
    assert_same(weights(model), weights(again))


def test_another_size_of_batch_is_made_room_for() -> None:
    model = trained(critic="window")
    for asked, rows in ((32, 32), (7, 4), (3, 4)):
        model.train(1, asked)
        assert model._update.batch == rows
