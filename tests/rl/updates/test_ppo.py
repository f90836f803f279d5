"""Recurrent PPO of ours collects what sb3-contrib's collects, and learns the same from it, up to rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sb3_contrib import RecurrentPPO as ContribRecurrentPPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import configure

from helpers.collecting_models import CRITICS, ROLLOUT, SPACES, build
from ncp_control.rl import RecurrentPPO
from ncp_control.rl.policies.recurrent import NCPPolicy

ARRAYS = ("actions", "rewards", "values", "log_probs", "advantages", "returns", "episode_starts")
STATES = ("states_pi", "states_vf")
# Theirs runs the critic one step at a time, ours in one scan, where a processor may add in another order: over a
# rollout that is some tens of units in the last place of float32 (6e-8). What environments give has no such error.
ROUNDING = {"rtol": 1e-5, "atol": 1e-5}
GIVEN = ("episode_starts", "new_obs", "dones")


class Watcher(BaseCallback):
    """Keeps what a callback sees; ends the training at a step if it is told to."""

    def __init__(self, last: int | None = None) -> None:
        super().__init__()
        self.last = last
        self.seen: list[dict[str, Any]] = []

    def _on_step(self) -> bool:
        kept = ("n_steps", "new_obs", "rewards", "dones", "clipped_actions", "actions")
        self.seen.append({name: np.copy(self.locals[name]) for name in kept if not isinstance(self.locals[name], dict)})
        self.seen[-1] |= {"timesteps": self.num_timesteps, "infos": len(self.locals["infos"])}
        return len(self.seen) != self.last


def collected(kind: Any, model: RecurrentPPO, rollouts: int = 3, last: int | None = None) -> list[dict[str, Any]]:
    """Collects rollouts with the method of a class, and returns what is in the buffer after each, and what was seen."""
    watcher = Watcher(last)
    _, callback = model._setup_learn(10**6, watcher)
    found = []
    for _ in range(rollouts):
        went_on = kind.collect_rollouts(model, model.env, callback, model.rollout_buffer, ROLLOUT)
        buffer = model.rollout_buffer
        kept = {name: getattr(buffer, name).copy() for name in ARRAYS + STATES}
        seen = buffer.observations
        kept |= {f"seen {key}": each.copy() for key, each in (seen if isinstance(seen, dict) else {"": seen}).items()}
        kept |= {f"last {k}": one[0].numpy() for k, one in enumerate(model._last_lstm_states)}
        found.append(kept | {"went on": went_on, "steps": model.num_timesteps, "watched": list(watcher.seen)})
    return found


def assert_alike(ours: Any, theirs: Any, name: str = "") -> None:
    """Holds two results together: what was computed up to rounding, everything else exactly."""
    if isinstance(ours, list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_alike(one, other)
    elif isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        for key, value in ours.items():
            assert_alike(value, theirs[key], key)
    elif not isinstance(ours, np.ndarray):
        assert ours == theirs, name
    elif ours.dtype.kind != "f" or name in GIVEN or name.startswith("seen "):
        np.testing.assert_array_equal(ours, theirs, err_msg=name, strict=True)
    else:
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), name
        np.testing.assert_allclose(ours, theirs, err_msg=name, **ROUNDING)


@pytest.mark.parametrize("critic", CRITICS)
@pytest.mark.parametrize("as_dict", [False, True])
def test_a_rollout_is_that_of_sb3_contrib(critic: str, as_dict: bool) -> None:
    ours, theirs = (collected(kind, build(critic, as_dict)) for kind in (RecurrentPPO, ContribRecurrentPPO))
    assert np.ptp(ours[0]["values"]) > 0.01
    assert_alike(ours, theirs)


@pytest.mark.parametrize("space", SPACES[1:])
def test_a_rollout_of_choices_is_that_of_sb3_contrib(space: Any) -> None:
    assert_alike(*(collected(kind, build(space=space)) for kind in (RecurrentPPO, ContribRecurrentPPO)))


@pytest.mark.parametrize("settings", [{"sde_sample_freq": 3}, {"sde_sample_freq": -1}])
def test_a_rollout_with_state_dependent_exploration_is_that_of_sb3_contrib(settings: Any) -> None:
    models = (build(use_sde=True, **settings) for _ in range(2))
    kinds = (RecurrentPPO, ContribRecurrentPPO)
    assert_alike(*(collected(kind, model) for kind, model in zip(kinds, models, strict=True)))


def test_a_training_that_a_callback_ends_can_go_on() -> None:
    found = []
    for kind in (RecurrentPPO, ContribRecurrentPPO):
        model = build("lstm")
        stopped = collected(kind, model, rollouts=1, last=ROLLOUT // 2)
        assert not stopped[0]["went on"]
        callback = model._setup_learn(10**6, None, reset_num_timesteps=False)[1]
        assert kind.collect_rollouts(model, model.env, callback, model.rollout_buffer, ROLLOUT)
        found.append([{name: getattr(model.rollout_buffer, name).copy() for name in ARRAYS + STATES}])
    assert_alike(*found)


def test_a_forward_of_ones_own_is_called_at_every_step() -> None:
    model, calls = build(), []
    forward = model.policy.forward
    model.policy.forward = lambda *args, **settings: calls.append(1) or forward(*args, **settings)  # type: ignore[func-returns-value]
    ours, theirs = collected(RecurrentPPO, model, 1), collected(RecurrentPPO, build(), 1)
    assert len(calls) == ROLLOUT
    assert_alike(ours, theirs)


def test_a_callback_may_change_how_far_actions_spread() -> None:
    class Narrower(BaseCallback):
        def _on_step(self) -> bool:
            with torch.no_grad():
                self.model.policy.log_std -= 0.1  # type: ignore[operator]
            return True

    found = []
    for kind in (RecurrentPPO, ContribRecurrentPPO):
        model = build()
        callback = model._setup_learn(10**6, Narrower())[1]
        kind.collect_rollouts(model, model.env, callback, model.rollout_buffer, ROLLOUT)
        found.append(model.rollout_buffer.log_probs.copy())
    np.testing.assert_allclose(*found, **ROUNDING)


def test_a_policy_that_reads_observations_in_its_own_way_reads_them_so_at_every_step() -> None:
    class Doubled(NCPPolicy):
        def extract_features(self, *args: Any) -> Any:
            return 2 * super().extract_features(*args)

    found = []
    for kind in (RecurrentPPO, ContribRecurrentPPO):
        model = build()
        model.policy.__class__ = Doubled
        found.append(collected(kind, model, 1))
    assert_alike(*found)


def test_values_after_a_rollout_are_of_its_own_length() -> None:
    model = build("lstm", n_steps=10, sequence=5, batch_size=10)
    model.learn(2 * 10 * model.n_envs)
    assert model.rollout_buffer.states_vf.shape[0] == 2


def test_actions_that_are_not_numbers_are_refused_while_collecting() -> None:
    model = build()
    with torch.no_grad():
        model.policy.action_net.bias.fill_(float("nan"))
    with pytest.raises(ValueError, match="to satisfy the constraint"):
        collected(RecurrentPPO, model, 1)


LEARNING: dict[str, dict[str, Any]] = {
    "Gaussian": {},
    "clipped values": {"clip_range_vf": 0.1, "vf_coef": 2.0, "ent_coef": 0.1},
    "plain advantages": {"normalize_advantage": False, "max_grad_norm": 0.1},
    "ends early": {"target_kl": 1e-4, "learning_rate": 0.01},
    "choices": {"space": SPACES[1], "ent_coef": 0.1},
    "many choices": {"space": SPACES[2], "ent_coef": 0.1},
    "state-dependent exploration": {"use_sde": True, "ent_coef": 0.1},
}


@pytest.mark.parametrize("settings", LEARNING.values(), ids=LEARNING)
def test_a_training_is_that_of_sb3_contrib_up_to_rounding(settings: dict[str, Any]) -> None:
    weights, logs, updates = [], [], []
    for kind in (RecurrentPPO, ContribRecurrentPPO):
        model = build(n_epochs=4, **settings)
        model.set_logger(configure(None, []))
        collected(RecurrentPPO, model, 1)
        np.random.seed(0)
        torch.manual_seed(0)
        kind.train(model)
        weights.append({name: value.clone() for name, value in model.policy.state_dict().items()})
        logs.append(dict(model.logger.name_to_value))
        updates.append(model._n_updates)
    start = build(n_epochs=4, **settings).policy.state_dict()
    for name, value in weights[0].items():
        torch.testing.assert_close(
            value, weights[1][name], rtol=2e-4, atol=2e-5, msg=lambda text, n=name: f"{n}: {text}"
        )
    assert max(float((value - start[name]).abs().max()) for name, value in weights[0].items() if value.numel()) > 1e-3
    assert updates[0] == updates[1]
    assert logs[0].keys() == logs[1].keys()
    for name, number in logs[1].items():
        assert logs[0][name] == pytest.approx(number, rel=1e-3, abs=1e-5), name


def test_a_clip_range_that_falls_is_that_of_the_moment() -> None:
    shares = []
    for left in (1.0, 0.0):
        model = build(n_epochs=4, clip_range=lambda left: 0.2 * left)
        model.set_logger(configure(None, []))
        collected(RecurrentPPO, model, 1)
        model._current_progress_remaining = left
        model.train()
        shares.append(model.logger.name_to_value["train/clip_fraction"])
    # Steps of 3e-4 change no probability by a fifth; after the first of eight, none is exactly what it was.
    assert shares[0] < 0.1
    assert shares[1] > 0.5
